//! Python objects in Arrow's data, which readers use and release with or without the GIL.

use std::mem::ManuallyDrop;
use std::ops::Deref;

use pyo3::ffi;

/// Runs `work` while this thread holds the GIL.
///
/// `Python::attach` trusts pyo3's count of its own calls. DuckDB, called by Python code that we
/// call, releases the GIL and calls back on the same thread, which pyo3 still counts as attached.
pub fn with_gil<R>(work: impl FnOnce() -> R) -> R {
    // SAFETY: these functions may be called with and without the GIL, while there is a Python.
    unsafe {
        if ffi::Py_IsInitialized() == 0 {
            return work();
        }
        let state = ffi::PyGILState_Ensure();
        let result = work();
        ffi::PyGILState_Release(state);
        result
    }
}

/// A value that is dropped with the GIL, on whatever thread.
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
        with_gil(|| unsafe { ManuallyDrop::drop(&mut self.0) });
    }
}
