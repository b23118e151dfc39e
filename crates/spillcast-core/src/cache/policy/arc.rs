//! ARC (Megiddo, Modha: FAST 2003): a list of lines used once and a list of lines used again, each
//! with a list of evicted keys. Hits on evicted keys decide how the two lists share the cache.

use super::Policy;
use crate::cache::request::Request;
use crate::cache::store::{List, Store};

/// The four lists of the paper, as a line's state: T1, T2, B1 and B2.
const ONCE: usize = 0;
const AGAIN: usize = 1;
const GHOST_ONCE: usize = 2;
const GHOST_AGAIN: usize = 3;

pub struct Arc {
    lines: usize,
    lists: [List; 4],
    /// Target number of lines used once: p of the paper.
    once_target: f64,
}

impl Arc {
    pub fn new(lines: usize) -> Arc {
        Arc { lines, lists: Default::default(), once_target: 0.0 }
    }

    fn len(&self, list: usize) -> usize {
        self.lists[list].len()
    }

    fn shift(&mut self, store: &mut Store, slot: u32, to: usize) {
        let from = store.state(slot) as usize;
        self.lists[from].take(store, slot);
        store.set_state(slot, to as u32);
        self.lists[to].push(store, slot);
    }

    /// REPLACE of the paper: evicts one line and keeps its key.
    fn replace(&mut self, store: &mut Store, had_left_again: bool) {
        let once = self.len(ONCE);
        let over = once as f64 - self.once_target;
        let many = over > 0.0 || (over == 0.0 && had_left_again);
        let from = if once > 0 && (many || self.len(AGAIN) == 0) { ONCE } else { AGAIN };
        if let Some(slot) = self.lists[from].tail() {
            store.clean(slot);
            self.shift(store, slot, from + GHOST_ONCE);
        }
    }

    /// Makes room for a line with an unknown key: case IV of the paper.
    fn make_room(&mut self, store: &mut Store) {
        let once = self.len(ONCE) + self.len(GHOST_ONCE);
        let known = once + self.len(AGAIN) + self.len(GHOST_AGAIN);
        if once == self.lines {
            if self.len(ONCE) < self.lines {
                self.lists[GHOST_ONCE].forget_oldest(store);
                self.replace(store, false);
            } else {
                self.lists[ONCE].forget_oldest(store);
            }
        } else if known >= self.lines {
            if known == 2 * self.lines {
                self.lists[GHOST_AGAIN].forget_oldest(store);
            }
            // A discarded line may have left room.
            if self.len(ONCE) + self.len(AGAIN) >= self.lines {
                self.replace(store, false);
            }
        }
    }
}

impl Policy for Arc {
    const CACHED_LISTS: usize = 2;

    fn lists(&mut self) -> &mut [List] {
        &mut self.lists
    }

    #[inline]
    fn access(&mut self, store: &mut Store, request: &Request) -> bool {
        let Some(slot) = store.find(request.key) else {
            self.make_room(store);
            self.admit(store, request, ONCE);
            return false;
        };
        let list = store.state(slot) as usize;
        if list == ONCE || list == AGAIN {
            self.shift(store, slot, AGAIN);
            return true;
        }
        let (ghost_once, ghost_again) = (self.len(GHOST_ONCE) as f64, self.len(GHOST_AGAIN) as f64);
        self.once_target = if list == GHOST_ONCE {
            (self.once_target + (ghost_again / ghost_once).max(1.0)).min(self.lines as f64)
        } else {
            (self.once_target - (ghost_once / ghost_again).max(1.0)).max(0.0)
        };
        if self.len(ONCE) + self.len(AGAIN) >= self.lines {
            self.replace(store, list == GHOST_AGAIN);
        }
        self.shift(store, slot, AGAIN);
        store.admitted += 1;
        false
    }
}
