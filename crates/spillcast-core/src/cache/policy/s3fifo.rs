//! S3-FIFO (Yang, Zhang, Qiu, Yue, Rashmi: SOSP 2023): a small queue that most lines leave soon, a
//! main queue for lines that were used while in the small one, and the keys of evicted lines.
//!
//! Until the cache is first full, new lines go to the main queue if the small one is full, as in
//! the authors' later version.

use super::{LIST_BITS, Policy, list_of};
use crate::cache::request::Request;
use crate::cache::store::{List, Store};

/// The three queues; the bits of a line's state above its list are its number of uses.
const SMALL: usize = 0;
const MAIN: usize = 1;
const GHOST: usize = 2;
const USE: u32 = 1 << LIST_BITS;
const USES_MAX: u32 = 3;
/// Uses in the small queue from which a line moves on to the main one.
const PROMOTE_USES: u32 = 2;

pub(crate) struct S3Fifo {
    lines: usize,
    small_max: usize,
    ghost_max: usize,
    lists: [List; 3],
    full_once: bool,
}

impl S3Fifo {
    pub fn new(lines: usize) -> S3Fifo {
        S3Fifo {
            lines,
            small_max: (lines / 10).max(1),
            ghost_max: lines * 9 / 10,
            lists: Default::default(),
            full_once: false,
        }
    }

    fn evict(&mut self, store: &mut Store) {
        self.full_once = true;
        let main_max = self.lines - self.small_max;
        if self.lists[MAIN].len() > main_max || self.lists[SMALL].len() == 0 {
            self.evict_main(store);
        } else {
            self.evict_small(store);
        }
    }

    fn evict_small(&mut self, store: &mut Store) {
        while let Some(slot) = self.lists[SMALL].pop(store) {
            if store.state(slot) >= PROMOTE_USES * USE {
                self.enter(store, slot, MAIN);
                continue;
            }
            store.clean(slot);
            self.enter(store, slot, GHOST);
            if self.lists[GHOST].len() > self.ghost_max {
                self.lists[GHOST].forget_oldest(store);
            }
            return;
        }
    }

    /// Puts a line that is in no queue into one, as unused.
    fn enter(&mut self, store: &mut Store, slot: u32, list: usize) {
        store.set_state(slot, list as u32);
        self.lists[list].push(store, slot);
    }

    fn evict_main(&mut self, store: &mut Store) {
        while let Some(slot) = self.lists[MAIN].pop(store) {
            let state = store.state(slot);
            if state < USE {
                store.remove(slot);
                return;
            }
            store.set_state(slot, state - USE);
            self.lists[MAIN].push(store, slot);
        }
    }
}

impl Policy for S3Fifo {
    const CACHED_LISTS: usize = 2;

    fn lists(&mut self) -> &mut [List] {
        &mut self.lists
    }

    #[inline]
    fn access(&mut self, store: &mut Store, request: &Request) -> bool {
        let mut list = SMALL;
        if let Some(slot) = store.find(request.key) {
            let state = store.state(slot);
            if list_of(state) != GHOST {
                if state < USES_MAX * USE {
                    store.set_state(slot, state + USE);
                }
                return true;
            }
            self.lists[GHOST].take(store, slot);
            store.remove(slot);
            list = MAIN;
        }
        while self.lists[SMALL].len() + self.lists[MAIN].len() >= self.lines {
            self.evict(store);
        }
        if !self.full_once && self.lists[SMALL].len() >= self.small_max {
            list = MAIN;
        }
        self.admit(store, request, list);
        false
    }
}
