//! The rows of a recording: handed to Python as Arrow columns, or to the writer as they are.

use std::collections::HashMap;
use std::path::PathBuf;

use arrow_schema::ArrowError;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use spillcast_core::capture as core;
use spillcast_core::wait::Wait;
use spillcast_recording::{
    Bounds, Dictionaries, Second, Writer, second_columns, seconds_of, wait_columns, waits_of,
};

use crate::arrow::{Capsules, Table, import};
use crate::os_error;

/// Raw waits of a capture; columns are made of them when they are asked for.
#[pyclass(frozen, module = "spillcast._core")]
pub struct Waits(pub core::Waits);

#[pymethods]
impl Waits {
    /// The rows as a pair of capsules: schema and array.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Capsules<'py>> {
        let names = Dictionaries::new(&self.0.names.lock().expect("no holder panics"));
        let rows: Vec<Wait> = self.0.rows.iter().collect();
        Table(wait_columns(&rows, &names).map_err(broken)?).__arrow_c_array__(py, requested_schema)
    }

    fn __len__(&self) -> usize {
        self.0.rows.len()
    }

    /// Whether files are temp, of which that was decided after rows of them were handed out.
    fn decided(&self) -> HashMap<String, bool> {
        let names = self.0.names.lock().expect("no holder panics");
        let files = names.files.list();
        names.temp.iter().map(|(&id, &temp)| (files[id as usize].clone(), temp)).collect()
    }
}

/// Per-second rows of a capture; columns are made of them when they are asked for.
#[pyclass(frozen, module = "spillcast._core")]
pub struct Seconds(pub Vec<core::SecondRow>);

#[pymethods]
impl Seconds {
    /// The rows as a pair of capsules: schema and array.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Capsules<'py>> {
        let rows: Vec<Second> = self.0.iter().map(Second::from).collect();
        Table(second_columns(&rows).map_err(broken)?).__arrow_c_array__(py, requested_schema)
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }
}

/// Writes the waits and seconds of one recording into a folder.
#[pyclass(module = "spillcast._core")]
pub struct RecordingWriter(Option<Writer>);

#[pymethods]
impl RecordingWriter {
    /// `slices` are the parts of which single waits are kept, `rows_max` and `parts_max` the most
    /// that are kept without.
    #[new]
    #[pyo3(signature = (
        folder, slices = None, *, rows_max = Bounds::ROWS, parts_max = Bounds::PARTS
    ))]
    fn new(
        folder: PathBuf,
        slices: Option<usize>,
        rows_max: u64,
        parts_max: usize,
    ) -> PyResult<RecordingWriter> {
        let bounds = Bounds { rows: rows_max, parts: parts_max, ..Bounds::of(slices) };
        Ok(RecordingWriter(Some(Writer::new(folder, bounds).map_err(os_error)?)))
    }

    /// Take raw waits: of a capture, or columns of any other origin.
    fn add_waits(&mut self, py: Python<'_>, waits: &Bound<'_, PyAny>) -> PyResult<()> {
        let writer = self.0.as_mut().ok_or_else(ended)?;
        if let Ok(waits) = waits.cast::<Waits>() {
            let waits = &waits.get().0;
            py.detach(|| writer.add_waits(waits));
            return Ok(());
        }
        let waits = waits_of(&import(waits)?).map_err(wrong)?;
        py.detach(|| writer.add_waits(&waits));
        Ok(())
    }

    /// Take per-second rows: of a capture, or columns of any other origin.
    fn add_seconds(&mut self, py: Python<'_>, seconds: &Bound<'_, PyAny>) -> PyResult<()> {
        let writer = self.0.as_mut().ok_or_else(ended)?;
        if let Ok(seconds) = seconds.cast::<Seconds>() {
            let rows = &seconds.get().0;
            py.detach(|| writer.add_seconds(rows.iter().map(Second::from)));
            return Ok(());
        }
        let rows = seconds_of(&import(seconds)?).map_err(wrong)?;
        py.detach(|| writer.add_seconds(rows));
        Ok(())
    }

    /// Write the Parquet files; times count from `zero_ns`. What was kept, of what was seen.
    fn finish<'py>(&mut self, py: Python<'py>, zero_ns: i64) -> PyResult<Bound<'py, PyDict>> {
        let writer = self.0.take().ok_or_else(ended)?;
        let kept = py.detach(|| writer.finish(zero_ns)).map_err(os_error)?;
        let dict = PyDict::new(py);
        fields! {
            dict, kept =>
            waits waits_seen slices_ns because written_bytes waits_sums seconds_sums temp_folders
        }
        let files = PyDict::new(py);
        for (name, sums) in kept.other_files {
            files.set_item(name, (sums.written_bytes, sums.read_bytes))?;
        }
        dict.set_item("other_files", files)?;
        Ok(dict)
    }
}

/// Rename a folder to a name that is free, or exchange it with the folder that has the name.
#[pyfunction]
#[pyo3(signature = (folder, path, *, exchange = false))]
pub fn rename(folder: PathBuf, path: PathBuf, exchange: bool) -> PyResult<()> {
    spillcast_recording::rename(&folder, &path, exchange).map_err(os_error)
}

fn ended() -> PyErr {
    PyValueError::new_err("the recording is written already")
}

fn broken(error: ArrowError) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

fn wrong(error: ArrowError) -> PyErr {
    PyValueError::new_err(error.to_string())
}
