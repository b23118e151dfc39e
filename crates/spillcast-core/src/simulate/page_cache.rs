//! The page cache before a storage: reads that memory answers, and writes that it takes for later.

use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};

use super::rows::{Ends, Io, place};
use crate::cache::store::{List, Store};
use crate::random;
use crate::storage::{Operation, Schedule};
use crate::wait::Op;

const PAGE_BYTES: u64 = 4096;
/// Pages are written back in requests of so much, so many at the same time.
const REQUEST_PAGES: usize = 64;
const REQUESTS_AT_ONCE: usize = 8;
/// What is read ahead of who reads in order.
const AHEAD_PAGES: u64 = 32;
/// A page's number has so many bits, the number of its file those above.
const PAGE_BITS: u32 = 40;
const CLEAN: u32 = 0;
const DIRTY: u32 = 1;

/// The memory that a page cache may have.
#[derive(Clone, Copy, Debug)]
pub struct PageCacheRoom {
    pub bytes: u64,
    /// Writers wait while more than this is not written back yet; writing back begins at half of it.
    pub dirty_bytes: u64,
}

/// Pages in memory, those used last kept; the pages of a file go with its last operation.
pub struct PageCache {
    pages_max: usize,
    dirty_max: usize,
    store: Store,
    used: List,
    /// Pages in the order in which they became dirty; some are clean again, or gone.
    dirtied: VecDeque<u64>,
    dirty: usize,
    /// When the last requests that wrote back ended or will end, and whether others follow them.
    written_ns: f64,
    writing: bool,
    files: FxHashMap<u32, File>,
}

/// Operations that are yet to come, and where the file ended so far.
#[derive(Default)]
struct File {
    operations: usize,
    pages: u64,
}

impl PageCache {
    /// Before `operations`; what they read without having written it lies in memory as far as it fits.
    pub fn new(room: PageCacheRoom, operations: &[Io]) -> PageCache {
        let pages = |bytes: u64| usize::try_from(bytes / PAGE_BYTES).unwrap_or(usize::MAX);
        let mut cache = PageCache {
            pages_max: pages(room.bytes),
            dirty_max: pages(room.dirty_bytes.min(room.bytes)),
            store: Store::default(),
            used: List::default(),
            dirtied: VecDeque::new(),
            dirty: 0,
            written_ns: 0.0,
            writing: false,
            files: FxHashMap::default(),
        };
        let mut known = FxHashSet::default();
        for io in operations {
            for key in keys(io) {
                if known.insert(key) && io.op != Op::Write {
                    cache.keep(key);
                }
            }
            let file = cache.files.entry(io.file).or_default();
            file.operations += 1;
            file.pages = file.pages.max(keys(io).end - (u64::from(io.file) << PAGE_BITS));
        }
        cache
    }

    /// How long an operation waits for the storage; 0 where memory has or takes all of it.
    pub fn storage_ns(&mut self, now_ns: u64, io: Io, sequential: bool, on: &Schedule) -> f64 {
        let ns = if io.op == Op::Write {
            keys(&io).for_each(|key| self.soil(key));
            self.write_back(now_ns as f64, on)
        } else {
            self.write_back(now_ns as f64, on);
            match io.missing_bytes.unwrap_or_else(|| self.missing_bytes(&io, sequential)) {
                0 => 0.0,
                bytes => on.elapsed_ns(now_ns, Operation { op: io.op, sequential, bytes }),
            }
        };
        self.done(io.file);
        ns
    }

    /// Takes in what a read asks for: how much of that, and of what is read ahead, was missing.
    fn missing_bytes(&mut self, io: &Io, sequential: bool) -> u64 {
        match keys(io).find(|&key| !self.touch(key)) {
            None => 0,
            Some(first) => self.fetch(first, io, sequential) as u64 * PAGE_BYTES,
        }
    }

