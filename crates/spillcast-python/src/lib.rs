//! The thin Python binding: Arrow in, Arrow out, progress, Ctrl-C.

mod arrow;
mod capture;
mod columns;
mod emulate;
mod probe;

use pyo3::prelude::*;

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<arrow::Table>()?;
    module.add_class::<capture::Capture>()?;
    module.add_class::<capture::HeldCommand>()?;
    module.add_class::<capture::PerfSource>()?;
    module.add_class::<capture::PreloadRing>()?;
    module.add_class::<emulate::Emulation>()?;
    module.add_class::<probe::Probe>()?;
    Ok(())
}
