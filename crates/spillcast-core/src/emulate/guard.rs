//! A process that detaches the mount when the process that serves it ends, however it ends.
//!
//! The kernel cannot kill a process that waits for its own answer, so the serving process must not
//! use its mount. The guard asks the kernel to write dirty pages back and detaches the mount, also
//! after a normal end: a process that unmounts what it serves can be killed during the unmount and
//! would hang.
//!
//! The guard reads a pipe whose other end only the serving process holds, and wakes when that end
//! closes. Programs with open files then get an error.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null;

use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};
use rustix::mount::UnmountFlags;
use rustix::pipe::{PipeFlags, pipe_with};

use super::bare::Bare;

const FUSERMOUNT: [&CStr; 2] = [c"/usr/bin/fusermount3", c"/bin/fusermount3"];

pub(crate) struct Guard {
    process: Bare,
    /// The kernel closes it if nothing else does. None only while the guard is dropped.
    alive: Option<OwnedFd>,
}

impl Guard {
    /// Starts to guard `mountpoint`, an absolute path that is about to be mounted on.
    pub fn start(mountpoint: &Path) -> io::Result<Guard> {
        let mountpoint = CString::new(mountpoint.as_os_str().as_bytes())?;
        let (ended, alive) = pipe_with(PipeFlags::CLOEXEC)?;
        let watched = ended.as_fd();
        // SAFETY: `watch` makes only system calls, on the descriptor and the path.
        let process = unsafe { Bare::start(Some(watched), || watch(watched, &mountpoint)) }?;
        Ok(Guard { process, alive: Some(alive) })
    }
}

/// Detaches the mount if it still exists, and waits for that.
impl Drop for Guard {
    fn drop(&mut self) {
        self.alive = None;
        self.process.wait();
    }
}

/// The work of the guard. Returns, or becomes fusermount3.
fn watch(ended: BorrowedFd, mountpoint: &CStr) {
    let _ = retry_on_intr(|| rustix::io::read(ended, &mut [0; 1]));
    // If this is not a FUSE mount, the emulation is no longer mounted.
    if !is_fuse(mountpoint) {
        return;
    }
    // Unmounting does not write back dirty pages of files that are still open.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let _ = rustix::fs::open(mountpoint, flags, Mode::empty()).and_then(rustix::fs::syncfs);
    if rustix::mount::unmount(mountpoint, UnmountFlags::DETACH).is_ok() {
        return;
    }
    for program in FUSERMOUNT {
        let words = [program, c"-u", c"-z", c"--", mountpoint].map(CStr::as_ptr);
        let [program, u, z, end, path] = words;
        // SAFETY: each string ends in NUL, each list in a null pointer.
        unsafe {
            libc::execve(program, [program, u, z, end, path, null()].as_ptr(), [null()].as_ptr())
        };
    }
}

/// Whether a FUSE file system is mounted here, served or not.
fn is_fuse(path: &CStr) -> bool {
    match rustix::fs::statfs(path) {
        Ok(stat) => stat.f_type == libc::FUSE_SUPER_MAGIC,
        Err(error) => matches!(error, Errno::NOTCONN | Errno::CONNABORTED),
    }
}
