//! A process that detaches the mount once the process that serves it is gone, however it ended.
//!
//! It holds the reading end of a pipe whose other end only the serving process has, and wakes when
//! that is closed. It detaches where all ends well too: a process that unmounts what it serves
//! itself can be killed while the kernel waits for it, and would stay for ever.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null;

use super::bare::Bare;

const FUSERMOUNT: [&CStr; 2] = [c"/usr/bin/fusermount3", c"/bin/fusermount3"];

pub struct Guard {
    process: Bare,
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
        let watched = ended.as_raw_fd();
        let process = unsafe { Bare::start(Some(watched), || watch(watched, &mountpoint)) }?;
        Ok(Guard { process, alive: Some(alive) })
    }
}

/// Has the mount detached if it is still there, and waits for that.
impl Drop for Guard {
    fn drop(&mut self) {
        self.alive = None;
        self.process.wait();
    }
}

/// What the guard does. Returns, or becomes fusermount3.
unsafe fn watch(ended: RawFd, mountpoint: &CStr) {
    unsafe {
        let mut byte = 0u8;
        while libc::read(ended, (&raw mut byte).cast(), 1) < 0 && errno() == libc::EINTR {}
        // A directory that is no mount, or one of another kind, is not what was mounted here.
        if !is_fuse(mountpoint) {
            return;
        }
        // What programs wrote to the page cache of a file that is open is not written by unmounting.
        let root = libc::open(mountpoint.as_ptr(), libc::O_RDONLY | libc::O_DIRECTORY);
        if root >= 0 {
            libc::syncfs(root);
            libc::close(root);
        }
        if libc::umount2(mountpoint.as_ptr(), libc::MNT_DETACH) == 0 {
            return;
        }
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
