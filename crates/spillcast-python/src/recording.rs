//! The rows of a recording: passed to Python as Arrow columns, or unchanged to the writer.

use std::collections::HashMap;

use pyo3::prelude::*;
use spillcast_core::capture as core;
use spillcast_core::wait::Wait;
use spillcast_recording::{Dictionaries, second_columns, wait_columns};

use crate::arrow::{Capsules, Table};
use crate::error::broken;

/// Raw waits of a capture; converted to columns on request.
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
        self.0.rows.row_count()
    }

    /// By name, whether a file is temp, if that was decided after rows of it were returned.
    fn decided(&self) -> HashMap<String, bool> {
        let names = self.0.names.lock().expect("no holder panics");
        let files = names.files.list();
        names.temp.iter().map(|(&id, &temp)| (files[id as usize].clone(), temp)).collect()
    }
}

/// Per-second rows of a capture; converted to columns on request.
#[pyclass(frozen, module = "spillcast._core")]
pub struct Seconds(pub Vec<core::Second>);

#[pymethods]
impl Seconds {
    /// The rows as a pair of capsules: schema and array.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Capsules<'py>> {
        Table(second_columns(&self.0).map_err(broken)?).__arrow_c_array__(py, requested_schema)
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }
}
