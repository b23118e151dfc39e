//! The function of the C library (or of the next preloaded one) that an interposed one replaces.

use std::ffi::CStr;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{c_int, c_void};

/// A function pointer of type `F`, looked up at its first use, however early that is.
pub struct Next<F> {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
    function: PhantomData<F>,
}

impl<F: Copy> Next<F> {
    /// # Safety
    /// `F` must be the function pointer type of the symbol `name`.
    pub const unsafe fn new(name: &'static CStr) -> Self {
        assert!(size_of::<F>() == size_of::<*mut c_void>());
        Next { name, address: AtomicPtr::new(std::ptr::null_mut()), function: PhantomData }
    }

    /// None if this C library has no such function; errno is then ENOSYS.
    #[inline]
    pub fn get(&self) -> Option<F> {
        let mut address = self.address.load(Ordering::Relaxed);
        if address.is_null() {
            // SAFETY: the name ends in NUL.
            address = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
            if address.is_null() {
                set_errno(libc::ENOSYS);
                return None;
            }
            self.address.store(address, Ordering::Relaxed);
        }
        // SAFETY: of the same size by `new`, of the right type by its contract.
        Some(unsafe { std::mem::transmute_copy(&address) })
    }
}

#[inline]
pub fn errno() -> c_int {
    // SAFETY: the C library's address of this thread's errno is always valid.
    unsafe { *libc::__errno_location() }
}

#[inline]
pub fn set_errno(value: c_int) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = value };
}
