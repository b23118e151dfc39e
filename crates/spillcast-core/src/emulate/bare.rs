//! A bare clone of this process: it makes system calls and nothing else, and outlives the process.
//!
//! The process may have threads, of which the clone has none: what it needs is prepared before.

use std::io;
use std::os::fd::RawFd;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

pub struct Bare {
    pid: libc::pid_t,
}

impl Bare {
    /// Runs `body` in a clone that has no descriptor but `kept`, and ends with it.
    ///
    /// # Safety
    /// `body` may make system calls on what it was given: no memory is to be had, no lock is ever
    /// released.
    pub unsafe fn start(kept: Option<RawFd>, body: impl FnOnce()) -> io::Result<Bare> {
        // Blocked before the clone, so that no handler of the program ever runs in it.
        let mut every: libc::sigset_t = unsafe { std::mem::zeroed() };
        let mut before = every;
        unsafe {
            libc::sigfillset(&mut every);
            libc::pthread_sigmask(libc::SIG_SETMASK, &every, &mut before);
        }
        // Not fork(), which runs what libraries registered for it.
        let pid = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
        if pid == 0 {
            unsafe {
                libc::setsid();
                // Else whoever looks for the serving process by its name finds two.
                libc::prctl(libc::PR_SET_NAME, c"spillcast-guard".as_ptr());
                close_all_but(kept.unwrap_or(-1));
                body();
                libc::_exit(0)
            }
        }
        let error = io::Error::last_os_error();
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, null_mut()) };
        if pid < 0 {
            return Err(error);
        }
        Ok(Bare { pid: pid as libc::pid_t })
    }

    /// Waits until it has ended.
    pub fn wait(&self) {
        while unsafe { libc::waitpid(self.pid, null_mut(), 0) } < 0
            && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
        {}
    }

    /// Waits until it has ended, which is forced after `limit`.
    pub fn wait_at_most(&self, limit: Duration) {
        let start = Instant::now();
        while unsafe { libc::waitpid(self.pid, null_mut(), libc::WNOHANG) } == 0 {
            if start.elapsed() > limit {
                unsafe { libc::kill(self.pid, libc::SIGKILL) };
                return self.wait();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

unsafe fn close_all_but(kept: RawFd) {
    let (below, above) = ((0, kept - 1), (kept + 1, i32::MAX));
    for (first, last) in [below, above] {
        if first > last {
            continue;
        }
        let closed = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        if closed != 0 {
            // A kernel before 5.9.
            (first..last.min(1 << 16)).for_each(|fd| unsafe {
                libc::close(fd);
            });
        }
    }
}
