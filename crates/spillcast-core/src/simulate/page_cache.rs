//! A simulated page cache, which serves reads from memory and writes dirty pages back later.

use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};

use super::rows::{Ends, Io, place};
use crate::cache::store::{List, Store};
use crate::random;
use crate::storage::{Operation, Schedule};
use crate::wait::Op;

const PAGE_BYTES: u64 = 4096;
/// Pages of a writeback request, and requests in flight at a time.
const REQUEST_PAGES: usize = 64;
const REQUESTS_AT_ONCE: usize = 8;
/// Readahead of sequential reads.
const AHEAD_PAGES: u64 = 32;
/// A page's key has its number in the low `PAGE_BITS` bits, and its file's number above.
const PAGE_BITS: u32 = 40;
const CLEAN: u32 = 0;
const DIRTY: u32 = 1;

/// The limits of a page cache.
#[derive(Clone, Copy, Debug)]
pub struct PageCacheLimits {
    pub bytes: u64,
    /// Writers wait while more than this is dirty. Writeback starts at half of it.
    pub dirty_bytes: u64,
}

/// Pages in memory, evicted by LRU. The pages of a file are dropped after its last operation.
#[derive(Default)]
pub(crate) struct PageCache {
    pages_max: usize,
    dirty_max: usize,
    store: Store,
    lru: List,
    /// Pages in the order in which they became dirty; some are clean again or evicted.
    dirty_order: VecDeque<u64>,
    dirty_pages: usize,
    /// End of the last writeback requests, and whether more follow immediately.
    writeback_end_ns: f64,
    writeback_active: bool,
    files: FxHashMap<u32, File>,
}

/// Number of pending operations, and the size of the file in pages.
#[derive(Default)]
struct File {
    operations_left: usize,
    pages: u64,
}

impl PageCache {
    /// A cache for `operations`. It holds pages that they read before any write, the last that fit.
    pub fn new(limits: PageCacheLimits, operations: &[Io]) -> PageCache {
        let pages = |bytes: u64| usize::try_from(bytes / PAGE_BYTES).unwrap_or(usize::MAX);
        let mut cache = PageCache {
            pages_max: pages(limits.bytes),
            dirty_max: pages(limits.dirty_bytes.min(limits.bytes)),
            ..PageCache::default()
        };
        let mut seen = FxHashSet::default();
        for io in operations {
            for key in keys(io) {
                if seen.insert(key) && io.op != Op::Write {
                    cache.insert(key);
                }
            }
            let file = cache.files.entry(io.file).or_default();
            file.operations_left += 1;
            file.pages = file.pages.max(keys(io).end - (u64::from(io.file) << PAGE_BITS));
        }
        cache
    }

    /// Time that an operation waits for the storage; 0 if memory serves it.
    pub(crate) fn storage_ns(
        &mut self,
        now_ns: u64,
        io: Io,
        sequential: bool,
        on: &Schedule,
    ) -> f64 {
        let ns = if io.op == Op::Write {
            keys(&io).for_each(|key| self.make_dirty(key));
            self.write_back(now_ns as f64, on)
        } else {
            self.write_back(now_ns as f64, on);
            match io.missing_bytes.unwrap_or_else(|| self.missing_bytes(&io, sequential)) {
                0 => 0.0,
                bytes => on.elapsed_ns(now_ns, Operation { op: io.op, sequential, bytes }),
            }
        };
        self.end_operation(io.file);
        ns
    }

    /// Reads pages; returns the missing bytes, including those of readahead.
    fn missing_bytes(&mut self, io: &Io, sequential: bool) -> u64 {
        match keys(io).find(|&key| !self.touch(key)) {
            None => 0,
            Some(first) => self.read_missing(first, io, sequential) as u64 * PAGE_BYTES,
        }
    }

    /// Reads the pages from the first missing one on and, if the read is sequential, those of
    /// readahead; returns how many were missing.
    fn read_missing(&mut self, first: u64, io: &Io, sequential: bool) -> usize {
        let (pages, file) = (keys(io), &self.files[&io.file]);
        let file_end = (u64::from(io.file) << PAGE_BITS) + file.pages;
        let ahead = if sequential { (first + AHEAD_PAGES).min(file_end) } else { 0 };
        let missing = (first + 1..pages.end.max(ahead)).filter(|&key| !self.touch(key));
        1 + missing.count()
    }

