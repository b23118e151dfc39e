//! The ring of shared memory through which preloaded programs report to spillcast.
//!
//! Many producers (threads of several processes), one consumer. Slots are fixed; a record takes one
//! slot, or several in a row. A producer reserves slots by advancing `head`, fills them and commits
//! each by its sequence number. It never waits: where there is no room the record is counted as lost.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::call::{Call, CallKind};
use crate::mapping::Mapping;

/// Names the memory file whose ring a preloaded program reports to: `/proc/PID/fd/N`.
pub const RING_VARIABLE: &str = "SPILLCAST_RING";

/// "spillrng" and the version of the layout below.
const MAGIC: u64 = 0x676e_726c_6c69_7073;
const LAYOUT_VERSION: u64 = 1;

/// What a slot carries beside its sequence number.
pub type Words = [u64; 7];
const WORDS_BYTES: usize = size_of::<Words>();

/// The fields that different sides write stand on cache lines of their own.
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
}

#[repr(C, align(64))]
struct Slot {
    /// Position of the committed record plus one; anything else is not committed.
    sequence: AtomicU64,
    words: [AtomicU64; 7],
}

/// One process' mapping of the ring.
pub struct Ring {
    mapping: Mapping,
    /// A power of two. Taken once, so that no later change of the header can lead out of the mapping.
    capacity_slots: u64,
}

