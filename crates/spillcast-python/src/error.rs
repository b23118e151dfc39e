//! Converts errors of the crates to Python exceptions.

use std::fmt::Display;
use std::io;

use arrow_schema::ArrowError;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use spillcast_core::probe::ProbeError;
use spillcast_recording::failure::Failure;

/// ValueError for damaged data, otherwise OSError.
pub fn read_error(error: io::Error) -> PyErr {
    match error.kind() {
        io::ErrorKind::InvalidData => PyValueError::new_err(error.to_string()),
        _ => os_error(error),
    }
}

/// OSError with errno and strerror, which pyo3's own conversion omits.
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

/// ValueError for invalid data.
pub fn wrong(error: impl Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// RuntimeError for the binding's own columns if they are inconsistent.
pub fn broken(error: ArrowError) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

/// The error of the same kind in `spillcast.errors`.
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

/// OSError or RuntimeError for a failed or cancelled probe, ValueError if the probe is impossible.
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
