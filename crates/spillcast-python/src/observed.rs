//! What /proc and control groups show of observed processes.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use spillcast_core::probe::is_network;
use spillcast_core::proc;
use spillcast_recording::cgroups::{self, CGROUPS};
use spillcast_recording::file_sizes::{self, SizedFile};
use spillcast_recording::limits as core;
use spillcast_recording::memory_group;
use spillcast_recording::{device_name, without_secrets};

use crate::error::os_error;

/// The peak resident memory of a process and its descendants, polled.
#[pyclass(module = "spillcast._core")]
pub struct PeakMemory(core::PeakMemory);

#[pymethods]
impl PeakMemory {
    #[new]
    fn new(pid: i32) -> PeakMemory {
        PeakMemory(core::PeakMemory::new(pid, false))
    }

    /// Poll more processes from now on.
    #[pyo3(signature = (*pids))]
    fn add(&mut self, pids: Vec<i32>) {
        self.0.add(pids);
    }

    /// Read the kernel's high-water mark of each process that still runs, if a poll is due.
    fn look(&mut self, py: Python<'_>) {
        py.detach(|| self.0.look());
    }

    /// Sum of the peaks, which is an upper bound; None if nothing could be read.
    #[getter]
    fn peak_bytes(&self) -> Option<u64> {
        self.0.peak_bytes()
    }

    /// The most that its tightest memory cgroup held without pages of files; None without a group.
    #[getter]
    fn group_held_bytes(&self) -> Option<u64> {
        self.0.group().map(|group| group.1)
    }
}

/// The folders of the groups that control this process, innermost first.
#[pyfunction]
pub fn group_folders(controller: &str) -> Vec<PathBuf> {
    cgroups::folders(own_pid(), controller, Path::new(CGROUPS))
}

/// For each limited memory group of a process: the limit, and bytes held without pages of files.
#[pyfunction]
#[pyo3(signature = (pid = own_pid(), cgroups = PathBuf::from(CGROUPS)))]
pub fn memory_groups(pid: i32, cgroups: PathBuf) -> Vec<(u64, u64)> {
    core::memory_groups(pid, &cgroups)
}

/// Create a memory cgroup with this limit. ValueError tells why that failed.
#[pyfunction]
pub fn make_memory_group(limit_bytes: u64) -> PyResult<PathBuf> {
    memory_group::make(limit_bytes).map_err(PyValueError::new_err)
}

/// A size that a file of /proc gives in kB, in bytes; None if the line is missing.
#[pyfunction]
pub fn status_bytes(path: &str, name: &str) -> Option<u64> {
    proc::status_bytes(path, name)
}

/// Time since the start of a process whose name contains `called`; None if there is none.
#[pyfunction]
#[pyo3(signature = (pid, called = ""))]
pub fn age_s(pid: i32, called: &str) -> Option<f64> {
    proc::age_s(pid, called)
}

/// The largest existing files that are not temp, from the bytes read of each by name.
#[pyfunction]
pub fn inputs_of(read_bytes: HashMap<String, i64>) -> Vec<(String, u64)> {
    sizes(file_sizes::inputs_of(read_bytes.iter().map(|(name, bytes)| (name, *bytes))))
}

/// Of the files that existed before, those in folders of temp files, largest first.
#[pyfunction]
pub fn temp_of(before: HashMap<String, u64>, folders: Vec<String>) -> Vec<(String, u64)> {
    let known: Vec<&str> = folders.iter().map(|folder| folder.trim_end_matches('/')).collect();
    sizes(file_sizes::temp_of(SizedFile::list(before), |folder| known.contains(&folder)))
}

fn sizes(files: Vec<SizedFile>) -> Vec<(String, u64)> {
    files.into_iter().map(|file| (file.file, file.bytes)).collect()
}

type Mounted = (String, String, Option<bool>, PathBuf, String, Option<String>);

/// The mount of an absolute path: device, type, whether it is on a network (None if unknown),
/// point, options, and the block device's name.
///
/// As listed by the kernel, without accessing the file system: the path may be gone. None if no
/// mount is listed.
#[pyfunction]
pub fn mounted(path: PathBuf) -> PyResult<Option<Mounted>> {
    let mount = spillcast_core::probe::mounted(&path).map_err(os_error)?;
    Ok(mount.map(|mount| {
        let (network, name) = (is_network(&mount.filesystem), device_name(&mount.device));
        let options = without_secrets(&mount.options);
        (mount.device, mount.filesystem, network, mount.point, options, name)
    }))
}

fn own_pid() -> i32 {
    std::process::id() as i32
}
