//! SIEVE (Zhang, Yang, Yue, Vigfusson, Rashmi: NSDI 2024): a queue in which lines do not move. A
//! hand goes from tail to head and evicts lines that were not used since its last pass.

use std::slice::from_mut;

use super::{LIST_BITS, Policy};
use crate::cache::request::Request;
use crate::cache::store::{List, Store};

/// State of a line that was used since the hand passed.
const VISITED: u32 = 1 << LIST_BITS;

pub(crate) struct Sieve {
    lines: usize,
    list: List,
    hand: Option<u32>,
}

impl Sieve {
    pub fn new(lines: usize) -> Sieve {
        Sieve { lines, list: List::default(), hand: None }
    }

    fn evict(&mut self, store: &mut Store) {
        let mut at = self.hand.or(self.list.tail());
        while let Some(slot) = at {
            if store.state(slot) != VISITED {
                self.take(store, slot);
                return store.remove(slot);
            }
            store.set_state(slot, 0);
            at = self.list.newer(store, slot).or(self.list.tail());
        }
    }

    /// Removes a line at the hand, which goes on with the next newer line.
    fn take(&mut self, store: &mut Store, slot: u32) {
        self.hand = self.list.newer(store, slot);
        self.list.take(store, slot);
    }
}

impl Policy for Sieve {
    const CACHED_LISTS: usize = 1;

    fn lists(&mut self) -> &mut [List] {
        from_mut(&mut self.list)
    }

    #[inline]
    fn access(&mut self, store: &mut Store, request: &Request) -> bool {
        if let Some(slot) = store.find(request.key) {
            store.set_state(slot, VISITED);
            return true;
        }
        if self.list.len() >= self.lines {
            self.evict(store);
        }
        self.admit(store, request, 0);
        false
    }

    fn unlink(&mut self, store: &mut Store, slot: u32) {
        let hand = self.hand;
        self.take(store, slot);
        if hand != Some(slot) {
            self.hand = hand;
        }
    }
}
