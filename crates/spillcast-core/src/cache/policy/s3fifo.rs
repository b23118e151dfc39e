//! S3-FIFO (Yang, Zhang, Qiu, Yue, Rashmi: SOSP 2023): a small queue that most lines leave soon, a
//! main queue for lines that were used while in the small one, and the keys of evicted lines.
//!
//! Until the cache is first full, new lines go to the main queue if the small one is full, as in
//! the authors' later version.

use super::Policy;
use crate::cache::request::Request;
use crate::cache::store::{List, Store};

/// The queue of a line, in the bits above its number of uses.
const SMALL: u32 = 0;
const MAIN: u32 = 1 << 8;
const GHOST: u32 = 2 << 8;
const QUEUE: u32 = 3 << 8;
const USES_MAX: u32 = 3;
/// Uses in the small queue from which a line moves on to the main one.
const USES_TO_STAY: u32 = 2;

pub(crate) struct S3Fifo {
    lines: usize,
    small_max: usize,
    ghost_max: usize,
    small: List,
    main: List,
    ghost: List,
    full_once: bool,
}

impl S3Fifo {
    pub fn new(lines: usize) -> S3Fifo {
        S3Fifo {
            lines,
            small_max: (lines / 10).max(1),
            ghost_max: lines * 9 / 10,
            small: List::default(),
            main: List::default(),
            ghost: List::default(),
            full_once: false,
        }
    }

    fn evict(&mut self, store: &mut Store) {
        self.full_once = true;
        let main_max = self.lines - self.small_max;
        if self.main.len() > main_max || self.small.len() == 0 {
            self.evict_main(store);
        } else {
            self.evict_small(store);
        }
    }

    fn evict_small(&mut self, store: &mut Store) {
        while let Some(slot) = self.small.pop(store) {
            if store.state(slot) >= SMALL + USES_TO_STAY {
                store.set_state(slot, MAIN);
                self.main.push(store, slot);
                continue;
            }
            store.clean(slot);
            store.set_state(slot, GHOST);
            self.ghost.push(store, slot);
            if self.ghost.len() > self.ghost_max {
                self.ghost.forget_oldest(store);
            }
            return;
        }
    }

    fn evict_main(&mut self, store: &mut Store) {
        while let Some(slot) = self.main.pop(store) {
            let state = store.state(slot);
            if state == MAIN {
                store.remove(slot);
                return;
            }
            store.set_state(slot, state - 1);
            self.main.push(store, slot);
        }
    }
}

impl Policy for S3Fifo {
    #[inline]
    fn access(&mut self, store: &mut Store, request: &Request) -> bool {
        let known = store.find(request.key);
        let mut queue = SMALL;
        if let Some(slot) = known {
            let state = store.state(slot);
            if state & QUEUE != GHOST {
                if state & !QUEUE < USES_MAX {
                    store.set_state(slot, state + 1);
                }
                return true;
            }
            self.ghost.take(store, slot);
            store.remove(slot);
            queue = MAIN;
        }
        while self.small.len() + self.main.len() >= self.lines {
            self.evict(store);
        }
        if !self.full_once && self.small.len() >= self.small_max {
            queue = MAIN;
        }
        let slot = store.insert(request.key, request.object, queue);
        match queue {
            MAIN => self.main.push(store, slot),
            _ => self.small.push(store, slot),
        }
        store.admitted += 1;
        false
    }

    fn holds(&self, store: &Store, key: u64) -> bool {
        store.find(key).is_some_and(|slot| store.state(slot) & QUEUE != GHOST)
    }

    fn unlink(&mut self, store: &mut Store, slot: u32) {
        let list = match store.state(slot) & QUEUE {
            SMALL => &mut self.small,
            MAIN => &mut self.main,
            _ => &mut self.ghost,
        };
        list.take(store, slot);
    }

    fn each_cached(&self, store: &Store, each: &mut dyn FnMut(u32)) {
        self.small.each(store, &mut *each);
        self.main.each(store, each);
    }
}
