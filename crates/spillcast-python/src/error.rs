//! Errors of the crates as exceptions of Python.

use std::fmt::Display;
use std::io;

use arrow_schema::ArrowError;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use spillcast_core::probe::ProbeError;
use spillcast_recording::failure::Failure;

/// A ValueError for damaged data, else an OSError.
pub fn read_error(error: io::Error) -> PyErr {
    match error.kind() {
        io::ErrorKind::InvalidData => PyValueError::new_err(error.to_string()),
        _ => os_error(error),
    }
}

/// An OSError with errno and strerror, which pyo3's own conversion leaves out.
pub fn os_error(error: io::Error) -> PyErr {
    let text = error.to_string();
    match error.raw_os_error() {
        Some(code) => {
            let strerror = text.split(" (os error").next().unwrap_or_default().to_owned();
            PyOSError::new_err((code, strerror))
        }
        None => PyOSError::new_err(text),
    }
}

/// A ValueError for invalid data.
pub fn wrong(error: impl Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// A RuntimeError for columns of ours that do not fit each other.
pub fn broken(error: ArrowError) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

/// The error of `spillcast.errors` of the same kind.
pub fn failed(failure: Failure) -> PyErr {
    Python::attach(|py| {
        let name = format!("{:?}", failure.kind);
        let hint = Some(failure.hint).filter(|hint| !hint.is_empty());
        let made = py
            .import("spillcast.errors")
            .and_then(|errors| errors.getattr(name.as_str())?.call1((failure.message, hint)));
        made.map_or_else(|error| error, PyErr::from_value)
    })
}

/// An OSError or RuntimeError for what failed or was cancelled, a ValueError for what cannot be
/// probed.
pub fn probe_error(error: ProbeError) -> PyErr {
    let text = error.to_string();
    match error {
        ProbeError::Io { source, .. } => match source.raw_os_error() {
            Some(code) => PyOSError::new_err((code, text)),
            None => PyRuntimeError::new_err(text),
        },
        ProbeError::Cancelled => PyRuntimeError::new_err(text),
        _ => PyValueError::new_err(text),
    }
}
