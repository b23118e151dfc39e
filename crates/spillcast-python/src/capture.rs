//! Capture sources by name, and the counts of a capture.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStringExt;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use spillcast_core::capture::{self as core, CallKind};

/// What makes a source ready.
pub fn source_named(name: &str) -> PyResult<core::Open> {
    let known = core::SOURCES.iter().find(|(known, _)| *known == name);
    known.map(|(_, open)| *open).ok_or_else(|| PyValueError::new_err("no such source"))
}

/// System calls by the kernel's names; None for all that are observed.
pub fn call_kinds(calls: Option<Vec<String>>) -> PyResult<Vec<CallKind>> {
    let unknown = |name: &String| PyValueError::new_err(format!("{name} is not observed"));
    let named = |name: &String| CallKind::named(name).ok_or_else(|| unknown(name));
    calls.map_or_else(|| Ok(CallKind::ALL.to_vec()), |names| names.iter().map(named).collect())
}

/// Counts and costs of a capture by name.
pub fn status_dict(py: Python<'_>, status: core::Status) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("elapsed_ns", status.elapsed_ns)?;
    fields! { dict, status.counts => temp_reads temp_writes temp_bytes temp_ns other_io
    other_writes other_io_ns unknown_file temp_copies temp_copied_bytes io_uring_depth io_uring_busy_ns }
    fields! { dict, status.observed => lost calls switches file_faults file_fault_ns connected sampled }
    fields! { dict, status => dropped tracer_cpu_ns cpu_ns run_queue_delay_ns
    run_queue_others_ns io_uring spun_ns mapped running }
    Ok(dict)
}

/// Texts for the kernel. ValueError for one that contains NUL.
pub fn strings(list: Vec<OsString>) -> PyResult<Vec<CString>> {
    list.into_iter().map(|text| Ok(CString::new(text.into_vec())?)).collect()
}
