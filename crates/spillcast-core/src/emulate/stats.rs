//! Counts the operations on a mount, their latencies, and how many were late.

use std::sync::{Mutex, MutexGuard};

use crate::histogram::Histogram;
use crate::storage::Operation;
use crate::wait::Op;

/// An operation that takes longer than this times what was asked is late.
const LATE: f64 = 1.1;

#[derive(Clone, Debug, Default)]
pub struct Stats {
    pub read: OpStats,
    pub write: OpStats,
}

#[derive(Clone, Debug, Default)]
pub struct OpStats {
    pub bytes: u64,
    /// How many began where the last one of the op on their file ended.
    pub sequential: u64,
    /// How many took more than a tenth longer than asked.
    pub late: u64,
    /// How long they took, with what the mount itself adds; its count is the number of operations.
    pub achieved: Histogram,
}

#[derive(Default)]
pub(crate) struct Counters {
    read: Mutex<OpStats>,
    write: Mutex<OpStats>,
}

impl Counters {
    /// Counts an operation; both times are with what the mount itself adds.
    pub fn count(&self, operation: Operation, asked_ns: f64, achieved_ns: f64) {
        let Operation { op, sequential, bytes } = operation;
        let mut stats = lock(if op == Op::Write { &self.write } else { &self.read });
        stats.bytes += bytes;
        stats.sequential += u64::from(sequential);
        // Where nothing is asked for, nothing is late.
        stats.late += u64::from(asked_ns > 0.0 && achieved_ns > LATE * asked_ns);
        stats.achieved.record(achieved_ns as u64);
    }

    pub fn stats(&self) -> Stats {
        Stats { read: lock(&self.read).clone(), write: lock(&self.write).clone() }
    }
}

fn lock(stats: &Mutex<OpStats>) -> MutexGuard<'_, OpStats> {
    stats.lock().expect("nothing panics with the lock held")
}
