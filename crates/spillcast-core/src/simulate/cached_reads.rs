//! Estimates which bytes the page cache lacked, for the reads in a sample of a recording.
//!
//! All operations pass through caches of selected regions of the files, which show what reads there
//! lacked. A sampled read of another region takes the value of a similar read nearby.

use rustc_hash::FxHashMap;

use super::page_cache::Regions;
use super::rows::Io;
use super::target::Memory;
use crate::random;
use crate::wait::Op;

/// A read of a region that was not selected takes the value of one of this many reads before or
/// after it. They span many regions, because readahead falls at the start of each.
const NEIGHBOURS: u64 = 1024;

/// The reads of a recording, from its operations in order.
pub struct CachedReads {
    regions: Regions,
    memory: Memory,
    /// Each part of the sample has regions of its own, so that the differences between parts show
    /// the error of the selection. There is one group if all regions are selected.
    groups: usize,
    operations: u64,
    /// Reads of selected regions, and reads of the sample.
    picked: Vec<Read>,
    sampled: Vec<Read>,
    /// By operation on a selected region, whether it is a read.
    is_read: Vec<bool>,
}

/// A read, and the group of its region or of its part of the sample.
#[derive(Clone, Copy)]
struct Read {
    number: u64,
    session: i64,
    sequential: bool,
    /// Whether it was as fast as memory.
    fast: bool,
    group: usize,
    /// Index among the rows of the sample.
    row: usize,
}

impl CachedReads {
    /// Selects about a share `rate` of the regions, for a sample of `parts` parts. A read that
    /// takes no longer than `memory` is as fast as memory.
    pub fn new(rate: f64, parts: usize, memory: Memory) -> CachedReads {
        let groups = if rate < 1.0 { parts } else { 1 };
        CachedReads {
            regions: Regions::new(rate, groups),
            memory,
            groups,
            operations: 0,
            picked: Vec::new(),
            sampled: Vec::new(),
            is_read: Vec::new(),
        }
    }

    /// Takes the next operation, which a session waited for; `sampled` is its part and row if it is
    /// in the sample.
    pub fn push(
        &mut self,
        io: Io,
        (session, elapsed_ns): (i64, i64),
        sampled: Option<(usize, usize)>,
    ) {
        let (group, sequential) = self.regions.push(io);
        let fast = elapsed_ns as f64 <= self.memory.ns + io.bytes as f64 * self.memory.ns_per_byte;
        let number = self.operations;
        self.operations += 1;
        let is_read = io.op == Op::Read;
        let read = Read { number, session, sequential, fast, group: 0, row: 0 };
        if let Some(group) = group {
            self.is_read.push(is_read);
            if is_read {
                self.picked.push(Read { group, ..read });
            }
        }
        if let (true, Some((part, row))) = (is_read, sampled) {
            self.sampled.push(Read { group: part % self.groups, row, ..read });
        }
    }

    /// For each read of the sample, its row and the bytes that a cache of `room_bytes` lacked.
    pub fn missing_bytes(self, room_bytes: u64) -> Vec<(usize, u64)> {
        let missing = self.regions.missing_bytes(room_bytes);
        let missing: Vec<u64> = missing
            .into_iter()
            .zip(self.is_read)
            .filter(|&(_, is_read)| is_read)
            .map(|(bytes, _)| bytes)
            .collect();
        let all: Vec<(Read, u64)> = self.picked.into_iter().zip(missing).collect();
        let mut random_state = 0;
        let mut missing_by_row = Vec::with_capacity(self.sampled.len());
        for group in 0..self.groups {
            let of_group: Vec<(Read, u64)> =
                all.iter().copied().filter(|(read, _)| read.group == group).collect();
            let similar = SimilarReads::new(if of_group.is_empty() { &all } else { &of_group });
            for read in self.sampled.iter().filter(|read| read.group == group) {
                let missing = similar.missing_bytes(read, random::next(&mut random_state));
                missing_by_row.extend(missing.map(|bytes| (read.row, bytes)));
            }
        }
        missing_by_row
    }
}

/// Indexes of reads and the bytes that they lacked, by kind. Similar reads share session, pattern
/// and speed, or else pattern and speed, or else nothing.
struct SimilarReads(FxHashMap<Kind, Vec<(u64, u64)>>);

/// Session; sequential and fast.
type Kind = (Option<i64>, Option<(bool, bool)>);

impl SimilarReads {
    fn new(reads: &[(Read, u64)]) -> SimilarReads {
        let mut by_kind: FxHashMap<Kind, Vec<(u64, u64)>> = FxHashMap::default();
        for (read, bytes) in reads {
            for kind in kinds(read) {
                by_kind.entry(kind).or_default().push((read.number, *bytes));
            }
        }
        SimilarReads(by_kind)
    }

    /// Bytes that the read, or else a neighbour that `draw` chooses, lacked; None without one.
    fn missing_bytes(&self, read: &Read, draw: u64) -> Option<u64> {
        let neighbours = kinds(read).into_iter().find_map(|kind| self.0.get(&kind))?;
        let at = neighbours.partition_point(|&(number, _)| number < read.number);
        if let Some(&(number, bytes)) = neighbours.get(at)
            && number == read.number
        {
            return Some(bytes);
        }
        // Positions beyond an end are mirrored: 0 1 2 1 0 1 ...
        let last = neighbours.len() as i64 - 1;
        let off = (draw % (2 * NEIGHBOURS)) as i64 - NEIGHBOURS as i64;
        let at = (at as i64 + off).rem_euclid((2 * last).max(1));
        Some(neighbours[at.min(2 * last - at) as usize].1)
    }
}

fn kinds(read: &Read) -> [Kind; 3] {
    let pattern = Some((read.sequential, read.fast));
    [(Some(read.session), pattern), (None, pattern), (None, None)]
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: Memory = Memory { ns: 1000.0, ns_per_byte: 0.0 };
    const PAGE: u64 = 4096;

    fn io(op: Op, page: u64) -> Io {
        Io { op, offset: Some(page * PAGE), bytes: PAGE, ..Io::default() }
    }

    /// Writes 10 pages from the last to the first, then reads all in mixed order, the last first: a
    /// file's first read triggers readahead. Returns which reads lack how many bytes.
    fn missing(rate: f64, room_bytes: u64) -> Vec<(usize, u64)> {
        let mut reads = CachedReads::new(rate, 4, MEMORY);
        (0..10).rev().for_each(|page| reads.push(io(Op::Write, page), (1, 9000), None));
        for (row, page) in [9, 7, 3, 1, 5, 8, 0, 6, 2, 4].into_iter().enumerate() {
            reads.push(io(Op::Read, page), (1, 9000), Some((row % 4, row)));
        }
        reads.missing_bytes(room_bytes)
    }

    #[test]
    fn a_read_of_a_sampled_region_misses_like_its_cache() {
        let all = |bytes| (0..10).map(|row| (row, bytes)).collect::<Vec<_>>();
        assert_eq!(missing(1.0, 10 * PAGE), all(0));
        assert_eq!(missing(1.0, 0), all(PAGE));
    }

    #[test]
    fn without_sampled_regions_there_are_no_misses() {
        assert_eq!(missing(0.0, 0), []);
    }
}
