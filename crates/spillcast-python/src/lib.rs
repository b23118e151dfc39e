//! The thin Python binding: Arrow in, Arrow out, progress, Ctrl-C.

mod arrow;
mod cache;
mod capture;
mod columns;
mod emulate;
mod grid;
mod perturb;
mod probe;
mod simulate;
mod trace;
mod trace_rows;

use std::io;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

/// An OSError with errno and strerror, which pyo3's own conversion leaves out.
fn os_error(error: io::Error) -> PyErr {
    let text = error.to_string();
    match error.raw_os_error() {
        Some(code) => {
            let strerror = text.split(" (os error").next().unwrap_or_default().to_owned();
            PyOSError::new_err((code, strerror))
        }
        None => PyOSError::new_err(text),
    }
}

/// What waits cost afterwards, all in ns: CPU time to read through the cache that a core usually
/// gets while it is warm; and what is added after waits of some lengths, shortest first: (wait,
/// extra).
#[pyfunction]
fn cold_cache(py: Python<'_>) -> (u64, Vec<(u64, u64)>) {
    let costs = py.detach(spillcast_core::cold_cache::measure);
    let after = costs.after.iter().map(|cost| (cost.wait_ns, cost.extra_ns));
    (costs.warm_ns, after.collect())
}

/// The size class that an operation of so many bytes falls into, in bytes.
#[pyfunction]
fn size_class_bytes(bytes: u64) -> u64 {
    spillcast_core::wait::size_class_bytes(bytes)
}

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<arrow::Table>()?;
    module.add_class::<cache::CacheCurve>()?;
    module.add_class::<cache::CacheRequests>()?;
    module.add_class::<capture::Capture>()?;
    module.add_class::<capture::HeldCommand>()?;
    module.add_class::<capture::PerfSource>()?;
    module.add_class::<capture::PreloadRing>()?;
    module.add_class::<emulate::Emulation>()?;
    module.add_class::<grid::Grid>()?;
    module.add_class::<perturb::Perturbation>()?;
    module.add_class::<probe::Probe>()?;
    module.add_class::<trace::TraceReader>()?;
    module.add_function(wrap_pyfunction!(cold_cache, module)?)?;
    module.add_function(wrap_pyfunction!(emulate::rehearse, module)?)?;
    module.add_function(wrap_pyfunction!(simulate::simulate, module)?)?;
    module.add_function(wrap_pyfunction!(size_class_bytes, module)?)?;
    Ok(())
}
