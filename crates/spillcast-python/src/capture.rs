//! Capture sources by name, the counts of a capture, and the cost of a source to the observed.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use spillcast_core::capture::cost::{self, Cost, Program, Spread};
use spillcast_core::capture::{self as core, CallKind};

use crate::error::os_error;

/// The function that makes a source ready.
pub fn source_named(name: &str) -> PyResult<core::Open> {
    let known = core::SOURCES.iter().find(|(known, _)| *known == name);
    known.map(|(_, open)| *open).ok_or_else(|| PyValueError::new_err("no such source"))
}

/// System calls by the kernel's names; None for all that can be observed.
pub fn call_kinds(calls: Option<Vec<String>>) -> PyResult<Vec<CallKind>> {
    let unknown = |name: &String| PyValueError::new_err(format!("{name} is not observed"));
    let named = |name: &String| CallKind::named(name).ok_or_else(|| unknown(name));
    calls.map_or_else(|| Ok(CallKind::ALL.to_vec()), |names| names.iter().map(named).collect())
}

/// Counts and costs of a capture as a dict.
pub fn status_dict(py: Python<'_>, status: core::Status) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("elapsed_ns", status.elapsed_ns)?;
    fields! { dict, status.counts => temp_reads temp_writes temp_bytes temp_ns }
    fields! { dict, status.observed => lost calls switches sampled }
    fields! { dict, status => dropped tracer_cpu_ns cpu_ns io_uring mapped running }
    Ok(dict)
}

/// Strings for the kernel. ValueError for one that contains NUL.
pub fn strings(list: Vec<OsString>) -> PyResult<Vec<CString>> {
    list.into_iter().map(|text| Ok(CString::new(text.into_vec())?)).collect()
}

/// What an observed thread loses, in seconds; becomes a dict in Python, and is read from the
/// attributes of its `CaptureCost`. None if the source does nothing at a switch.
#[derive(FromPyObject, IntoPyObject)]
pub struct CaptureCost {
    call_s: f64,
    /// Quartiles.
    call_low_s: f64,
    call_high_s: f64,
    switch_s: Option<f64>,
    switch_low_s: Option<f64>,
    switch_high_s: Option<f64>,
}

impl CaptureCost {
    pub fn into_core(self) -> Cost {
        let spread = |low_s, median_s, high_s| Spread { low_s, median_s, high_s };
        let switch = self.switch_low_s.zip(self.switch_s).zip(self.switch_high_s);
        Cost {
            call: spread(self.call_low_s, self.call_s, self.call_high_s),
            switch: switch.map(|((low_s, median_s), high_s)| spread(low_s, median_s, high_s)),
        }
    }
}

/// Time that an observed thread loses by a call and by a context switch; takes about 0.2 s.
///
/// `program` calls `capture_cost_child` with the two arguments that are appended to it; the
/// environments hold NAME=value, `observed` for the process that the source observes. OSError if
/// the cost cannot be measured, ValueError for an unknown name.
#[pyfunction]
pub fn capture_cost(
    py: Python<'_>,
    name: &str,
    calls: Option<Vec<String>>,
    program: Vec<OsString>,
    bare: Vec<OsString>,
    observed: Vec<OsString>,
) -> PyResult<CaptureCost> {
    let (open, calls) = (source_named(name)?, call_kinds(calls)?);
    let (arguments, bare, observed) = (strings(program)?, strings(bare)?, strings(observed)?);
    let program = Program { arguments, bare, observed };
    let cost = py.detach(|| cost::measure(|| open(&calls), &program)).map_err(os_error)?;
    let (call, switch) = (cost.call, cost.switch);
    Ok(CaptureCost {
        call_s: call.median_s,
        call_low_s: call.low_s,
        call_high_s: call.high_s,
        switch_s: switch.map(|spread| spread.median_s),
        switch_low_s: switch.map(|spread| spread.low_s),
        switch_high_s: switch.map(|spread| spread.high_s),
    })
}

/// Serve a measurement of `capture_cost` until it ends: `memory` and `index` are the arguments that
/// it appended. OSError if it has ended.
#[pyfunction]
pub fn capture_cost_child(py: Python<'_>, memory: PathBuf, index: usize) -> PyResult<()> {
    py.detach(|| cost::serve(&memory, index)).map_err(os_error)
}
