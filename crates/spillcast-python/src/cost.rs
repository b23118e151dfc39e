//! What a capture source costs those that it observes.

use std::ffi::OsString;
use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use spillcast_core::capture::cost::{self, Program, Spread};

use crate::capture::{call_kinds, source_named, strings};
use crate::error::os_error;

/// What an observed thread loses by a call and by a context switch, in seconds: `call_s`, and its
/// quartiles `call_low_s` and `call_high_s`, and `switch_s` with its own, each None where the source
/// does nothing at a switch. Takes some 0.2 s.
///
/// `program` calls `capture_cost_child` with the two arguments that are added to it; the environments
/// hold NAME=value, `observed` that of a process which the source is to observe. OSError says why it
/// cannot be measured, ValueError which name is none.
#[pyfunction]
pub fn capture_cost<'py>(
    py: Python<'py>,
    name: &str,
    calls: Option<Vec<String>>,
    program: Vec<OsString>,
    bare: Vec<OsString>,
    observed: Vec<OsString>,
) -> PyResult<Bound<'py, PyDict>> {
    let (open, calls) = (source_named(name)?, call_kinds(calls)?);
    let (arguments, bare, observed) = (strings(program)?, strings(bare)?, strings(observed)?);
    let program = Program { arguments, bare, observed };
    let cost = py.detach(|| cost::measure(|| open(&calls), &program)).map_err(os_error)?;
    let dict = PyDict::new(py);
    for (name, spread) in [("call", Some(cost.call)), ("switch", cost.switch)] {
        let of = |value: fn(Spread) -> f64| spread.map(value);
        dict.set_item(format!("{name}_s"), of(|spread| spread.median_s))?;
        dict.set_item(format!("{name}_low_s"), of(|spread| spread.low_s))?;
        dict.set_item(format!("{name}_high_s"), of(|spread| spread.high_s))?;
    }
    Ok(dict)
}

/// Serve a measurement of `capture_cost` until it ends: `memory` and `seat` are what it added to the
/// arguments. OSError where it has ended.
#[pyfunction]
pub fn capture_cost_child(py: Python<'_>, memory: PathBuf, seat: usize) -> PyResult<()> {
    py.detach(|| cost::serve(&memory, seat)).map_err(os_error)
}
