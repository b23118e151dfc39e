//! Cache policies: one file for each, all behind [`Policy`].
//!
//! Each policy is compiled into the loop that drives it.

pub(crate) mod arc;
pub(crate) mod keep;
pub(crate) mod queue;
pub(crate) mod s3fifo;
pub(crate) mod sieve;

use super::request::Request;
use super::store::Store;

pub const NAMES: [&str; 7] = ["keep", "bypass", "lru", "fifo", "sieve", "s3fifo", "arc"];

/// A cache of a fixed number of lines, which are kept in a [`Store`].
pub(crate) trait Policy {
    /// Uses a line; returns whether it was cached. A miss inserts it, unless the policy declines.
    fn access(&mut self, store: &mut Store, request: &Request) -> bool;

    /// Whether a line is cached, without using it.
    fn holds(&self, store: &Store, key: u64) -> bool {
        store.find(key).is_some()
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
    fn unlink(&mut self, store: &mut Store, slot: u32);

    /// Calls `each` with the slot of every line that is cached.
    fn each_cached(&self, store: &Store, each: &mut dyn FnMut(u32));
}
