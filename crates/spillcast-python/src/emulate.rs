//! Emulated storage: a mount that lives as long as its Python object.

use std::io;
use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde_json::json;
use spillcast_core::emulate as core;

use crate::behaviour::Behaviour;
use crate::error::os_error;

/// A mounted directory with given latencies, until `unmount()` or the end of the process.
#[pyclass(module = "spillcast._core")]
pub struct Emulation(Option<core::Emulation>);

#[pymethods]
impl Emulation {
    /// Show `backing` at `mountpoint`.
    ///
    /// `behaviour` has the attributes of `spillcast.storage.model.Behaviour`. ValueError if a
    /// directory cannot be used; OSError if anything else is missing.
    #[new]
    #[pyo3(signature = (backing, mountpoint, behaviour, *, page_cache=false))]
    fn new(
        py: Python<'_>,
        backing: PathBuf,
        mountpoint: PathBuf,
        behaviour: Behaviour,
        page_cache: bool,
    ) -> PyResult<Emulation> {
        let model = behaviour.into_core()?;
        let mount = || core::Emulation::mount(&backing, &mountpoint, model, page_cache);
        let mounted = py.detach(mount).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => PyValueError::new_err(error.to_string()),
            _ => os_error(error),
        })?;
        Ok(Emulation(Some(mounted)))
    }

    /// Latency that the mount itself adds: op, size in bytes, ns.
    fn floor(&self) -> Vec<(Option<&'static str>, u64, u64)> {
        let floor = self.0.as_ref().map(core::Emulation::floor).unwrap_or_default();
        let point = |point: &core::FloorPoint| (point.op.name(), point.bytes, point.added_ns);
        floor.points().iter().map(point).collect()
    }

    /// Operations so far: an object of reads and one of writes.
    fn stats(&self) -> String {
        json!(self.0.as_ref().map(core::Emulation::stats).unwrap_or_default()).to_string()
    }

    /// Whether it is still mounted: any privileged user can unmount it.
    fn is_mounted(&self) -> PyResult<bool> {
        self.0.as_ref().map_or(Ok(false), |emulation| emulation.is_mounted().map_err(os_error))
    }

    /// Unmount; open files keep working until they are closed.
    fn unmount(&mut self, py: Python<'_>) -> PyResult<()> {
        match self.0.take() {
            Some(emulation) => py.detach(|| emulation.unmount()).map_err(os_error),
            None => Ok(()),
        }
    }
}
