//! Captures, and commands held back until a capture is ready.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use spillcast_core::capture::{self as core, CallKind, TempRules};

use crate::os_error;
use crate::recording::{Seconds, Waits};

type JoinedProcess = (i32, Option<u64>, u64, Option<(u64, u64, u64)>, u64);

/// A running capture of the file I/O of some processes.
#[pyclass(module = "spillcast._core")]
pub struct Capture(core::Capture);

#[pymethods]
impl Capture {
    /// Observe processes and all they start. ValueError for a source that serves another capture
    /// already, OSError says what is refused.
    #[new]
    fn new(
        py: Python<'_>,
        source: &Bound<'_, Source>,
        pids: Vec<i32>,
        temp_dirs: Vec<PathBuf>,
    ) -> PyResult<Capture> {
        let source = source.borrow_mut().0.take().ok_or_else(in_use)?;
        let start = || core::Capture::start(source, &pids, TempRules::new(temp_dirs));
        Ok(Capture(py.detach(start).map_err(os_error)?))
    }

    /// Observe one more process and all it starts from now on. OSError says what is refused.
    fn attach(&self, py: Python<'_>, pid: i32) -> PyResult<()> {
        py.detach(|| self.0.attach(pid)).map_err(os_error)
    }

    /// Observe children that `parent` starts from now on and whose command line holds `title`.
    fn attach_children(&mut self, parent: i32, title: &str) -> PyResult<()> {
        self.0.attach_children(parent, title).map_err(os_error)
    }

    /// Processes attached while the capture ran: pid, start and attachment on CLOCK_MONOTONIC, the
    /// calls that read, that wrote, and their bytes before that, and the temp files open by then.
    fn joined(&self) -> Vec<JoinedProcess> {
        let before = |process: &core::Joined| process.before.map(|b| (b.reads, b.writes, b.bytes));
        let process =
            |p: &core::Joined| (p.pid, p.started_ns, p.attached_ns, before(p), p.temp_files);
        self.0.joined().iter().map(process).collect()
    }

    /// CLOCK_MONOTONIC at the start of the recording.
    #[getter]
    fn origin_ns(&self) -> u64 {
        self.0.origin_ns()
    }

    /// What was gathered since the last call: waits, seconds.
    fn take(&self, py: Python<'_>) -> (Waits, Seconds) {
        let batch = py.detach(|| self.0.take());
        (Waits(batch.waits), Seconds(batch.seconds))
    }

    /// Counts and costs so far.
    fn status<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let status = self.0.status();
        let dict = PyDict::new(py);
        dict.set_item("elapsed_ns", status.elapsed_ns)?;
        fields! { dict, status.counts => temp_reads temp_writes temp_bytes temp_ns other_io
        other_writes other_io_ns unknown_file temp_copies temp_copied_bytes io_uring_depth io_uring_busy_ns }
        fields! { dict, status.observed => calls switches }
        fields! { dict, status => lost dropped tracer_cpu_ns cpu_ns run_queue_delay_ns
        run_queue_others_ns io_uring file_faults file_fault_ns mapped running connected sampled }
        Ok(dict)
    }

    /// Read what is left and end; the observed processes go on, in what was recorded unless that
    /// is `over`.
    #[pyo3(signature = (*, over = false))]
    fn stop(&mut self, py: Python<'_>, over: bool) {
        if over {
            self.0.end_run();
        }
        py.detach(|| self.0.stop());
    }
}

/// A capture source made ready; nothing is observed yet.
#[pyclass(module = "spillcast._core")]
pub struct Source(Option<Box<dyn core::Source>>);

#[pymethods]
impl Source {
    /// `calls` are those to observe, by the kernel's names; None for all that read, write or change
    /// what a descriptor stands for. OSError says why the source cannot be used here, ValueError
    /// which name is none.
    #[new]
    #[pyo3(signature = (name, calls = None))]
    fn new(py: Python<'_>, name: &str, calls: Option<Vec<String>>) -> PyResult<Source> {
        let (open, calls) = source_of(name, calls)?;
        Ok(Source(Some(py.detach(|| open(&calls)).map_err(os_error)?)))
    }

    /// The environment variable that a program must find: name, value; None where it needs none.
    fn environment(&self) -> PyResult<Option<(&'static str, String)>> {
        Ok(self.0.as_ref().ok_or_else(in_use)?.environment())
    }
}

/// What makes a source ready, and the calls that it is to observe.
pub fn source_of(name: &str, calls: Option<Vec<String>>) -> PyResult<(core::Open, Vec<CallKind>)> {
    let unknown = |what: &str| PyValueError::new_err(format!("{what} is not observed"));
    let known = core::SOURCES.iter().find(|(known, _)| *known == name);
    let (_, open) = known.ok_or_else(|| PyValueError::new_err("no such source"))?;
    let calls = match calls {
        Some(names) => {
            let named = |name: &String| CallKind::named(name).ok_or_else(|| unknown(name));
            names.iter().map(named).collect::<PyResult<Vec<_>>>()?
        }
        None => CallKind::ALL.to_vec(),
    };
    Ok((*open, calls))
}

fn in_use() -> PyErr {
    PyValueError::new_err("a source serves one capture only")
}

pub fn strings(list: Vec<OsString>) -> PyResult<Vec<CString>> {
    list.into_iter().map(|text| Ok(CString::new(text.into_vec())?)).collect()
}

/// A command that is started but does nothing until it is released.
#[pyclass(module = "spillcast._core")]
pub struct HeldCommand(Option<core::HeldCommand>, i32);

#[pymethods]
impl HeldCommand {
    /// `arguments[0]` is the path of the program, `environment` holds NAME=value.
    #[new]
    fn new(arguments: Vec<OsString>, environment: Vec<OsString>) -> PyResult<HeldCommand> {
        let held = core::HeldCommand::start(&strings(arguments)?, &strings(environment)?);
        let held = held.map_err(os_error)?;
        let pid = held.pid;
        Ok(HeldCommand(Some(held), pid))
    }

    #[getter]
    fn pid(&self) -> i32 {
        self.1
    }

    /// Let the program run. OSError says why it could not be started.
    fn release(&mut self, py: Python<'_>) -> PyResult<()> {
        if let Some(held) = self.0.take() {
            py.detach(|| held.release()).map_err(os_error)?;
        }
        Ok(())
    }
}
