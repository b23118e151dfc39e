//! The shared-memory ring through which preloaded programs report to spillcast.
//!
//! Many producers (threads of several processes), one consumer. Slots are fixed; a record takes one
//! slot, or several in a row. A producer reserves slots by advancing `head`, fills them and commits
//! each by its sequence number. It never waits: a record without room is counted as lost.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::call::Call;
use crate::mapping::Mapping;
use crate::record::{FileRecord, WORDS_BYTES, Words, words_of_call, words_of_named, words_of_path};

/// Names the memory file of the ring that a preloaded program reports to: `/proc/PID/fd/N`.
pub const RING_VARIABLE: &str = "SPILLCAST_RING";

/// The name of that memory file in /proc.
pub const RING_NAME: &CStr = c"spillcast-ring";

/// "spillrng" and the version of the layout below.
const MAGIC: u64 = 0x676e_726c_6c69_7073;
const LAYOUT_VERSION: u64 = 3;

/// Keeps fields with different writers on separate cache lines.
#[repr(C, align(64))]
struct Line<T>(T);

#[repr(C)]
struct Header {
    magic: AtomicU64,
    version: AtomicU64,
    capacity_slots: AtomicU64,
    attached: AtomicU32,
    closed: AtomicU32,
    lost: Line<AtomicU64>,
    head: Line<AtomicU64>,
    tail: Line<AtomicU64>,
    /// When the reader last looked: CLOCK_MONOTONIC, ns.
    looked_ns: Line<AtomicU64>,
}

#[repr(C, align(64))]
struct Slot {
    /// Position of the committed record plus one; with any other value it is not committed.
    sequence: AtomicU64,
    words: [AtomicU64; 7],
}

/// A process's mapping of the ring.
pub struct Ring {
    mapping: Mapping,
    /// A power of two. Read once, so that no later change of the header can lead out of the
    /// mapping.
    capacity_slots: u64,
}

impl Ring {
    /// Lays out a new ring of at least `capacity_bytes` in an empty memory file.
    pub fn create(memory: &File, capacity_bytes: usize) -> io::Result<Ring> {
        let capacity_slots = (capacity_bytes / size_of::<Slot>()).max(2).next_power_of_two() as u64;
        let file_bytes = Ring::file_bytes(capacity_slots) as i64;
        // Allocated now: memory must never run short in a program that reports.
        // SAFETY: no pointer is passed.
        let error = unsafe { libc::posix_fallocate(memory.as_raw_fd(), 0, file_bytes) };
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
        let ring = Ring::map(memory, capacity_slots)?;
        let header = ring.header();
        header.version.store(LAYOUT_VERSION, Ordering::Relaxed);
        header.capacity_slots.store(capacity_slots, Ordering::Relaxed);
        header.magic.store(MAGIC, Ordering::Release);
        Ok(ring)
    }

    /// Maps a ring that [`Ring::create`] laid out, as a producer.
    pub fn attach(memory: &File) -> io::Result<Ring> {
        let not_a_ring = || io::Error::from_raw_os_error(libc::EPROTO);
        let slots_bytes = memory.metadata()?.len().saturating_sub(size_of::<Header>() as u64);
        let capacity_slots = slots_bytes / size_of::<Slot>() as u64;
        if !capacity_slots.is_power_of_two() {
            return Err(not_a_ring());
        }
        let ring = Ring::map(memory, capacity_slots)?;
        let header = ring.header();
        if header.magic.load(Ordering::Acquire) != MAGIC
            || header.version.load(Ordering::Relaxed) != LAYOUT_VERSION
            || header.capacity_slots.load(Ordering::Relaxed) != capacity_slots
        {
            return Err(not_a_ring());
        }
        header.attached.fetch_add(1, Ordering::Relaxed);
        Ok(ring)
    }

    /// Appends a call; without room it is counted as lost.
    #[inline]
    pub fn push_call(&self, call: &Call) {
        match self.reserve(1) {
            Some(position) => self.commit(position, &words_of_call(call)),
            None => self.count_lost(1),
        }
    }

    /// Appends a file and its path, of which at most 64 KiB are kept.
    pub fn push_file(&self, file: &FileRecord, path: &[u8]) {
        self.push_with_path(path, |path_bytes| file.words(path_bytes));
    }

    /// Appends a call on a path, and the path, of which at most 64 KiB are kept.
    pub fn push_named(&self, call: &Call, path: &[u8]) {
        self.push_with_path(path, |path_bytes| words_of_named(call, path_bytes));
    }

