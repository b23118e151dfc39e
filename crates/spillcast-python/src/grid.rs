//! The grid: a directory in, measured groups out.

use std::path::PathBuf;

use pyo3::prelude::*;
use spillcast_core::probe::grid::{self as core, Options};
use spillcast_recording::Measured;

use crate::error::probe_error;
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
        let options = Options { dir, budget, budget_bytes, psync };
        Ok(Grid(core::Grid::new(options).map_err(probe_error)?))
    }

    /// Measure; blocks, other threads of Python go on. Returns what `Probe.run` does.
    fn run(&self, py: Python<'_>) -> PyResult<String> {
        let outcome = py.detach(|| self.0.run()).map_err(probe_error)?;
        Ok(Measured::from(&outcome).to_json().to_string())
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
