//! How much I/O was seen.

use crate::wait::{Op, Wait};

/// What was seen, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    pub temp_reads: u64,
    pub temp_writes: u64,
    pub temp_bytes: u64,
    pub temp_ns: u64,
    pub other_io: u64,
    /// Writes among them to files that are on some storage: a spill is written first.
    pub other_writes: u64,
    pub other_io_ns: u64,
    /// Calls on a descriptor that was closed before it could be looked at.
    pub unknown_file: u64,
    /// Calls that copied from or to temp files inside the kernel, and their bytes: no row has them.
    pub temp_copies: u64,
    pub temp_copied_bytes: u64,
    /// Most requests of io_uring, with calls, that a thread had under way at once, those on temp files
    /// among them.
    pub io_uring_depth: u64,
    /// CPU time of their threads' other work meanwhile.
    pub io_uring_busy_ns: u64,
}

impl Counts {
    /// Counts a read or write; of a file that lies in memory, no storage saw it.
    pub(super) fn add(&mut self, wait: &Wait, in_memory: bool) {
        let elapsed_ns = wait.elapsed_ns.max(0) as u64;
        if !wait.temp {
            self.other_io += 1;
            self.other_writes += (wait.op == Op::Write && !in_memory) as u64;
            self.other_io_ns += elapsed_ns;
            return;
        }
        self.temp_ns += elapsed_ns;
        self.temp_bytes += wait.bytes.unwrap_or(0) as u64;
        match wait.op {
            Op::Write => self.temp_writes += 1,
            _ => self.temp_reads += 1,
        }
    }
}
