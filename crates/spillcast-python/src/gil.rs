//! Python objects in Arrow's data, which readers use and release with or without the GIL.

use std::mem::ManuallyDrop;
use std::ops::Deref;

use pyo3::{Python, ffi};

/// Runs `work` while this thread holds the GIL; None, without running it, if Python has ended.
///
/// `Python::attach` trusts pyo3's count of its own calls. DuckDB, called by Python code that we
/// call, releases the GIL and calls back on the same thread, which pyo3 still counts as attached.
pub fn with_gil<R>(work: impl FnOnce(Python<'_>) -> R) -> Option<R> {
    // SAFETY: this may be called at any time.
    if unsafe { ffi::Py_IsInitialized() } == 0 {
        // While it ends, a call of ours may still hold the GIL.
        return Python::try_attach(work);
    }
    // SAFETY: it may be called with and without the GIL while there is a Python.
    let state = unsafe { ffi::PyGILState_Ensure() };
    let result = Python::try_attach(work);
    // SAFETY: this is the state before, on the same thread.
    unsafe { ffi::PyGILState_Release(state) };
    result
}

/// A value that is dropped with the GIL, on whatever thread; never, if Python has ended.
pub struct Held<T>(ManuallyDrop<T>);

impl<T> Held<T> {
    pub fn new(value: T) -> Held<T> {
        Held(ManuallyDrop::new(value))
    }
}

impl<T> Deref for Held<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        // SAFETY: nothing uses the value afterwards.
        with_gil(|_| unsafe { ManuallyDrop::drop(&mut self.0) });
    }
}
