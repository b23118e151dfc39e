//! Delays injected into a program that is being recorded.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use spillcast_core::capture::perturb as core;

use crate::os_error;

/// Delays the temp I/O of the programs that are started with its environment, in short stretches.
#[pyclass(module = "spillcast._core")]
pub struct Perturbation(core::Perturbation);

#[pymethods]
impl Perturbation {
    #[new]
    fn new(temp_dirs: Vec<PathBuf>) -> PyResult<Perturbation> {
        Ok(Perturbation(core::Perturbation::create(temp_dirs).map_err(os_error)?))
    }

    /// The environment variable by which a process finds the delays: name, value.
    fn environment(&self) -> (String, String) {
        let (name, value) = self.0.env();
        (name.to_owned(), value)
    }

    /// Begin, once.
    fn start(&mut self, delays_ns: (u64, u64), block_groups: u64, budget_ns: u64) {
        let delays_ns = [delays_ns.0, delays_ns.1];
        self.0.start(core::Plan { delays_ns, block_groups, budget_ns });
    }

    /// End all delays.
    fn stop(&mut self, py: Python<'_>) {
        py.detach(|| self.0.stop());
    }

    /// Whether a process has found the delays.
    #[getter]
    fn connected(&self) -> bool {
        self.0.ever_connected()
    }

    /// How many threads were delayed.
    #[getter]
    fn threads(&self) -> u64 {
        self.0.threads()
    }

    /// What the run took longer, once stopped: at least, likely, at most; in ns.
    fn cost_ns(&self) -> (u64, u64, u64) {
        self.0.cost_ns()
    }

    /// The windows that were delayed, once stopped: start and end on CLOCK_MONOTONIC, delay; in ns.
    fn windows(&self) -> Vec<(u64, u64, u64)> {
        self.0.windows().iter().map(|w| (w.start_ns, w.end_ns, w.delay_ns)).collect()
    }

    /// What each delay has done so far.
    fn delayed<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let row = |delayed: spillcast_core::capture::delay_page::Delayed| {
            let dict = PyDict::new(py);
            dict.set_item("delay_ns", delayed.delay_ns)?;
            dict.set_item("operations", delayed.operations)?;
            dict.set_item("slept_ns", delayed.slept_ns)?;
            dict.set_item("cpu_ns", delayed.cpu_ns)?;
            Ok(dict)
        };
        self.0.delayed().into_iter().map(row).collect()
    }
}
