//! The storage that simulated I/O goes to.

use super::page_cache::{PageCache, PageCacheRoom};
use super::{Rows, Wait};
use crate::storage::{Model, Operation, Schedule, Waits};
use crate::wait::Op;

/// A read or write.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Io {
    pub op: Op,
    pub file: u32,
    /// Where in the file; None where that is not known: then it is taken to follow the last one.
    pub offset: Option<u64>,
    pub bytes: u64,
    /// How long it takes where a page cache answers it, or takes what it writes.
    pub cached_ns: u64,
    /// Of a read, how much the storage has to bring; None where the page cache is asked.
    pub missing_bytes: Option<u64>,
}

/// How long an operation takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Taken {
    pub ns: f64,
    /// Of that, the storage's part.
    pub storage_ns: f64,
    /// Whether its thread keeps its core meanwhile.
    pub on_core: bool,
}

/// What answers as fast as this is memory: the thread stays on its core meanwhile.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    pub ns: f64,
    pub ns_per_byte: f64,
}

pub struct Target {
    schedule: Schedule,
    memory: Memory,
    page_cache: Option<PageCache>,
    /// Where the last operation of an op on a file ended.
    ends: Ends,
}

/// By file, which are numbered from 0, where its last write and its last other operation ended.
pub(super) type Ends = Vec<[Option<u64>; 2]>;

impl Target {
    pub fn new<R: Rows + ?Sized>(
        model: Model,
        memory: Memory,
        room: Option<PageCacheRoom>,
        rows: &R,
    ) -> Target {
        let operations = || {
            (0..rows.count()).filter_map(|at| match rows.row(at).wait {
                Wait::Io(io) => Some(io),
                _ => None,
            })
        };
        Target {
            schedule: Schedule::of(model, operations().map(|io| (io.op, io.bytes))),
            memory,
            page_cache: room.map(|room| PageCache::new(room, &placed(operations()))),
            ends: Ends::new(),
        }
    }

    pub fn has_page_cache(&self) -> bool {
        self.page_cache.is_some()
    }

    /// How long an operation takes that begins at `now_ns`.
    pub fn takes(&mut self, now_ns: u64, io: Io) -> Taken {
        let (io, sequential) = place(&mut self.ends, io);
        if let Some(cache) = &mut self.page_cache {
            let storage_ns = cache.storage_ns(now_ns, io, sequential, &self.schedule);
            let ns = storage_ns + io.cached_ns as f64;
            return Taken { ns, storage_ns, on_core: storage_ns == 0.0 };
        }
        let operation = Operation { op: io.op, sequential, bytes: io.bytes };
        let ns = self.schedule.elapsed_ns(now_ns, operation);
        let memory_ns = self.memory.ns + self.memory.ns_per_byte * io.bytes as f64;
        Taken { ns, storage_ns: ns, on_core: ns <= memory_ns }
    }

    pub fn waits(&self) -> Waits {
        self.schedule.waits()
    }
}

/// An operation with its offset, and whether it begins where the last one of its op on its file
/// ended; a first one does, as on a mount.
pub(super) fn place(ends: &mut Ends, io: Io) -> (Io, bool) {
    let file = io.file as usize;
    if ends.len() <= file {
        ends.resize(file + 1, [None; 2]);
    }
    let last = &mut ends[file][usize::from(io.op == Op::Write)];
    let offset = io.offset.or(*last).unwrap_or(0);
    let follows = io.offset.is_none() || last.is_none_or(|end| end == offset);
    *last = Some(offset + io.bytes);
    (Io { offset: Some(offset), ..io }, follows)
}

/// Operations with their offsets, in this order.
fn placed(operations: impl Iterator<Item = Io>) -> Vec<Io> {
    let mut ends = Ends::new();
    operations.map(|io| place(&mut ends, io).0).collect()
}
