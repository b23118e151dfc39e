//! Counts the operations on a mount, their latencies, and how many were late.

use serde::Serialize;

use crate::histogram::Histogram;
use crate::storage::Operation;
use crate::wait::Op;

/// An operation that takes more than this times the requested latency is late.
const LATE: f64 = 1.1;

#[derive(Clone, Debug, Default, Serialize)]
pub struct Stats {
    pub read: OpStats,
    pub write: OpStats,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct OpStats {
    pub bytes: u64,
    /// Operations that began where the last one of their op on the file ended.
    pub sequential: u64,
    /// Operations that took more than a tenth longer than requested.
    pub late: u64,
    /// Their latencies, with the overhead of the mount; its count is the number of operations.
    #[serde(flatten)]
    pub achieved: Histogram,
}

impl Stats {
    /// Counts an operation; both times include the overhead of the mount.
    pub(crate) fn count(&mut self, operation: Operation, asked_ns: f64, achieved_ns: f64) {
        let Operation { op, sequential, bytes } = operation;
        let stats = if op == Op::Write { &mut self.write } else { &mut self.read };
        stats.bytes += bytes;
        stats.sequential += u64::from(sequential);
        // Without a requested latency, nothing is late.
        stats.late += u64::from(asked_ns > 0.0 && achieved_ns > LATE * asked_ns);
        stats.achieved.record(achieved_ns as u64);
    }
}
