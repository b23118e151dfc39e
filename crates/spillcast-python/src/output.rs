//! The folder of a recording: written from rows of any origin, checked and renamed.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Mutex;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::Value;
use spillcast_recording::json::Document;
use spillcast_recording::{Bounds, Kept, Output, folder};

use crate::arrow::import;
use crate::error::{failed, wrong};
use crate::recorder::Recorder;
use crate::recording::Rows;

/// Writes the waits and per-second rows of one recording, and its folder.
///
/// Raw waits go to parts of equal time. When there are too many rows or parts, or the disk is full,
/// every second part is dropped and from then on only every second one is kept: the rest is spread
/// evenly over the run. The per-second rows are never thinned out.
#[pyclass(frozen, module = "spillcast._core")]
pub struct RecordingWriter(Mutex<Option<Output>>);

#[pymethods]
impl RecordingWriter {
    /// `slices` is the number of parts whose waits are kept; `rows_max` and `parts_max` are the
    /// limits without it. InputError if no recording can be written at `path`.
    #[new]
    #[pyo3(signature = (
        path, slices = None, *, share = false, force = false, rows_max = Bounds::ROWS,
        parts_max = Bounds::PARTS
    ))]
    fn new(
        path: PathBuf,
        slices: Option<usize>,
        share: bool,
        force: bool,
        rows_max: u64,
        parts_max: usize,
    ) -> PyResult<RecordingWriter> {
        let bounds = Bounds { rows: rows_max, parts: parts_max, ..Bounds::of(slices) };
        let output = Output::new(&path, bounds, share, force).map_err(failed)?;
        Ok(RecordingWriter(Mutex::new(Some(output))))
    }

    /// The folder that is being written.
    #[getter]
    fn folder(&self, py: Python<'_>) -> PyResult<PathBuf> {
        self.with(py, |output| Some(output.folder().to_owned()))
    }

    /// Add the rows of a capture: always of the same one, and no others.
    fn add_rows(&self, py: Python<'_>, rows: &Bound<'_, Rows>) -> PyResult<()> {
        let batch = &rows.get().0;
        self.with(py, |output| {
            output.add_batch(batch);
            Some(())
        })
    }

    /// Add raw waits. ValueError for other columns.
    fn add_waits(&self, py: Python<'_>, waits: &Bound<'_, PyAny>) -> PyResult<()> {
        let columns = import(waits)?;
        let added = self.with(py, |o| o.writer.as_mut().map(|w| w.add_waits(&columns)));
        added?.map_err(wrong)
    }

    /// Add per-second rows. ValueError for other columns.
    fn add_seconds(&self, py: Python<'_>, seconds: &Bound<'_, PyAny>) -> PyResult<()> {
        let columns = import(seconds)?;
        let added = self.with(py, |o| o.writer.as_mut().map(|w| w.add_seconds(&columns)));
        added?.map_err(wrong)
    }

    /// Write a JSON document beside the rows.
    fn add_document(&self, py: Python<'_>, name: &str, document: &str) -> PyResult<()> {
        let value: Value = serde_json::from_str(document).map_err(wrong)?;
        self.with(py, |output| Some(output.add_document(name, &value)))?.map_err(failed)
    }

    /// Write the Parquet files; times are relative to `zero_ns` after the recording's start.
    fn finish_rows(&self, py: Python<'_>, zero_ns: u64) -> PyResult<()> {
        self.with(py, |output| Some(output.finish_rows(zero_ns as i64)))?.map_err(failed)
    }

    /// Write the stacks that a recorder has sampled, if there are any and there is room for them.
    fn add_stacks(&self, py: Python<'_>, recorder: &Bound<'_, Recorder>) -> PyResult<()> {
        let stacks = recorder.get().stacks(py);
        self.with(py, |output| {
            stacks.iter().for_each(|stacks| output.add_stacks(stacks));
            Some(())
        })
    }

    /// Write meta.json and give the recording its name. Returns the path, meta.json, and sums of
    /// the rows (written_bytes, to temp files and to others; other_files by name).
    ///
    /// `because` tells what else could not be kept.
    #[pyo3(signature = (meta, because = None))]
    fn publish<'py>(
        &self,
        py: Python<'py>,
        meta: &str,
        because: Option<String>,
    ) -> PyResult<(PathBuf, String, Bound<'py, PyDict>)> {
        let meta = serde_json::from_str(meta).map_err(wrong)?;
        let output = self.take(py).ok_or_else(ended)?;
        let sums = row_sums(py, &output.kept)?;
        let (path, meta) = py.detach(|| output.publish(meta, because)).map_err(failed)?;
        Ok((path, meta.text(), sums))
    }

    /// Remove everything that was written.
    fn discard(&self, py: Python<'_>) {
        let output = self.take(py);
        py.detach(|| drop(output));
    }
}

impl RecordingWriter {
    /// Releases the GIL, because the thread that holds the mutex may be waiting for it. ValueError
    /// if the recording, or what `work` needs of it, is complete.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Output) -> Option<T> + Send,
    ) -> PyResult<T> {
        let done = py.detach(|| self.0.lock().expect("no holder panics").as_mut().and_then(work));
        done.ok_or_else(ended)
    }

    fn take(&self, py: Python<'_>) -> Option<Output> {
        py.detach(|| self.0.lock().expect("no holder panics").take())
    }
}

/// `written_bytes` and, by file that is not temp, bytes written and read, from the rows that were
/// kept.
fn row_sums<'py>(py: Python<'py>, kept: &Kept) -> PyResult<Bound<'py, PyDict>> {
    let sums = PyDict::new(py);
    sums.set_item("written_bytes", kept.written_bytes)?;
    let files = PyDict::new(py);
    for (name, file) in &kept.other_files {
        files.set_item(name, (file.written_bytes, file.read_bytes))?;
    }
    sums.set_item("other_files", files)?;
    Ok(sums)
}

fn ended() -> PyErr {
    PyValueError::new_err("the recording is written already")
}

/// A new private folder, later renamed to `path`; removed with this object or its process.
#[pyclass(module = "spillcast._core")]
pub struct PartialFolder(Option<folder::PartialFolder>);

#[pymethods]
impl PartialFolder {
    /// InputError if another recorder is writing something of that name.
    #[new]
    fn new(path: PathBuf) -> PyResult<PartialFolder> {
        Ok(PartialFolder(Some(folder::PartialFolder::new(&path).map_err(failed)?)))
    }

    #[getter]
    fn path(&self) -> PyResult<PathBuf> {
        Ok(self.0.as_ref().ok_or_else(ended)?.path.clone())
    }

    /// Remove the folder, unless it was renamed.
    fn close(&mut self, py: Python<'_>) {
        let folder = self.0.take();
        py.detach(|| drop(folder));
    }
}

/// InputError unless a recording can be written at `path`; an existing one is replaced only with
/// `force`.
#[pyfunction]
#[pyo3(signature = (path, *, force = false))]
pub fn check_output(path: PathBuf, force: bool) -> PyResult<()> {
    folder::check_output(&path, force).map_err(failed)
}

/// InputError if another recorder is writing what will be called `path`.
#[pyfunction]
pub fn check_free(path: PathBuf) -> PyResult<()> {
    folder::check_free(&path).map_err(failed)
}

/// The path if it is free; otherwise the first free one with -2, -3 and so on after its stem.
#[pyfunction]
pub fn unused_name(path: PathBuf) -> PathBuf {
    folder::unused_name(&path)
}

/// Whether a folder of that name is for a recording that is being written, or was.
#[pyfunction]
pub fn is_partial(name: OsString) -> bool {
    folder::finished_name(&name).is_some()
}
