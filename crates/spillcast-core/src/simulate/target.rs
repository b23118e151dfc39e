//! The storage of simulated I/O, with or without a page cache in front of it.

use super::page_cache::{PageCache, PageCacheLimits};
use super::rows::{Ends, Io, Rows, Wait, place};
use crate::storage::{Model, Operation, Schedule, Waits};

/// The time of an operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Taken {
    pub ns: f64,
    /// The storage's part of `ns`.
    pub(crate) storage_ns: f64,
    /// Whether the thread keeps its core during the operation.
    pub(crate) on_core: bool,
}

/// The longest time of an operation served by memory, during which a thread keeps its core.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    pub ns: f64,
    pub ns_per_byte: f64,
}

pub struct Target {
    schedule: Schedule,
    memory: Memory,
    page_cache: Option<PageCache>,
    ends: Ends,
}

impl Target {
    pub fn new<R: Rows + ?Sized>(
        model: Model,
        memory: Memory,
        limits: Option<PageCacheLimits>,
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
            page_cache: limits.map(|limits| PageCache::new(limits, &placed(operations()))),
            ends: Ends::new(),
        }
    }

    pub(crate) fn has_page_cache(&self) -> bool {
        self.page_cache.is_some()
    }

    /// Issues an operation at `now_ns`.
    pub(crate) fn issue(&mut self, now_ns: u64, io: Io) -> Taken {
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

/// Returns the operations with their offsets, in order.
fn placed(operations: impl Iterator<Item = Io>) -> Vec<Io> {
    let mut ends = Ends::new();
    operations.map(|io| place(&mut ends, io).0).collect()
}
