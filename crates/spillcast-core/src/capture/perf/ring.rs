//! A ring of perf records in shared memory: written by the kernel, read without a system call.

use std::io;
use std::mem::offset_of;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use perf_event_open_sys::bindings::perf_event_mmap_page;
pub(crate) use rustix::param::page_size as page_bytes;
use spillcast_calls::Mapping;

/// A mapped ring. The kernel appends at `data_head`; [`Ring::drain`] moves `data_tail` up to it.
pub(crate) struct Ring {
    /// A page of counters, then the records.
    mapping: Mapping,
    data_bytes: usize,
    scratch: Vec<u8>,
}

impl Ring {
    /// Maps a ring of `data_bytes` (a power of two of pages) on a perf descriptor.
    pub fn map(event: BorrowedFd, data_bytes: usize) -> io::Result<Ring> {
        let mapping = Mapping::new(Some(event), page_bytes() + data_bytes)?;
        Ok(Ring { mapping, data_bytes, scratch: Vec::new() })
    }

    fn counter(&self, at: usize) -> &AtomicU64 {
        &self.mapping.words()[at / size_of::<u64>()]
    }

    /// The start of the records in the mapping.
    fn data(&self) -> *const u8 {
        // SAFETY: the records follow the first page within the mapping.
        unsafe { self.mapping.start().add(page_bytes()).as_ptr() }
    }

    /// Passes every complete record (header included) to `each` and frees its space.
    pub fn drain(&mut self, mut each: impl FnMut(&[u8])) {
        let (head_at, tail_at) = (
            offset_of!(perf_event_mmap_page, data_head),
            offset_of!(perf_event_mmap_page, data_tail),
        );
        let head = self.counter(head_at).load(Ordering::Acquire);
        let mut tail = self.counter(tail_at).load(Ordering::Relaxed);
        // SAFETY: `data_bytes` bytes are mapped. Only those between tail and head are read, which
        // the kernel does not write before the tail has moved on; `self` is borrowed exclusively.
        let data = unsafe { std::slice::from_raw_parts(self.data(), self.data_bytes) };
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
