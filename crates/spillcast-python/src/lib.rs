//! The thin Python binding: Arrow in, Arrow out, progress, Ctrl-C.

/// Keeps fields of a row in a dictionary under their own names.
macro_rules! fields {
    ($dict:ident, $row:expr => $($field:ident)*) => {
        $($dict.set_item(pyo3::intern!($dict.py(), stringify!($field)), &$row.$field)?;)*
    };
}

mod arrow;
mod behaviour;
mod cache;
mod capture;
mod columns;
mod cost;
mod emulate;
mod grid;
mod observed;
mod output;
mod parquet;
mod probe;
mod recorder;
mod recording;
mod scan;
mod simulate;
mod spark;
mod stretches;
mod thread_trace;
mod trace;
mod trace_rows;

use std::io;
use std::path::Path;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use spillcast_core::chase;

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

/// Memory, reads, whether each depends on the one before, how it was waited, for how long (ns), and
/// the CPU time of the reads (ns).
type Chase = (usize, usize, bool, &'static str, u64, u64);

/// Reads of memory after waits.
#[pyfunction]
fn chases(py: Python<'_>) -> Vec<Chase> {
    let row = |c: chase::Chase| {
        (c.bytes, chase::HOPS, c.dependent, c.wait.name(), c.wait_ns, c.elapsed_ns)
    };
    py.detach(chase::measure).into_iter().map(row).collect()
}

/// The engine that names its temp files like this path, and what such a file contains.
#[pyfunction]
fn temp_name_of(path: &str) -> Option<(&'static str, &'static str)> {
    spillcast_core::capture::temp_name_of(Path::new(path)).map(|name| (name.engine, name.kind))
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
    module.add_class::<arrow::Stream>()?;
    module.add_class::<cache::CacheCurve>()?;
    module.add_class::<cache::CacheRequests>()?;
    module.add_class::<emulate::Emulation>()?;
    module.add_class::<grid::Grid>()?;
    module.add_class::<observed::CpuWatch>()?;
    module.add_class::<observed::PeakMemory>()?;
    module.add_class::<columns::Memory>()?;
    module.add_class::<parquet::Batches>()?;
    module.add_class::<parquet::ParquetReader>()?;
    module.add_class::<parquet::ParquetWriter>()?;
    module.add_class::<parquet::ZstdReader>()?;
    module.add_class::<probe::Probe>()?;
    module.add_class::<scan::Scan>()?;
    module.add_class::<output::PartialFolder>()?;
    module.add_class::<recorder::Recorder>()?;
    module.add_class::<output::RecordingWriter>()?;
    module.add_class::<recorder::Target>()?;
    module.add_class::<recording::Seconds>()?;
    module.add_class::<recording::Waits>()?;
    module.add_class::<spark::SparkApplication>()?;
    module.add_class::<spark::SparkWork>()?;
    module.add_class::<trace::TraceReader>()?;
    module.add_function(wrap_pyfunction!(cost::capture_cost, module)?)?;
    module.add_function(wrap_pyfunction!(cost::capture_cost_child, module)?)?;
    module.add_function(wrap_pyfunction!(chases, module)?)?;
    for function in [
        wrap_pyfunction!(observed::group_folders, module)?,
        wrap_pyfunction!(observed::memory_groups, module)?,
        wrap_pyfunction!(observed::status_bytes, module)?,
        wrap_pyfunction!(observed::age_s, module)?,
        wrap_pyfunction!(observed::inputs_of, module)?,
        wrap_pyfunction!(observed::temp_of, module)?,
        wrap_pyfunction!(observed::mounted, module)?,
        wrap_pyfunction!(recorder::check_attaches, module)?,
        wrap_pyfunction!(recorder::describe_machine, module)?,
        wrap_pyfunction!(output::check_free, module)?,
        wrap_pyfunction!(output::check_output, module)?,
        wrap_pyfunction!(output::is_partial, module)?,
        wrap_pyfunction!(output::partial_folders, module)?,
        wrap_pyfunction!(recorder::source_refusal, module)?,
        wrap_pyfunction!(recorder::try_source, module)?,
        wrap_pyfunction!(output::unused_name, module)?,
    ] {
        module.add_function(function)?;
    }
    module.add_function(wrap_pyfunction!(probe::scratch_prefix, module)?)?;
    module.add_function(wrap_pyfunction!(simulate::simulate, module)?)?;
    module.add_function(wrap_pyfunction!(thread_trace::work, module)?)?;
    module.add_function(wrap_pyfunction!(thread_trace::replay_plan, module)?)?;
    module.add_function(wrap_pyfunction!(stretches::burst_moments, module)?)?;
    module.add_function(wrap_pyfunction!(stretches::covered_ns, module)?)?;
    module.add_function(wrap_pyfunction!(stretches::spread, module)?)?;
    module.add_function(wrap_pyfunction!(size_class_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(temp_name_of, module)?)?;
    Ok(())
}
