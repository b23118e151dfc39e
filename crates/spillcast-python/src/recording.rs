//! The rows of a capture, converted to Arrow columns on request.

use std::collections::HashMap;

use pyo3::prelude::*;
use spillcast_core::capture as core;
use spillcast_core::wait::Wait;
use spillcast_recording::{Dictionaries, second_columns, wait_columns};

use crate::arrow::Table;
use crate::error::broken;

/// Raw waits and per-second rows of a capture.
#[pyclass(frozen, module = "spillcast._core")]
pub struct Rows(pub core::Batch);

#[pymethods]
impl Rows {
    fn waits(&self) -> PyResult<Table> {
        table_of(&self.0.waits)
    }

    fn seconds(&self) -> PyResult<Table> {
        Ok(Table(second_columns(&self.0.seconds).map_err(broken)?))
    }

    /// By name, whether a file is temp, if that was decided after rows of it were returned.
    fn decided(&self) -> HashMap<String, bool> {
        let names = self.0.waits.names.lock().expect("no holder panics");
        let files = names.files.list();
        names.temp.iter().map(|(&id, &temp)| (files[id as usize].clone(), temp)).collect()
    }
}

pub fn table_of(waits: &core::Waits) -> PyResult<Table> {
    let names = Dictionaries::new(&waits.names.lock().expect("no holder panics"));
    let rows: Vec<Wait> = waits.rows.iter().collect();
    Ok(Table(wait_columns(&rows, &names).map_err(broken)?))
}
