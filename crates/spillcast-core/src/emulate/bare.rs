//! A bare clone of this process: it makes only system calls, and outlives the process.
//!
//! The process may have threads, which the clone lacks; all that it needs is prepared before.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::io::retry_on_intr;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

pub(crate) struct Bare {
    pid: Pid,
}

impl Bare {
    /// Runs `body` in a clone with no descriptor but `kept`; the clone ends with `body`.
    ///
    /// # Safety
    /// `body` may only make system calls on what it was given: it must not allocate memory, and a
    /// lock may never be released.
    pub unsafe fn start(kept: Option<BorrowedFd>, body: impl FnOnce()) -> io::Result<Bare> {
        // Blocked before the clone, so that no handler of the program ever runs in it.
        let before = block_signals(None);
        // Not fork(), which runs handlers of libraries.
        // SAFETY: without a stack of its own the clone continues on a copy of this one.
        let pid = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
        if pid == 0 {
            let _ = rustix::process::setsid();
            // Otherwise a search for the serving process by name shows two.
            let _ = rustix::thread::set_name(c"spillcast-guard");
            close_all_but(kept.map_or(-1, |kept| kept.as_raw_fd()));
            body();
            // SAFETY: it ends the clone at once, without the exit handlers of the process.
            unsafe { libc::_exit(0) }
        }
        let error = io::Error::last_os_error();
        block_signals(Some(before));
        Pid::from_raw(pid.max(0) as i32).map(|pid| Bare { pid }).ok_or(error)
    }

    /// Waits until it has ended.
    pub fn wait(&self) {
        let _ = retry_on_intr(|| waitpid(Some(self.pid), WaitOptions::empty()));
    }

    /// Waits until it has ended; kills it after `limit`.
    pub(crate) fn wait_at_most(&self, limit: Duration) {
        let start = Instant::now();
        while let Ok(None) = waitpid(Some(self.pid), WaitOptions::NOHANG) {
            if start.elapsed() > limit {
                let _ = kill_process(self.pid, Signal::KILL);
                return self.wait();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Blocks only `signals` in this thread, or all signals if None; returns the previous set.
fn block_signals(signals: Option<libc::sigset_t>) -> libc::sigset_t {
    // SAFETY: all sets are local, and zeros are a set without signals.
    unsafe {
        let mut every: libc::sigset_t = std::mem::zeroed();
        let mut before = every;
        libc::sigfillset(&mut every);
        libc::pthread_sigmask(libc::SIG_SETMASK, &signals.unwrap_or(every), &mut before);
        before
    }
}

fn close_all_but(kept: i32) {
    for (first, last) in [(0, kept - 1), (kept + 1, i32::MAX)] {
        // SAFETY: only the clone calls this, and it uses no descriptor but the one that is kept.
        unsafe {
            if first <= last && libc::syscall(libc::SYS_close_range, first, last, 0) != 0 {
                // Kernels before 5.9 lack close_range.
                for fd in first..=last.min(1 << 16) {
                    libc::close(fd);
                }
            }
        }
    }
}
