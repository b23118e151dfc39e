//! What reads of a sample of a recording had to bring from the storage, because no page cache held it.
//!
//! Caches of some regions of all files, while all operations pass, show it of the reads of those
//! regions. A sampled read of another region lacked what one like it lacked, before or after it.

use rustc_hash::FxHashMap;

use super::page_cache::Regions;
use super::rows::Io;
use super::target::Memory;
use crate::random;
use crate::wait::Op;

/// A read of a region that was not picked is like one of so many before or after it: those of many
/// regions, for what is read ahead lies at the beginning of each.
const NEIGHBOURS: u64 = 1024;

/// An operation that moved bytes from or to a temp file.
#[derive(Clone, Copy, Debug)]
pub struct Moved {
    pub op: Op,
    pub file: u32,
    /// None where it is not known.
    pub offset: Option<u64>,
    pub bytes: u64,
    pub session: i64,
    pub elapsed_ns: i64,
}

/// Takes the operations of a recording in order.
pub struct CachedReads {
    regions: Regions,
    memory: Memory,
    /// Parts of a sample have regions of their own, so that their chance shows in how far apart parts
    /// are; where all regions are picked there is none.
    groups: usize,
    operations: u64,
    /// Reads of the regions that were picked, and of the sample.
    picked: Vec<Read>,
    sampled: Vec<Read>,
    /// By operation that was picked, whether it is a read.
    is_read: Vec<bool>,
}

/// A read; `group` is that of its region, or of its part of the sample.
#[derive(Clone, Copy)]
struct Read {
    number: u64,
    session: i64,
    sequential: bool,
    /// As fast as memory.
    fast: bool,
    group: usize,
    /// Position among the rows of the sample.
    row: usize,
}

impl CachedReads {
    /// Caches of about a share `rate` of the regions, for a sample of so many parts. What takes no
    /// longer than `memory` is as fast as memory.
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

    /// Takes the next operation, and the part and row of the sample that it is, if it is of it.
    pub fn push(&mut self, moved: Moved, sampled: Option<(usize, usize)>) {
        let Moved { op, file, offset, bytes, session, elapsed_ns } = moved;
        let io = Io { op, file, offset, bytes, cached_ns: 0, missing_bytes: None };
        let (group, sequential) = self.regions.push(io);
        let fast = elapsed_ns as f64 <= self.memory.ns + bytes as f64 * self.memory.ns_per_byte;
        let number = self.operations;
        self.operations += 1;
        let is_read = op == Op::Read;
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

    /// By read of the sample its row, and the bytes that a cache with so much room lacked.
    pub fn missing_bytes(self, room_bytes: u64) -> Vec<(usize, u64)> {
        let missing = self.regions.missing_bytes(room_bytes);
        let missing: Vec<u64> = missing
            .into_iter()
            .zip(self.is_read)
            .filter(|&(_, is_read)| is_read)
            .map(|(bytes, _)| bytes)
            .collect();
        let known: Vec<(Read, u64)> = self.picked.into_iter().zip(missing).collect();
        let mut state = 0;
        let mut lacking = Vec::with_capacity(self.sampled.len());
        for group in 0..self.groups {
            let its: Vec<(Read, u64)> =
                known.iter().copied().filter(|(read, _)| read.group == group).collect();
            let like = Like::new(if its.is_empty() { &known } else { &its });
            for read in self.sampled.iter().filter(|read| read.group == group) {
                let missing = like.missing_bytes(read, random::next(&mut state));
                lacking.extend(missing.map(|bytes| (read.row, bytes)));
            }
        }
        lacking
    }
}

/// Reads of which it is known what they lacked, by what they have in common: session, pattern and
/// speed, else pattern and speed, else nothing. The mean is right however these are mixed, for both
/// are drawn from the same reads.
struct Like(FxHashMap<Kind, Vec<(u64, u64)>>);

type Kind = (Option<i64>, Option<(bool, bool)>);

impl Like {
    fn new(known: &[(Read, u64)]) -> Like {
        let mut by_kind: FxHashMap<Kind, Vec<(u64, u64)>> = FxHashMap::default();
        for (read, bytes) in known {
            for kind in kinds(read) {
                by_kind.entry(kind).or_default().push((read.number, *bytes));
            }
        }
        Like(by_kind)
    }

    /// What the read itself lacked, or one of its neighbours; None where none is known.
    fn missing_bytes(&self, read: &Read, draw: u64) -> Option<u64> {
        let neighbours = kinds(read).into_iter().find_map(|kind| self.0.get(&kind))?;
        let at = neighbours.partition_point(|&(number, _)| number < read.number);
        if let Some(&(number, bytes)) = neighbours.get(at)
            && number == read.number
        {
            return Some(bytes);
        }
        // Beyond an end it is counted back from there: 0 1 2 1 0 1 ...
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

    fn moved(op: Op, page: u64) -> Moved {
        Moved { op, file: 0, offset: Some(page * PAGE), bytes: PAGE, session: 1, elapsed_ns: 9000 }
    }

    /// Writes 10 pages from the last one on, then reads all in no order, the last one first, for the
    /// first read of a file brings what follows: which of the reads lack how much.
    fn missing(rate: f64, room_bytes: u64) -> Vec<(usize, u64)> {
        let mut reads = CachedReads::new(rate, 4, MEMORY);
        (0..10).rev().for_each(|page| reads.push(moved(Op::Write, page), None));
        for (row, page) in [9, 7, 3, 1, 5, 8, 0, 6, 2, 4].into_iter().enumerate() {
            reads.push(moved(Op::Read, page), Some((row % 4, row)));
        }
        reads.missing_bytes(room_bytes)
    }

    #[test]
    fn a_read_of_a_picked_region_lacks_what_its_cache_lacks() {
        let all = |bytes| (0..10).map(|row| (row, bytes)).collect::<Vec<_>>();
        assert_eq!(missing(1.0, 10 * PAGE), all(0));
        assert_eq!(missing(1.0, 0), all(PAGE));
    }

    #[test]
    fn nothing_is_found_where_no_region_was_picked() {
        assert_eq!(missing(0.0, 0), []);
    }
}