    /// Takes in the rest of a read from its first missing page on, and where it is sequential what
    /// the kernel reads ahead; how many pages were missing.
    fn fetch(&mut self, first: u64, io: &Io, sequential: bool) -> usize {
        let (pages, file) = (keys(io), &self.files[&io.file]);
        let file_end = (u64::from(io.file) << PAGE_BITS) + file.pages;
        let ahead = if sequential { (first + AHEAD_PAGES).min(file_end) } else { 0 };
        let missing = (first + 1..pages.end.max(ahead)).filter(|&key| !self.touch(key));
        1 + missing.count()
    }

    /// Uses a page, which is in memory from now on; whether it was.
    fn touch(&mut self, key: u64) -> bool {
        let slot = self.store.find(key);
        match slot {
            Some(slot) => self.used.renew(&mut self.store, slot),
            None => self.keep(key),
        }
        slot.is_some()
    }

    /// Writes to a page.
    fn soil(&mut self, key: u64) {
        self.touch(key);
        if let Some(slot) = self.store.find(key).filter(|&slot| self.store.state(slot) == CLEAN) {
            self.store.set_state(slot, DIRTY);
            self.dirty += 1;
            self.dirtied.push_back(key);
        }
    }

    /// Takes a clean page into memory, where there is any.
    fn keep(&mut self, key: u64) {
        if self.used.len() >= self.pages_max
            && let Some(slot) = self.used.pop(&mut self.store)
        {
            self.forget(slot);
        }
        let slot = self.store.insert(key, 0, CLEAN);
        self.used.push(&mut self.store, slot);
    }

    /// Forgets a page that is in no list.
    fn forget(&mut self, slot: u32) {
        self.dirty -= usize::from(self.store.state(slot) == DIRTY);
        self.store.remove(slot);
    }

    /// Writes back what there was time for until now, and more while too much is dirty: how long a
    /// writer waits for that.
    fn write_back(&mut self, now_ns: f64, on: &Schedule) -> f64 {
        let enough = self.dirty_max / 2;
        if !self.writing {
            self.written_ns = self.written_ns.max(now_ns);
        }
        let waits = self.dirty > self.dirty_max;
        while self.dirty > self.dirty_max || (self.dirty > enough && self.written_ns <= now_ns) {
            let requests: Vec<usize> = (0..REQUESTS_AT_ONCE)
                .map(|_| self.clean(REQUEST_PAGES))
                .filter(|&pages| pages > 0)
                .collect();
            let took_ns = requests.into_iter().map(|pages| {
                let bytes = pages as u64 * PAGE_BYTES;
                let request = Operation { op: Op::Write, sequential: true, bytes };
                on.elapsed_ns(self.written_ns as u64, request)
            });
            self.written_ns += took_ns.fold(0.0, f64::max);
        }
        self.writing = self.dirty > enough;
        if waits { (self.written_ns - now_ns).max(0.0) } else { 0.0 }
    }

    /// Takes up to so many of the pages that are dirty for longest; how many there were.
    fn clean(&mut self, most: usize) -> usize {
        let mut cleaned = 0;
        while cleaned < most {
            let Some(key) = self.dirtied.pop_front() else { break };
            if let Some(slot) = self.store.find(key)
                && self.store.state(slot) == DIRTY
            {
                self.store.set_state(slot, CLEAN);
                self.dirty -= 1;
                cleaned += 1;
            }
        }
        cleaned
    }

    /// An operation of a file is over; its pages go with the last one.
    fn done(&mut self, number: u32) {
        let Some(file) = self.files.get_mut(&number) else { return };
        file.operations = file.operations.saturating_sub(1);
        if file.operations == 0 {
            self.remove(number);
        }
    }

    /// A file is gone, and its pages with it.
    fn remove(&mut self, number: u32) {
        let first = u64::from(number) << PAGE_BITS;
        for key in first..first + self.files[&number].pages {
            if let Some(slot) = self.store.find(key) {
                self.used.take(&mut self.store, slot);
                self.forget(slot);
            }
        }
    }
}