    /// Uses a page and inserts it if necessary; returns whether it was cached.
    fn touch(&mut self, key: u64) -> bool {
        let slot = self.store.find(key);
        match slot {
            Some(slot) => self.lru.renew(&mut self.store, slot),
            None => self.insert(key),
        }
        slot.is_some()
    }

    /// Writes to a page.
    fn make_dirty(&mut self, key: u64) {
        self.touch(key);
        if let Some(slot) = self.store.find(key).filter(|&slot| self.store.state(slot) == CLEAN) {
            self.store.set_state(slot, DIRTY);
            self.dirty_pages += 1;
            self.dirty_order.push_back(key);
        }
    }

    /// Inserts a clean page; evicts another if the cache is full.
    fn insert(&mut self, key: u64) {
        if self.lru.len() >= self.pages_max
            && let Some(slot) = self.lru.pop(&mut self.store)
        {
            self.remove_page(slot);
        }
        let slot = self.store.insert(key, 0, CLEAN);
        self.lru.push(&mut self.store, slot);
    }

    /// Removes a page that is already off the list.
    fn remove_page(&mut self, slot: u32) {
        self.dirty_pages -= usize::from(self.store.state(slot) == DIRTY);
        self.store.remove(slot);
    }

    /// Writes back what time allowed until now, and more while too much is dirty; returns how long
    /// a writer waits for that.
    fn write_back(&mut self, now_ns: f64, on: &Schedule) -> f64 {
        let enough = self.dirty_max / 2;
        if !self.writeback_active {
            self.writeback_end_ns = self.writeback_end_ns.max(now_ns);
        }
        let waits = self.dirty_pages > self.dirty_max;
        while self.dirty_pages > self.dirty_max
            || (self.dirty_pages > enough && self.writeback_end_ns <= now_ns)
        {
            let start_ns = self.writeback_end_ns;
            for _ in 0..REQUESTS_AT_ONCE {
                let bytes = self.clean_oldest(REQUEST_PAGES) as u64 * PAGE_BYTES;
                if bytes > 0 {
                    let request = Operation { op: Op::Write, sequential: true, bytes };
                    let end_ns = start_ns + on.elapsed_ns(start_ns as u64, request);
                    self.writeback_end_ns = self.writeback_end_ns.max(end_ns);
                }
            }
        }
        self.writeback_active = self.dirty_pages > enough;
        if waits { (self.writeback_end_ns - now_ns).max(0.0) } else { 0.0 }
    }

    /// Marks up to `pages_max` of the pages that were dirty longest as clean; returns the number.
    fn clean_oldest(&mut self, pages_max: usize) -> usize {
        let mut cleaned = 0;
        while cleaned < pages_max {
            let Some(key) = self.dirty_order.pop_front() else { break };
            if let Some(slot) = self.store.find(key)
                && self.store.state(slot) == DIRTY
            {
                self.store.set_state(slot, CLEAN);
                self.dirty_pages -= 1;
                cleaned += 1;
            }
        }
        cleaned
    }

    /// Ends an operation on a file; the last one removes the file's pages.
    fn end_operation(&mut self, number: u32) {
        let Some(file) = self.files.get_mut(&number) else { return };
        file.operations_left = file.operations_left.saturating_sub(1);
        if file.operations_left == 0 {
            self.remove_file(number);
        }
    }

    fn remove_file(&mut self, number: u32) {
        let first = u64::from(number) << PAGE_BITS;
        for key in first..first + self.files[&number].pages {
            if let Some(slot) = self.store.find(key) {
                self.lru.take(&mut self.store, slot);
                self.remove_page(slot);
            }
        }
    }
}

/// A sample of the regions of all files. Its reads go through caches scaled down by the same share.
///
/// This is SHARDS (Waldspurger et al., FAST 2015) with regions in place of lines: a hash selects
/// the regions. They form groups, and each group has a cache of its own: the differences between
/// the groups show the error.
pub(crate) struct Regions {
    rate: f64,
    ends: Ends,
    operations: u64,
    /// By group, and in total, selected or not.
    written_bytes: Vec<u64>,
    all_written_bytes: u64,
    /// By file, the index of its last operation.
    last_operation: Vec<u64>,
    picked: Vec<Picked>,
}

