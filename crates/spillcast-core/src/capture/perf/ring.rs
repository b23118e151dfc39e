//! One ring of perf records in shared memory: what the kernel wrote, read without a system call.

use std::io;
use std::os::fd::RawFd;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use perf_event_open_sys::bindings::perf_event_mmap_page;

/// A mapped ring. The kernel appends at `data_head`; [`Ring::drain`] moves `data_tail` up to it.
pub struct Ring {
    base: *mut u8,
    page_bytes: usize,
    data_bytes: usize,
    scratch: Vec<u8>,
}

// Only `drain` touches the mapping, and it takes the ring for itself.
unsafe impl Send for Ring {}
unsafe impl Sync for Ring {}

impl Ring {
    /// Maps a ring of `data_bytes` (a power of two of pages) on a perf descriptor.
    pub fn map(fd: RawFd, data_bytes: usize) -> io::Result<Ring> {
        let page_bytes = page_bytes();
        let length = page_bytes + data_bytes;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let base =
            unsafe { libc::mmap(ptr::null_mut(), length, protection, libc::MAP_SHARED, fd, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Ring { base: base.cast(), page_bytes, data_bytes, scratch: Vec::new() })
    }

    fn counter(&self, field_offset: usize) -> &AtomicU64 {
        unsafe { &*self.base.add(field_offset).cast::<AtomicU64>() }
    }

    /// Hands every complete record to `each` (header included) and frees its room.
    pub fn drain(&mut self, mut each: impl FnMut(&[u8])) {
        let head_at = std::mem::offset_of!(perf_event_mmap_page, data_head);
        let tail_at = std::mem::offset_of!(perf_event_mmap_page, data_tail);
        let head = self.counter(head_at).load(Ordering::Acquire);
        let mut tail = self.counter(tail_at).load(Ordering::Relaxed);
        let data =
            unsafe { std::slice::from_raw_parts(self.base.add(self.page_bytes), self.data_bytes) };
        while tail < head {
            let at = tail as usize & (self.data_bytes - 1);
            // Records are aligned to 8 bytes, so a header never wraps.
            let size = u16::from_ne_bytes([data[at + 6], data[at + 7]]) as usize;
            if at + size <= self.data_bytes {
                each(&data[at..at + size]);
            } else {
                self.scratch.clear();
                self.scratch.extend_from_slice(&data[at..]);
                self.scratch.extend_from_slice(&data[..size - (self.data_bytes - at)]);
                each(&self.scratch);
            }
            tail += size as u64;
        }
        self.counter(tail_at).store(tail, Ordering::Release);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        unsafe { libc::munmap(self.base.cast(), self.page_bytes + self.data_bytes) };
    }
}

pub fn page_bytes() -> usize {
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}