impl Ring {
    /// Lays out a new ring of at least `capacity_bytes` in an empty memory file.
    pub fn create(memory: &File, capacity_bytes: usize) -> io::Result<Ring> {
        let capacity_slots = (capacity_bytes / size_of::<Slot>()).max(2).next_power_of_two() as u64;
        let file_bytes = Ring::file_bytes(capacity_slots) as i64;
        // Allocated now: a program that reports must never be the one to find that memory is short.
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

    /// Appends a call; where there is no room it is counted as lost.
    #[inline]
    pub fn push_call(&self, call: &Call) {
        match self.reserve(1) {
            Some(position) => self.commit(position, &words_of_call(call)),
            None => self.count_lost(1),
        }
    }

    /// Appends a file and its path, of which at most 64 KiB are kept.
    pub fn push_file(&self, file: &FileRecord, path: &[u8]) {
        let path_bytes = path.len().min(u16::MAX as usize);
        let Some(position) = self.reserve(1 + path_bytes.div_ceil(WORDS_BYTES) as u64) else {
            return self.count_lost(1);
        };
        self.commit(position, &file.words(path_bytes as u16));
        for (chunk, at) in path.chunks(WORDS_BYTES).zip(position + 1..) {
            self.commit(at, &words_of_path(chunk));
        }
    }

    /// What stands at `position`, if it is committed.
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

    /// Gives the slots before `position` back to the producers. For the consumer alone.
    pub fn release_until(&self, position: u64) {
        self.header().tail.0.store(position, Ordering::Release);
    }

    pub fn count_lost(&self, records: u64) {
        self.header().lost.0.fetch_add(records, Ordering::Relaxed);
    }

    pub fn lost(&self) -> u64 {
        self.header().lost.0.load(Ordering::Relaxed)
    }

    /// How many programs have mapped the ring since it was made.
    pub fn attached(&self) -> u32 {
        self.header().attached.load(Ordering::Relaxed)
    }

    /// Tells the producers that nobody reads any more, so that they stop timing.
    pub fn close(&self) {
        self.header().closed.store(1, Ordering::Relaxed);
    }

    #[inline]
    pub fn is_closed(&self) -> bool {
        self.header().closed.load(Ordering::Relaxed) != 0
    }

    /// The first of `count` slots in a row, now owned by the caller; None where there is no room.
    pub fn reserve(&self, count: u64) -> Option<u64> {
        let header = self.header();
        let mut head = header.head.0.load(Ordering::Relaxed);
        loop {
            // Acquire: the consumer has read what stood in the slots before it gave them back.
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
        // SAFETY: the mapping holds the header and, behind it, more slots than the index, which is
        // below the capacity; it is aligned to pages, and any bits are a valid slot.
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

/// A file behind a descriptor, without its path, and whose descriptor it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FileRecord {
    pub pid: i32,
    pub fd: i32,
    pub dev: u64,
    pub ino: u64,
    pub regular: bool,
    pub unlinked: bool,
    pub position: Option<i64>,
}

/// The first slot of a record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Record {
    Call(Call),
    /// The path follows in the next slots.
    File {
        file: FileRecord,
        path_bytes: u16,
    },
}

// The first word: tag, a byte of its own meaning, flags or a length, descriptor.
// No path in UTF-8 holds a byte of these values, so a slot of a path never looks like a record.
const TAG_CALL: u8 = 0xfe;
const TAG_FILE: u8 = 0xff;

const HAS_OFFSET: u16 = 1;
const HAS_CPU: u16 = 2;
const HAS_BLOCKED: u16 = 4;
const BLOCKED: u16 = 8;

const REGULAR: u16 = 1;
const UNLINKED: u16 = 2;
const HAS_POSITION: u16 = 4;

fn first_word(tag: u8, byte: u8, half: u16, fd: i32) -> u64 {
    u64::from(tag) | u64::from(byte) << 8 | u64::from(half) << 16 | u64::from(fd as u32) << 32
}

fn flag(on: bool, bit: u16) -> u16 {
    u16::from(on) * bit
}

/// At most as many bytes of a path as a slot holds; zeros where there are fewer.
fn words_of_path(path: &[u8]) -> Words {
    let mut words = Words::default();
    for (word, part) in words.iter_mut().zip(path.chunks(size_of::<u64>())) {
        let mut bytes = [0; size_of::<u64>()];
        bytes.iter_mut().zip(part).for_each(|(to, from)| *to = *from);
        *word = u64::from_ne_bytes(bytes);
    }
    words
}

/// The part of a path that a slot holds; zeros after its end.
pub fn path_of_words(words: Words) -> impl Iterator<Item = u8> {
    words.into_iter().flat_map(u64::to_ne_bytes)
}

fn words_of_call(call: &Call) -> Words {
    let flags = flag(call.offset.is_some(), HAS_OFFSET)
        | flag(call.cpu_before_ns.is_some(), HAS_CPU)
        | flag(call.blocked.is_some(), HAS_BLOCKED)
        | flag(call.blocked == Some(true), BLOCKED);
    [
        first_word(TAG_CALL, call.kind as u8, flags, call.fd),
        u64::from(call.pid as u32) | u64::from(call.tid as u32) << 32,
        call.start_ns,
        call.end_ns,
        call.offset.unwrap_or(0) as u64,
        call.ret as u64,
        call.cpu_before_ns.unwrap_or(0),
    ]
}

impl FileRecord {
    fn words(&self, path_bytes: u16) -> Words {
        let flags = flag(self.regular, REGULAR)
            | flag(self.unlinked, UNLINKED)
            | flag(self.position.is_some(), HAS_POSITION);
        [
            first_word(TAG_FILE, flags as u8, path_bytes, self.fd),
            u64::from(self.pid as u32),
            self.dev,
            self.ino,
            self.position.unwrap_or(0) as u64,
            0,
            0,
        ]
    }
}

impl Record {
    /// None for a slot that continues a path, or was damaged.
    pub fn from_words(words: &Words) -> Option<Record> {
        let [first, ids, third, fourth, fifth, sixth, seventh] = *words;
        let (tag, byte, half, fd) =
            (first as u8, (first >> 8) as u8, (first >> 16) as u16, (first >> 32) as i32);
        match tag {
            TAG_CALL => Some(Record::Call(Call {
                pid: ids as i32,
                tid: (ids >> 32) as i32,
                kind: CallKind::from_u8(byte)?,
                start_ns: third,
                end_ns: fourth,
                fd,
                offset: (half & HAS_OFFSET != 0).then_some(fifth as i64),
                ret: sixth as i64,
                cpu_before_ns: (half & HAS_CPU != 0).then_some(seventh),
                blocked: (half & HAS_BLOCKED != 0).then_some(half & BLOCKED != 0),
            })),
            TAG_FILE => {
                let flags = u16::from(byte);
                let file = FileRecord {
                    pid: ids as i32,
                    fd,
                    dev: third,
                    ino: fourth,
                    regular: flags & REGULAR != 0,
                    unlinked: flags & UNLINKED != 0,
                    position: (flags & HAS_POSITION != 0).then_some(fifth as i64),
                };
                Some(Record::File { file, path_bytes: half })
            }
            _ => None,
        }
    }

    /// How many slots the record takes.
    pub fn slots(&self) -> u64 {
        match self {
            Record::Call(_) => 1,
            Record::File { path_bytes, .. } => {
                1 + u64::from(*path_bytes).div_ceil(WORDS_BYTES as u64)
            }
        }
    }
}
