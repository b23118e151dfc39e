//! A process that detaches the mount once the process that serves it is gone, however it ended.
//!
//! It is a bare clone of a process that may have threads, so it makes system calls and nothing else:
//! what it needs is prepared before. It holds the reading end of a pipe whose other end only the
//! serving process has, and wakes when that is closed.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{null, null_mut};

const FUSERMOUNT: [&CStr; 2] = [c"/usr/bin/fusermount3", c"/bin/fusermount3"];

pub struct Guard {
    pid: libc::pid_t,
    /// Closed by the kernel where nobody does it before. None only while it is dropped.
    alive: Option<OwnedFd>,
}

impl Guard {
    /// Starts to watch over `mountpoint`, an absolute path on which a mount is about to be made.
    pub fn start(mountpoint: &Path) -> io::Result<Guard> {
        let mountpoint = CString::new(mountpoint.as_os_str().as_bytes())?;
        let mut ends = [0; 2];
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let [ended, alive] = ends.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
        // Blocked before the clone, so that no handler of the program ever runs in the guard.
        let mut every: libc::sigset_t = unsafe { std::mem::zeroed() };
        let mut before = every;
        unsafe {
            libc::sigfillset(&mut every);
            libc::pthread_sigmask(libc::SIG_SETMASK, &every, &mut before);
        }
        // Not fork(), which runs what libraries registered for it.
        let pid = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
        if pid == 0 {
            unsafe { watch(ended.as_raw_fd(), &mountpoint) };
        }
        let error = io::Error::last_os_error();
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, null_mut()) };
        if pid < 0 {
            return Err(error);
        }
        Ok(Guard { pid: pid as libc::pid_t, alive: Some(alive) })
    }
}

/// Has the mount detached if it is still there, and waits for that.
impl Drop for Guard {
    fn drop(&mut self) {
        self.alive = None;
        while unsafe { libc::waitpid(self.pid, null_mut(), 0) } < 0
            && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
        {}
    }
}

/// What the guard does.
///
/// # Safety
/// To be called in a process of its own, which ends here.
unsafe fn watch(ended: RawFd, mountpoint: &CStr) -> ! {
    unsafe {
        libc::setsid();
        // Else whoever looks for the serving process by its name finds two.
        libc::prctl(libc::PR_SET_NAME, c"spillcast-guard".as_ptr());
        close_all_but(ended);
        let mut byte = 0u8;
        while libc::read(ended, (&raw mut byte).cast(), 1) < 0 && errno() == libc::EINTR {}
        // A directory that is no mount, or one of another kind, is not what was mounted here.
        if is_fuse(mountpoint) && libc::umount2(mountpoint.as_ptr(), libc::MNT_DETACH) != 0 {
            for program in FUSERMOUNT {
                let arguments = [
                    program.as_ptr(),
                    c"-u".as_ptr(),
                    c"-z".as_ptr(),
                    c"--".as_ptr(),
                    mountpoint.as_ptr(),
                    null(),
                ];
                libc::execve(program.as_ptr(), arguments.as_ptr(), [null()].as_ptr());
            }
        }
        libc::_exit(0)
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

/// Whether a FUSE file system is there, served or not.
unsafe fn is_fuse(path: &CStr) -> bool {
    let mut stat: libc::statfs = unsafe { std::mem::zeroed() };
    match unsafe { libc::statfs(path.as_ptr(), &mut stat) } {
        0 => stat.f_type == libc::FUSE_SUPER_MAGIC,
        _ => matches!(errno(), libc::ENOTCONN | libc::ECONNABORTED),
    }
}

fn errno() -> i32 {
    unsafe { *libc::__errno_location() }
}
