//! Signals that end a recording, or are passed on to the recorded command.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicI32, Ordering};

use libc::c_int;
use spillcast_recording::target::Target;

const ENDING: [c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// The last signal that was not yet taken; 0 if none.
static RECEIVED: AtomicI32 = AtomicI32::new(0);

extern "C" fn note(number: c_int) {
    RECEIVED.store(number, Ordering::Relaxed);
}

/// Handles signals from now on; ignored signals, such as SIGHUP under nohup, stay ignored.
pub fn watch() {
    for number in ENDING {
        let handler = note as extern "C" fn(c_int) as libc::sighandler_t;
        // SAFETY: the handler stores to an atomic and does nothing else.
        unsafe {
            if libc::signal(number, handler) == libc::SIG_IGN {
                libc::signal(number, libc::SIG_IGN);
            }
        }
    }
}

/// Makes a write beyond the limit of file sizes (ulimit -f) an error instead of the end of this
/// program; a held command has the default again.
pub fn ignore_size_limit() {
    // SAFETY: no handler is set.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// The signal received since the last call.
pub fn take() -> Option<c_int> {
    Some(RECEIVED.swap(0, Ordering::Relaxed)).filter(|&number| number != 0)
}

/// Passes a signal on. Ctrl-C in the recorder's terminal has already reached the command.
pub fn pass_on(number: c_int, target: &Target) {
    if number != libc::SIGINT || !in_foreground() {
        target.send_signal(number);
    }
}

fn in_foreground() -> bool {
    let Ok(terminal) = File::open("/dev/tty") else { return false };
    // SAFETY: no pointer is passed.
    unsafe { libc::tcgetpgrp(terminal.as_raw_fd()) == libc::getpgrp() }
}