/// An operation on a selected region.
struct Picked {
    number: u64,
    group: usize,
    io: Io,
    sequential: bool,
}

impl Regions {
    const BYTES: u64 = 1 << 20;

    /// Samples about a share `rate` of the regions, in `groups` groups.
    pub fn new(rate: f64, groups: usize) -> Regions {
        Regions {
            rate,
            ends: Ends::new(),
            operations: 0,
            written_bytes: vec![0; groups],
            all_written_bytes: 0,
            last_operation: Vec::new(),
            picked: Vec::new(),
        }
    }

    /// Takes the next operation; returns the group of its region, if selected, and whether the
    /// operation is sequential.
    pub fn push(&mut self, io: Io) -> (Option<usize>, bool) {
        let (io, sequential) = place(&mut self.ends, io);
        let (number, file) = (self.operations, io.file as usize);
        self.operations += 1;
        if self.last_operation.len() <= file {
            self.last_operation.resize(file + 1, 0);
        }
        self.last_operation[file] = number;
        let region = io.offset.unwrap_or(0) / Regions::BYTES;
        let hash = random::mix(random::mix(u64::from(io.file) + 1).wrapping_add(region));
        let written = if io.op == Op::Write { io.bytes } else { 0 };
        self.all_written_bytes += written;
        if hash > (self.rate * u64::MAX as f64) as u64 {
            return (None, sequential);
        }
        // The high bits of the hash selected the region; its low bits are still random.
        let group = (hash % self.written_bytes.len() as u64) as usize;
        self.written_bytes[group] += written;
        self.picked.push(Picked { number, group, io, sequential });
        (Some(group), sequential)
    }

    /// For each selected operation, the bytes that a cache of `room_bytes` lacks; 0 for writes.
    pub(crate) fn missing_bytes(self, room_bytes: u64) -> Vec<u64> {
        let groups = 0..self.written_bytes.len();
        let mut missing: Vec<_> =
            groups.map(|group| self.missing_of(group, room_bytes).into_iter()).collect();
        let next = |picked: &Picked| missing[picked.group].next().unwrap_or(0);
        self.picked.iter().map(next).collect()
    }

    /// A group's share of the written bytes, which differs slightly from its share of the regions.
    fn share(&self, group: usize) -> f64 {
        match self.all_written_bytes {
            0 => self.rate / self.written_bytes.len() as f64,
            all => self.written_bytes[group] as f64 / all as f64,
        }
    }

    fn missing_of(&self, group: usize, room_bytes: u64) -> Vec<u64> {
        let of_group = || self.picked.iter().filter(|picked| picked.group == group);
        let operations: Vec<Io> = of_group().map(|picked| picked.io).collect();
        let bytes = (room_bytes as f64 * self.share(group)) as u64;
        // Only reads count, so writeback is unnecessary.
        let mut cache = PageCache::new(PageCacheLimits { bytes, dirty_bytes: bytes }, &operations);
        drop(operations);
        // The last operation of each file, latest first.
        let mut file_ends: Vec<(u64, u32)> =
            cache.files.keys().map(|&file| (self.last_operation[file as usize], file)).collect();
        file_ends.sort_unstable_by(|a, b| b.cmp(a));
        let missing = of_group().map(|Picked { number, io, sequential, .. }| {
            while let Some((_, file)) = file_ends.pop_if(|(last, _)| *last < *number) {
                cache.remove_file(file);
            }
            if io.op == Op::Write {
                keys(io).for_each(|key| {
                    cache.touch(key);
                });
                return 0;
            }
            cache.missing_bytes(io, *sequential)
        });
        missing.collect()
    }
}

/// The keys of the pages of an operation whose offset is known.
fn keys(io: &Io) -> std::ops::Range<u64> {
    let (offset, file) = (io.offset.unwrap_or(0), u64::from(io.file) << PAGE_BITS);
    file + offset / PAGE_BYTES..file + (offset + io.bytes).div_ceil(PAGE_BYTES)
}

#[cfg(test)]
mod tests;
