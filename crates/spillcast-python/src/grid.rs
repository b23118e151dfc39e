//! The grid: a directory in, measured groups out.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use spillcast_core::probe::grid::{self as core, Options, Outcome, Sustained};

use crate::arrow::Table;
use crate::probe;

/// A grid of op, size, depth, pattern and access, measured on a directory.
#[pyclass(frozen, module = "spillcast._core")]
pub struct Grid(core::Grid);

#[pymethods]
impl Grid {
    /// `psync` keeps io_uring out of it. ValueError for a directory that cannot be used or that is
    /// too small.
    #[new]
    #[pyo3(signature = (dir, *, budget_s, budget_bytes=None, psync=false))]
    fn new(dir: PathBuf, budget_s: f64, budget_bytes: Option<u64>, psync: bool) -> PyResult<Grid> {
        let budget = probe::duration(budget_s)?;
        let options = Options { budget, budget_bytes, psync, ..Options::new(&dir) };
        Ok(Grid(core::Grid::new(options).map_err(probe::to_python)?))
    }

    /// Measure; blocks, other threads of Python go on. Returns the groups and what else was found.
    fn run<'py>(&self, py: Python<'py>) -> PyResult<(Table, Bound<'py, PyDict>)> {
        let outcome = py.detach(|| self.0.run()).map_err(probe::to_python)?;
        Ok((probe::groups(&outcome.groups)?, facts(py, &outcome)?))
    }

    /// Milliseconds passed, milliseconds in all, bytes so far.
    fn progress(&self) -> (u64, u64, u64) {
        let progress = self.0.progress();
        (progress.steps_done, progress.steps_total, progress.bytes)
    }

    /// End a run in another thread.
    fn cancel(&self) {
        self.0.cancel();
    }
}

fn facts<'py>(py: Python<'py>, outcome: &Outcome) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    probe::place(&dict, &outcome.filesystem)?;
    let direct = outcome.direct_refusal.is_none();
    let engine = if outcome.io_uring_refusal.is_none() { "io_uring" } else { "psync" };
    dict.set_item("buffered_engine", "psync")?;
    dict.set_item("direct_engine", direct.then_some(engine))?;
    fields! { dict, outcome => direct_refusal io_uring_refusal registered_buffers file_bytes
    rounds cells cells_without_time cells_without_room elapsed_ns floor_ns }
    let sustained = outcome.sustained.as_ref().map(|sustained| written(py, sustained));
    dict.set_item("sustained", sustained.transpose()?)?;
    Ok(dict)
}

fn written<'py>(py: Python<'py>, sustained: &Sustained) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("bytes", sustained.bytes)?;
    dict.set_item("reached", sustained.sustained_bytes_per_s.is_some())?;
    fields! { dict, sustained => burst_bytes burst_bytes_per_s sustained_bytes_per_s }
    Ok(dict)
}
