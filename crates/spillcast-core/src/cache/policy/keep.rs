//! The rules of Exadata's flash cache, as far as Oracle has published them.
//!
//! - Scans bypass the cache, unless their object is KEEP.
//! - KEEP lines are preferred: all other lines are evicted first, and never replace a KEEP line. If
//!   KEEP lines alone fill the cache, the one unread for longest is evicted. A KEEP line that was
//!   not read for 24 hours is evicted in any case.
//! - Temp writes take at most a given share of the cache; the rest goes to the disk. Temp lines
//!   leave when their query ends.
//! - All other reads are cached by LRU.

use rustc_hash::FxHashMap;

use super::Policy;
use crate::cache::request::{Class, Request};
use crate::cache::store::{List, Store};

const KEPT: usize = 0;
const TEMP: usize = 1;
const OTHER: usize = 2;

/// Parameters that the published rules leave open.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// The objects that are KEEP.
    pub kept: Vec<u32>,
    /// Share of the cache that temp data may take.
    pub temp_share: f64,
    /// Time without a read after which a KEEP line is evicted.
    pub unread_s: u32,
}

pub(crate) struct Keep {
    lines: usize,
    temp_max: usize,
    rules: Rules,
    lists: [List; 3],
    /// When the line of each slot was last read.
    read_s: Vec<u32>,
    /// The temp lines of each running query.
    temp_of: FxHashMap<u32, Vec<u64>>,
}

impl Keep {
    pub fn new(lines: usize, rules: Rules) -> Keep {
        Keep {
            lines,
            temp_max: (lines as f64 * rules.temp_share) as usize,
            rules,
            lists: Default::default(),
            read_s: Vec::new(),
            temp_of: FxHashMap::default(),
        }
    }

    fn len(&self) -> usize {
        self.lists.iter().map(List::len).sum()
    }

    fn age(&mut self, store: &mut Store, now_s: u32) {
        while let Some(slot) = self.lists[KEPT].tail() {
            if now_s.saturating_sub(self.read_s[slot as usize]) <= self.rules.unread_s {
                return;
            }
            self.lists[KEPT].forget_oldest(store);
        }
    }

    /// The list that a line would enter; None if it bypasses the cache.
    fn list_of(&self, request: &Request) -> Option<usize> {
        match request.class {
            Class::TempWrite => Some(TEMP),
            Class::TempRead => None,
            _ if self.rules.kept.contains(&request.object) => Some(KEPT),
            Class::Scan | Class::Write => None,
            Class::Read => Some(OTHER),
        }
    }

    /// Makes room for one more line in a list, if necessary by eviction; false if that fails.
    fn make_room(&mut self, store: &mut Store, list: usize) -> bool {
        if list == TEMP && self.lists[TEMP].len() >= self.temp_max {
            return false;
        }
        if self.len() < self.lines {
            return true;
        }
        let order: &[usize] = match list {
            KEPT => &[OTHER, TEMP, KEPT],
            // Temp data replaces lines cached by LRU, never other temp data.
            _ => &[OTHER],
        };
        order.iter().any(|&from| self.lists[from].forget_oldest(store))
    }

    fn admit_if_room(&mut self, store: &mut Store, request: &Request, list: usize) {
        if !self.make_room(store, list) {
            return;
        }
        let slot = self.admit(store, request, list);
        self.read_s.resize(self.read_s.len().max(slot as usize + 1), 0);
        self.read_s[slot as usize] = request.time_s;
        if list == TEMP {
            self.temp_of.entry(request.query).or_default().push(request.key);
        }
    }
}

impl Policy for Keep {
    const CACHED_LISTS: usize = 3;

    fn lists(&mut self) -> &mut [List] {
        &mut self.lists
    }

    fn access(&mut self, store: &mut Store, request: &Request) -> bool {
        self.age(store, request.time_s);
        let slot = store.find(request.key);
        match slot {
            Some(slot) => {
                let list = store.state(slot) as usize;
                self.lists[list].renew(store, slot);
                self.read_s[slot as usize] = request.time_s;
            }
            None => {
                if let Some(list) = self.list_of(request) {
                    self.admit_if_room(store, request, list);
                }
            }
        }
        if request.ends_query {
            for key in self.temp_of.remove(&request.query).unwrap_or_default() {
                self.discard(store, key);
            }
        }
        slot.is_some()
    }
}
