//! Emulated storage: a mount that lives as long as its Python object.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use spillcast_core::emulate::{self as core, Delay};

use crate::os_error;

/// A directory mounted with a delay per operation; `unmount()` or the end of the process ends it.
#[pyclass(module = "spillcast._core")]
pub struct Emulation(Option<core::Emulation>);

#[pymethods]
impl Emulation {
    /// Show `backing` at `mountpoint`. OSError says what is missing.
    #[new]
    #[pyo3(signature = (backing, mountpoint, *, read_ns, write_ns, read_ns_per_byte=0.0,
                        write_ns_per_byte=0.0, servers=None))]
    fn new(
        backing: PathBuf,
        mountpoint: PathBuf,
        read_ns: u64,
        write_ns: u64,
        read_ns_per_byte: f64,
        write_ns_per_byte: f64,
        servers: Option<usize>,
    ) -> PyResult<Emulation> {
        let delay = Delay { read_ns, write_ns, read_ns_per_byte, write_ns_per_byte, servers };
        let mounted = core::Emulation::mount(&backing, &mountpoint, delay).map_err(os_error)?;
        Ok(Emulation(Some(mounted)))
    }

    /// Operations and bytes so far.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.0.as_ref().map(core::Emulation::stats).unwrap_or_default();
        let dict = PyDict::new(py);
        dict.set_item("reads", stats.reads)?;
        dict.set_item("read_bytes", stats.read_bytes)?;
        dict.set_item("writes", stats.writes)?;
        dict.set_item("written_bytes", stats.written_bytes)?;
        Ok(dict)
    }

    /// Unmount; files that are open there keep working until they are closed.
    fn unmount(&mut self, py: Python<'_>) -> PyResult<()> {
        match self.0.take() {
            Some(emulation) => py.detach(|| emulation.unmount()).map_err(os_error),
            None => Ok(()),
        }
    }
}
