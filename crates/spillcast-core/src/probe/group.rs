//! Measured operations of one kind.

use serde::Serialize;

use crate::histogram::Histogram;
use crate::wait::{Op, size_class_bytes};

/// The order of operations within a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// As recorded.
    Recorded,
    Sequential,
    Random,
}

/// Through the page cache, or around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    Buffered,
    Direct,
}

/// Operations of one kind, always with `depth` of them in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    pub op: Op,
    pub bytes: u32,
    pub depth: u32,
    pub pattern: Pattern,
    pub access: Access,
}

/// Serialised as in storage.json, except for the blocks.
#[derive(Clone, Debug, Serialize)]
pub struct Group {
    pub op: Op,
    pub size_class_bytes: u64,
    /// Operations in flight at a time; for a replay, the number of threads that do I/O.
    pub depth: u32,
    pub pattern: Pattern,
    pub access: Access,
    pub bytes: u64,
    /// Time in which the operations ran, one after the other or `depth` at a time, so their
    /// count over `elapsed_ns` is their rate; None if other operations ran in between.
    pub elapsed_ns: Option<u64>,
    #[serde(flatten)]
    pub histogram: Histogram,
    /// Count and mean latency of consecutive blocks of the measurement, in order of time.
    #[serde(skip)]
    pub block_means_ns: Vec<(u64, f64)>,
}

/// A group during its measurement, block by block.
#[derive(Clone, Debug, Default)]
pub(super) struct Running {
    bytes: u64,
    elapsed_ns: u64,
    histogram: Histogram,
    block_means_ns: Vec<(u64, f64)>,
    block_count: u64,
    block_total_ns: u64,
}

impl Running {
    pub(super) fn record(&mut self, elapsed_ns: u64, bytes: u64) {
        self.bytes += bytes;
        self.histogram.record(elapsed_ns);
        self.block_count += 1;
        self.block_total_ns += elapsed_ns;
    }

    /// Adds operations of `bytes` each.
    pub(super) fn merge(&mut self, histogram: &Histogram, bytes: u64) {
        self.bytes += bytes * histogram.count();
        self.histogram.merge(histogram);
        self.block_count += histogram.count();
        self.block_total_ns += histogram.total_ns();
    }

    /// Adds time in which operations ran.
    pub(super) fn pass(&mut self, elapsed_ns: u64) {
        self.elapsed_ns += elapsed_ns;
    }

    /// Ends a block; ignores an empty one.
    pub(super) fn end_block(&mut self) {
        if self.block_count > 0 {
            let mean_ns = self.block_total_ns as f64 / self.block_count as f64;
            self.block_means_ns.push((self.block_count, mean_ns));
            (self.block_count, self.block_total_ns) = (0, 0);
        }
    }

    /// The group of operations of `cell`, or of up to as many bytes.
    pub(super) fn into_group(self, cell: Cell) -> Group {
        let Cell { op, bytes, depth, pattern, access } = cell;
        let size_class_bytes = size_class_bytes(bytes.into());
        let blocks = self.block_means_ns.iter().map(|block| block.0).sum::<u64>();
        debug_assert_eq!(blocks + self.block_count, self.histogram.count(), "a block is missing");
        debug_assert!(self.bytes <= self.histogram.count() * size_class_bytes, "{op:?} too large");
        Group {
            op,
            size_class_bytes,
            depth,
            pattern,
            access,
            bytes: self.bytes,
            elapsed_ns: (self.elapsed_ns > 0).then_some(self.elapsed_ns),
            histogram: self.histogram,
            block_means_ns: self.block_means_ns,
        }
    }
}
