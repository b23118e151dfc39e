//! The page cache before a storage: reads that memory answers, and writes that it takes for later.

use std::collections::{HashMap, HashSet, VecDeque};

use super::Io;
use crate::cache::store::{List, Store};
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
    files: HashMap<u32, File>,
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
            files: HashMap::new(),
        };
        let mut known = HashSet::new();
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
            match keys(&io).find(|&key| !self.touch(key)) {
                None => 0.0,
                Some(first) => {
                    let bytes = self.fetch(first, &io, sequential) as u64 * PAGE_BYTES;
                    on.elapsed_ns(now_ns, Operation { op: io.op, sequential, bytes })
                }
            }
        };
        self.done(io.file);
        ns
    }

    /// Takes in the rest of a read from its first missing page on, and where it is sequential what
    /// the kernel reads ahead; how many pages were missing.
    fn fetch(&mut self, first: u64, io: &Io, sequential: bool) -> usize {
        let (asked, file) = (keys(io), &self.files[&io.file]);
        let file_end = (u64::from(io.file) << PAGE_BITS) + file.pages;
        let ahead = if sequential { (first + AHEAD_PAGES).min(file_end) } else { 0 };
        let missing = (first + 1..asked.end.max(ahead)).filter(|&key| !self.touch(key));
        1 + missing.count()
    }

    /// Uses a page, which is in memory from now on; whether it was.
    fn touch(&mut self, key: u64) -> bool {
        let found = self.store.find(key);
        match found {
            Some(slot) => self.used.renew(&mut self.store, slot),
            None => self.keep(key),
        }
        found.is_some()
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
        file.operations -= 1;
        if file.operations > 0 {
            return;
        }
        let first = u64::from(number) << PAGE_BITS;
        for key in first..first + file.pages {
            if let Some(slot) = self.store.find(key) {
                self.used.take(&mut self.store, slot);
                self.forget(slot);
            }
        }
    }
}

/// The pages of an operation whose offset is known.
fn keys(io: &Io) -> std::ops::Range<u64> {
    let (offset, file) = (io.offset.unwrap_or(0), u64::from(io.file) << PAGE_BITS);
    file + offset / PAGE_BYTES..file + (offset + io.bytes).div_ceil(PAGE_BYTES)
}

#[cfg(test)]
mod tests;
