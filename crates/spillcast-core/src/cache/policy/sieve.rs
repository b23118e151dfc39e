//! SIEVE (Zhang, Yang, Yue, Vigfusson, Rashmi: NSDI 2024): a queue in which lines stay where they
//! are, and a hand that goes from the tail to the head and evicts what was not used since it passed.

use super::Policy;
use crate::cache::request::Request;
use crate::cache::store::{List, Store};

/// State of a line that was used since the hand passed.
const VISITED: u32 = 1;

pub struct Sieve {
    lines: usize,
    store: Store,
    list: List,
    hand: Option<u32>,
}

impl Sieve {
    pub fn new(lines: usize) -> Sieve {
        let (store, list) = (Store::default(), List::default());
        Sieve { lines, store, list, hand: None }
    }

    fn evict(&mut self) {
        let mut at = self.hand.or(self.list.tail());
        while let Some(slot) = at {
            if self.store.state(slot) != VISITED {
                self.take(slot);
                return;
            }
            self.store.set_state(slot, 0);
            at = self.list.newer(&self.store, slot).or(self.list.tail());
        }
    }

    /// Takes a line out; the hand goes on where it stood there or comes from there.
    fn take(&mut self, slot: u32) {
        self.hand = self.list.newer(&self.store, slot);
        self.list.take(&mut self.store, slot);
        self.store.remove(slot);
    }
}

impl Policy for Sieve {
    #[inline]
    fn access(&mut self, request: &Request) -> bool {
        if let Some(slot) = self.store.find(request.key) {
            self.store.set_state(slot, VISITED);
            return true;
        }
        if self.list.len() >= self.lines {
            self.evict();
        }
        let slot = self.store.insert(request.key, request.object, 0);
        self.list.push(&mut self.store, slot);
        self.store.admitted += 1;
        false
    }

    fn take_out(&mut self, slot: u32) {
        let hand = self.hand;
        self.take(slot);
        if hand != Some(slot) {
            self.hand = hand;
        }
    }

    fn store(&self) -> &Store {
        &self.store
    }

    fn store_mut(&mut self) -> &mut Store {
        &mut self.store
    }

    fn each_cached(&self, each: &mut dyn FnMut(u32)) {
        self.list.each(&self.store, each);
    }
}
