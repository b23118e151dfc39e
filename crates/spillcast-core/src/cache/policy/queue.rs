//! LRU and FIFO: one queue. A line that is used again moves to the head in LRU, and stays in FIFO.

use std::slice::from_mut;

use super::Policy;
use crate::cache::request::Request;
use crate::cache::store::{List, Store};

/// LRU with `MOVES`, FIFO without.
pub(crate) struct Queue<const MOVES: bool> {
    lines: usize,
    list: List,
}

impl<const MOVES: bool> Queue<MOVES> {
    pub fn new(lines: usize) -> Self {
        Queue { lines, list: List::default() }
    }
}

impl<const MOVES: bool> Policy for Queue<MOVES> {
    const CACHED_LISTS: usize = 1;

    fn lists(&mut self) -> &mut [List] {
        from_mut(&mut self.list)
    }

    #[inline]
    fn access(&mut self, store: &mut Store, request: &Request) -> bool {
        if let Some(slot) = store.find(request.key) {
            if MOVES {
                self.list.renew(store, slot);
            }
            return true;
        }
        if self.list.len() >= self.lines {
            self.list.forget_oldest(store);
        }
        self.admit(store, request, 0);
        false
    }
}
