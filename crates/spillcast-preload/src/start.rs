//! Initialises the library when it is loaded, and in a forked process.

use crate::{descriptors, setup, thread};

extern "C" fn initialise() {
    if setup::read_environment() {
        // SAFETY: the functions exist as long as the library, which is never unloaded: the dynamic
        // linker keeps what LD_PRELOAD names.
        unsafe { libc::pthread_atfork(None, Some(parent_after_fork), Some(child_after_fork)) };
        setup::activate();
    }
}

extern "C" fn parent_after_fork() {
    descriptors::share_all();
}

/// The child has a single thread, with new ids, and reports its descriptors itself.
extern "C" fn child_after_fork() {
    thread::forget();
    descriptors::forget_all();
}

/// The dynamic linker calls it before `main`.
#[used]
// SAFETY: the section holds pointers to functions without arguments, as this one is.
#[unsafe(link_section = ".init_array")]
static INITIALISE: extern "C" fn() = initialise;
