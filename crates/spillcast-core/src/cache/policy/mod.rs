//! Cache policies: one file for each, all behind [`Policy`].
//!
//! Each policy is compiled into the loop that drives it.

pub(crate) mod arc;
pub(crate) mod keep;
pub(crate) mod queue;
pub(crate) mod s3fifo;
pub(crate) mod sieve;

use super::request::Request;
use super::store::{List, Store};

pub const NAMES: [&str; 7] = ["keep", "bypass", "lru", "fifo", "sieve", "s3fifo", "arc"];

/// The low bits of a line's state are the number of its list; the bits above are the policy's own.
const LIST_BITS: u32 = 2;

fn list_of(state: u32) -> usize {
    (state & ((1 << LIST_BITS) - 1)) as usize
}

/// A cache of a fixed number of lines, which are kept in a [`Store`], each in a list.
pub(crate) trait Policy {
    /// The first lists hold cached lines, the others only the keys of evicted ones.
    const CACHED_LISTS: usize;

    fn lists(&mut self) -> &mut [List];

    /// Uses a line; returns whether it was cached. A miss inserts it, unless the policy declines.
    fn access(&mut self, store: &mut Store, request: &Request) -> bool;

    /// Whether a line is cached, without using it.
    fn holds(&self, store: &Store, key: u64) -> bool {
        store.find(key).is_some_and(|slot| list_of(store.state(slot)) < Self::CACHED_LISTS)
    }

    /// Adds an unknown line to a list of cached lines.
    #[inline]
    fn admit(&mut self, store: &mut Store, request: &Request, list: usize) -> u32 {
        let slot = store.insert(request.key, request.object, list as u32);
        self.lists()[list].push(store, slot);
        store.admitted += 1;
        slot
    }

    /// Removes a line whose content is stale or no longer needed.
    fn discard(&mut self, store: &mut Store, key: u64) {
        if let Some(slot) = store.find(key) {
            store.forget_written(slot);
            self.unlink(store, slot);
            store.remove(slot);
        }
    }

    /// Takes a known line out of its list.
    fn unlink(&mut self, store: &mut Store, slot: u32) {
        self.lists()[list_of(store.state(slot))].take(store, slot);
    }

    /// Calls `each` with the slot of every line that is cached.
    fn each_cached(&mut self, store: &Store, mut each: impl FnMut(u32)) {
        self.lists()[..Self::CACHED_LISTS].iter().for_each(|list| list.each(store, &mut each));
    }
}
