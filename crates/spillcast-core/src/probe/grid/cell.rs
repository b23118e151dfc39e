//! A cell of the grid, and a slice of its operations.

use std::fs::File;
use std::io;

use crate::probe::group::{Access, Cell, Pattern};
use crate::probe::progress::Counters;
use crate::random::Shuffle;
use crate::wait::Op;

pub(super) const DEPTH_MAX: usize = 32;
pub(super) const BYTES_MAX: usize = 1 << 20;

pub const SIZES: [u32; 6] = [4 << 10, 8 << 10, 16 << 10, 64 << 10, 256 << 10, BYTES_MAX as u32];
pub(crate) const DEPTHS: [u32; 6] = [1, 2, 4, 8, 16, DEPTH_MAX as u32];

impl Cell {
    /// Minimum number of operations of a slice, however short its time: those that start before
    /// `depth` are in flight, then as many as are in flight, and at least four for a mean.
    pub(super) fn least_operations(&self) -> u64 {
        u64::from(self.depth + self.depth.max(4))
    }
}

/// All cells by increasing depth: a lack of time omits the deep ones first.
pub fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for depth in DEPTHS {
        for bytes in SIZES {
            for op in [Op::Read, Op::Write] {
                for pattern in [Pattern::Sequential, Pattern::Random] {
                    for access in [Access::Buffered, Access::Direct] {
                        cells.push(Cell { op, bytes, depth, pattern, access });
                    }
                }
            }
        }
    }
    cells
}

/// A slice of one cell's operations on a file without holes.
pub(super) struct Slice<'a> {
    pub(super) cell: Cell,
    pub(super) file: &'a File,
    pub(super) offsets: Offsets,
    /// After this, no operation starts beyond the minimum of the cell.
    pub(super) deadline_ns: u64,
    /// After this, no operation starts.
    pub(super) end_ns: u64,
    /// Maximum number of operations.
    pub(super) operations_max: u64,
    pub(super) counters: &'a Counters,
}

impl Slice<'_> {
    /// Whether another operation may start after `issued` ones.
    pub(super) fn goes_on(&self, issued: u64, now_ns: u64) -> bool {
        let least = self.cell.least_operations();
        let in_time = now_ns < self.deadline_ns || issued < least && now_ns < self.end_ns;
        in_time && issued < self.operations_max && !self.counters.is_cancelled()
    }

    /// Operations started before `depth` were in flight met a shorter queue, so do not count.
    pub(super) fn counts(&self, operation: u64) -> bool {
        operation >= u64::from(self.cell.depth)
    }
}

/// The offsets of the operations of a slice, by number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offsets {
    bytes: u64,
    count: u64,
    order: Order,
}

#[derive(Clone, Copy, Debug)]
enum Order {
    From(u64),
    Shuffled(Shuffle),
}

impl Offsets {
    /// Covers a file of `file_bytes` in the order of the cell; `key` makes slices differ.
    pub(super) fn new(cell: &Cell, file_bytes: u64, key: u64) -> Offsets {
        let bytes = u64::from(cell.bytes);
        let count = file_bytes / bytes;
        let order = match cell.pattern {
            Pattern::Random => Order::Shuffled(Shuffle::new(count, key)),
            _ => Order::From(key % count),
        };
        Offsets { bytes, count, order }
    }

    /// Number of operations that touch no byte twice.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn at(&self, operation: u64) -> u64 {
        let block = match self.order {
            Order::From(first) => (first + operation) % self.count,
            Order::Shuffled(shuffle) => shuffle.at(operation),
        };
        block * self.bytes
    }
}

/// An operation of a slice that failed.
#[derive(Debug)]
pub(super) struct SliceError {
    pub(super) doing: String,
    pub(super) source: io::Error,
}

impl SliceError {
    pub(super) fn new(cell: &Cell, offset: u64, source: io::Error) -> SliceError {
        let op = cell.op.name().unwrap_or("wait");
        SliceError { doing: format!("{op} of {} bytes at offset {offset}", cell.bytes), source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_grid_has_every_combination_once() {
        let cells = cells();
        assert_eq!(cells.len(), 2 * 6 * 6 * 2 * 2);
        for (i, cell) in cells.iter().enumerate() {
            assert!(!cells[..i].contains(cell));
            assert!(i == 0 || cells[i - 1].depth <= cell.depth);
        }
    }

    #[test]
    fn offsets_cover_the_file_before_any_repeats() {
        for pattern in [Pattern::Sequential, Pattern::Random] {
            let cell =
                Cell { op: Op::Read, bytes: 8192, depth: 1, pattern, access: Access::Direct };
            let offsets = Offsets::new(&cell, 100 * 8192 + 4096, 77);
            let first: Vec<u64> = (0..100).map(|i| offsets.at(i)).collect();
            assert_eq!(first.iter().collect::<HashSet<_>>().len(), 100);
            assert!(first.iter().all(|&at| at % 8192 == 0 && at + 8192 <= 100 * 8192 + 4096));
            assert_eq!(offsets.at(100), first[0]);
            let in_order = first.windows(2).filter(|pair| pair[1] == pair[0] + 8192).count();
            assert_eq!(in_order > 90, pattern == Pattern::Sequential);
        }
    }
}
