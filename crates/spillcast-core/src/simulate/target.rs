//! The storage that simulated I/O goes to.

use std::collections::HashMap;

use super::page_cache::{PageCache, PageCacheRoom};
use super::{Row, Wait};
use crate::storage::{Model, Operation, Schedule};
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
    ends: HashMap<(u32, Op), u64>,
}

impl Target {
    pub fn new(model: Model, memory: Memory, room: Option<PageCacheRoom>, rows: &[Row]) -> Target {
        let operations: Vec<Io> = rows
            .iter()
            .filter_map(|row| match row.wait {
                Wait::Io(io) => Some(io),
                _ => None,
            })
            .collect();
        Target {
            schedule: Schedule::of(model, operations.iter().map(|io| (io.op, io.bytes))),
            memory,
            page_cache: room.map(|room| PageCache::new(room, &placed(&operations))),
            ends: HashMap::new(),
        }
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

    pub fn limited_ns(&self) -> Vec<f64> {
        self.schedule.limited_ns()
    }
}

/// An operation with its offset, and whether it begins where the last one of its op on its file
/// ended; a first one does, as on a mount.
fn place(ends: &mut HashMap<(u32, Op), u64>, io: Io) -> (Io, bool) {
    let last = ends.get(&(io.file, io.op)).copied();
    let offset = io.offset.or(last).unwrap_or(0);
    ends.insert((io.file, io.op), offset + io.bytes);
    let follows = io.offset.is_none() || last.is_none_or(|end| end == offset);
    (Io { offset: Some(offset), ..io }, follows)
}

/// Operations with their offsets, in this order.
fn placed(operations: &[Io]) -> Vec<Io> {
    let mut ends = HashMap::new();
    operations.iter().map(|&io| place(&mut ends, io).0).collect()
}