/// What reads bring of some regions of all files, through caches of as small a share of its room.
///
/// As SHARDS does with lines (Waldspurger et al., FAST 2015): a region is picked by a hash, and what
/// is done to it is all that happens in a cache that is smaller by the share of regions picked. Each
/// of some groups of regions has a cache of its own: how far apart they are tells how sure they are.
pub struct Regions {
    rate: f64,
    ends: Ends,
    operations: u64,
    /// By group, and of all operations.
    written_bytes: Vec<u64>,
    all_written_bytes: u64,
    /// By file, the number of its last operation.
    last: Vec<u64>,
    picked: Vec<Picked>,
}

/// An operation on a region that was picked: its number, and whether it followed the last one.
struct Picked {
    number: u64,
    group: usize,
    io: Io,
    sequential: bool,
}

impl Regions {
    const BYTES: u64 = 1 << 20;

    /// Of about a share `rate` of the regions, in so many groups.
    pub fn new(rate: f64, groups: usize) -> Regions {
        Regions {
            rate,
            ends: Ends::new(),
            operations: 0,
            written_bytes: vec![0; groups],
            all_written_bytes: 0,
            last: Vec::new(),
            picked: Vec::new(),
        }
    }

    /// Takes the next operation; the group of its region, if that was picked, and whether it followed
    /// the last one of its op on its file.
    pub fn push(&mut self, io: Io) -> (Option<usize>, bool) {
        let (io, sequential) = place(&mut self.ends, io);
        let (number, file) = (self.operations, io.file as usize);
        self.operations += 1;
        if self.last.len() <= file {
            self.last.resize(file + 1, 0);
        }
        self.last[file] = number;
        let region = io.offset.unwrap_or(0) / Regions::BYTES;
        let hash = random::mix(random::mix(u64::from(io.file) + 1).wrapping_add(region));
        let written = if io.op == Op::Write { io.bytes } else { 0 };
        self.all_written_bytes += written;
        if hash > (self.rate * u64::MAX as f64) as u64 {
            return (None, sequential);
        }
        // Which hashes are small says nothing of their last bits.
        let group = (hash % self.written_bytes.len() as u64) as usize;
        self.written_bytes[group] += written;
        self.picked.push(Picked { number, group, io, sequential });
        (Some(group), sequential)
    }

    /// Of each operation that was picked, the bytes that a cache with so much room lacks; 0 of writes.
    pub fn missing_bytes(self, room_bytes: u64) -> Vec<u64> {
        let groups = 0..self.written_bytes.len();
        let mut missing: Vec<_> =
            groups.map(|group| self.missing_of(group, room_bytes).into_iter()).collect();
        let next = |picked: &Picked| missing[picked.group].next().unwrap_or(0);
        self.picked.iter().map(next).collect()
    }

    /// The share that a group has of what was written, which is not quite that of the regions.
    fn share(&self, group: usize) -> f64 {
        match self.all_written_bytes {
            0 => self.rate / self.written_bytes.len() as f64,
            all => self.written_bytes[group] as f64 / all as f64,
        }
    }

    /// The same of the operations of a group.
    fn missing_of(&self, group: usize, room_bytes: u64) -> Vec<u64> {
        let its = || self.picked.iter().filter(|picked| picked.group == group);
        let operations: Vec<Io> = its().map(|picked| picked.io).collect();
        let bytes = (room_bytes as f64 * self.share(group)) as u64;
        // Nothing has to be written back: only what is read is asked.
        let mut cache = PageCache::new(PageCacheRoom { bytes, dirty_bytes: bytes }, &operations);
        drop(operations);
        let mut gone: Vec<(u64, u32)> =
            cache.files.keys().map(|&f| (self.last[f as usize], f)).collect();
        gone.sort_unstable_by(|a, b| b.cmp(a));
        let missing = its().map(|Picked { number, io, sequential, .. }| {
            while gone.last().is_some_and(|&(last, _)| last < *number) {
                gone.pop().into_iter().for_each(|(_, file)| cache.remove(file));
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

/// The pages of an operation whose offset is known.
fn keys(io: &Io) -> std::ops::Range<u64> {
    let (offset, file) = (io.offset.unwrap_or(0), u64::from(io.file) << PAGE_BITS);
    file + offset / PAGE_BYTES..file + (offset + io.bytes).div_ceil(PAGE_BYTES)
}

#[cfg(test)]
mod tests;
