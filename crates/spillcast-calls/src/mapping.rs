//! Memory that is shared with other processes or with the kernel.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::AtomicU64;

/// A shared mapping that can be read and written; unmapped when it is dropped.
pub struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: it is an address and a length; the memory is accessed only through raw pointers and
// atomics, whose users state why that is sound.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `bytes` of a file, or zeroed memory that only clones of this process share.
    pub fn new(file: Option<BorrowedFd>, bytes: usize) -> io::Result<Mapping> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let (fd, kind) = match file {
            Some(file) => (file.as_raw_fd(), libc::MAP_SHARED),
            None => (-1, libc::MAP_SHARED | libc::MAP_ANONYMOUS),
        };
        // SAFETY: the kernel chooses the address, so no other mapping is replaced.
        let start = unsafe { libc::mmap(null_mut(), bytes, access, kind, fd, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { start, bytes })
    }

    /// The start address, aligned to a page.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The complete words of the mapping, which others may change at any time.
    pub fn words(&self) -> &[AtomicU64] {
        let count = self.bytes / size_of::<AtomicU64>();
        // SAFETY: `count` words are mapped as long as `self` lives, aligned to a page; any bits are
        // a valid word, and all accesses are atomic.
        unsafe { std::slice::from_raw_parts(self.start.cast().as_ptr(), count) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length, and no reference outlives the mapping.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
