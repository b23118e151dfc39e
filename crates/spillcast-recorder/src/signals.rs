//! Signals that end a recording, or go to the command that is recorded.

use std::sync::atomic::{AtomicI32, Ordering};

use libc::c_int;

const ENDING: [c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// The last signal that was not yet taken; 0 for none.
static RECEIVED: AtomicI32 = AtomicI32::new(0);

extern "C" fn note(number: c_int) {
    RECEIVED.store(number, Ordering::Relaxed);
}

/// Notes signals from now on; what is ignored, as SIGHUP under nohup, stays so.
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

/// The signal received since the last look.
pub fn take() -> Option<c_int> {
    Some(RECEIVED.swap(0, Ordering::Relaxed)).filter(|&number| number != 0)
}

/// Passes one on. Ctrl-C in our terminal has reached the command already.
pub fn pass_on(number: c_int, pid: i32) {
    if number != libc::SIGINT || !in_foreground() {
        // SAFETY: no pointer is passed; the process is a child that is not waited for yet.
        unsafe { libc::kill(pid, number) };
    }
}

fn in_foreground() -> bool {
    // SAFETY: the path ends in NUL; the descriptor is ours and closed here.
    unsafe {
        let terminal = libc::open(c"/dev/tty".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if terminal < 0 {
            return false;
        }
        let foreground = libc::tcgetpgrp(terminal) == libc::getpgrp();
        libc::close(terminal);
        foreground
    }
}