    fn push_with_path(&self, path: &[u8], words: impl FnOnce(u16) -> Words) {
        let path_bytes = path.len().min(u16::MAX as usize);
        let Some(position) = self.reserve(1 + path_bytes.div_ceil(WORDS_BYTES) as u64) else {
            return self.count_lost(1);
        };
        self.commit(position, &words(path_bytes as u16));
        for (chunk, at) in path.chunks(WORDS_BYTES).zip(position + 1..) {
            self.commit(at, &words_of_path(chunk));
        }
    }

    /// The content of the slot at `position`, if it is committed.
    pub fn get(&self, position: u64) -> Option<Words> {
        let slot = self.slot(position);
        if slot.sequence.load(Ordering::Acquire) != position + 1 {
            return None;
        }
        let mut words = Words::default();
        for (word, shared) in words.iter_mut().zip(&slot.words) {
            *word = shared.load(Ordering::Relaxed);
        }
        Some(words)
    }

    /// One past the last reserved position.
    pub fn head(&self) -> u64 {
        self.header().head.0.load(Ordering::Acquire)
    }

    /// Gives the slots before `position` back to the producers. Only for the consumer.
    pub fn release_until(&self, position: u64) {
        self.header().tail.0.store(position, Ordering::Release);
    }

    pub fn count_lost(&self, records: u64) {
        self.header().lost.0.fetch_add(records, Ordering::Relaxed);
    }

    pub fn lost(&self) -> u64 {
        self.header().lost.0.load(Ordering::Relaxed)
    }

    /// Number of programs that have mapped the ring since it was created.
    pub fn attached(&self) -> u32 {
        self.header().attached.load(Ordering::Relaxed)
    }

    /// Marks the ring as unread, so that the producers stop timing; called by the reader, or by a
    /// producer that notices that it is gone.
    pub fn close(&self) {
        self.header().closed.store(1, Ordering::Relaxed);
    }

    /// Notes that the reader is alive; returns false if a producer had considered it gone.
    pub fn look(&self, now_ns: u64) -> bool {
        self.header().looked_ns.0.store(now_ns, Ordering::Relaxed);
        // Written only if necessary: producers read it at each call.
        !self.is_closed() || self.header().closed.swap(0, Ordering::Relaxed) == 0
    }

    /// Time since the reader last looked.
    #[inline]
    pub fn unread_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.header().looked_ns.0.load(Ordering::Relaxed))
    }

    #[inline]
    pub fn is_closed(&self) -> bool {
        self.header().closed.load(Ordering::Relaxed) != 0
    }

    /// Reserves `count` consecutive slots and returns the first; None if there is no room.
    pub fn reserve(&self, count: u64) -> Option<u64> {
        let header = self.header();
        let mut head = header.head.0.load(Ordering::Relaxed);
        loop {
            // Acquire: the consumer has read the slots before it gave them back.
            let tail = header.tail.0.load(Ordering::Acquire);
            // `head` may be older than `tail`; the exchange then fails and brings a new one.
            if head.saturating_sub(tail) + count > self.capacity_slots {
                return None;
            }
            let next = head + count;
            let exchanged = header.head.0.compare_exchange_weak(
                head,
                next,
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
            match exchanged {
                Ok(_) => return Some(head),
                Err(seen) => head = seen,
            }
        }
    }

    fn commit(&self, position: u64, words: &Words) {
        let slot = self.slot(position);
        for (shared, word) in slot.words.iter().zip(words) {
            shared.store(*word, Ordering::Relaxed);
        }
        slot.sequence.store(position + 1, Ordering::Release);
    }

    fn slot(&self, position: u64) -> &Slot {
        let index = (position & (self.capacity_slots - 1)) as usize;
        // SAFETY: the mapping holds the header and after it `capacity_slots` slots, more than the
        // index; it is aligned to pages, and any bits are a valid slot.
        unsafe { self.mapping.start().cast::<Header>().add(1).cast::<Slot>().add(index).as_ref() }
    }

    fn header(&self) -> &Header {
        // SAFETY: the mapping begins with the header, is aligned to pages, and any bits are valid.
        unsafe { self.mapping.start().cast().as_ref() }
    }

    fn file_bytes(capacity_slots: u64) -> usize {
        size_of::<Header>() + capacity_slots as usize * size_of::<Slot>()
    }

    fn map(memory: &File, capacity_slots: u64) -> io::Result<Ring> {
        let mapping = Mapping::new(Some(memory.as_fd()), Ring::file_bytes(capacity_slots))?;
        Ok(Ring { mapping, capacity_slots })
    }
}
