//! LRU and FIFO: one queue, in which a line that is used again moves to the head or does not.

use super::Policy;
use crate::cache::request::Request;
use crate::cache::store::{List, Store};

/// LRU with `MOVES`, FIFO without.
pub struct Queue<const MOVES: bool> {
    lines: usize,
    store: Store,
    list: List,
}

impl<const MOVES: bool> Queue<MOVES> {
    pub fn new(lines: usize) -> Self {
        Queue { lines, store: Store::default(), list: List::default() }
    }
}

impl<const MOVES: bool> Policy for Queue<MOVES> {
    #[inline]
    fn access(&mut self, request: &Request) -> bool {
        if let Some(slot) = self.store.find(request.key) {
            if MOVES {
                self.list.renew(&mut self.store, slot);
            }
            return true;
        }
        if self.list.len() >= self.lines
            && let Some(slot) = self.list.pop(&mut self.store)
        {
            self.store.remove(slot);
        }
        let slot = self.store.insert(request.key, request.object, 0);
        self.list.push(&mut self.store, slot);
        self.store.admitted += 1;
        false
    }

    fn take_out(&mut self, slot: u32) {
        self.list.take(&mut self.store, slot);
        self.store.remove(slot);
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
