//! The lines known to a cache, by key, and lists of them.
//!
//! Memory grows with the lines known at one time, not with the lines of the trace: 24 bytes per
//! line and 8 bytes per index slot, with at least two slots per line, so about 40 to 56 bytes in
//! all. Lists link positions in one array.

pub(crate) const NONE: u32 = u32::MAX;
const DIRTY: u32 = 1 << 31;
const BITS_MIN: u32 = 10;

/// A known line.
#[derive(Clone, Copy, Debug)]
struct Node {
    key: u64,
    /// The neighbour towards the head of its list, where lines enter.
    before: u32,
    after: u32,
    /// The policy's state: the list of the line, its number of uses.
    state: u32,
    /// The object of the line; the highest bit is set if only the cache holds what was written.
    object: u32,
}

/// Half of a key's hash, and the position of its node.
#[derive(Clone, Copy)]
struct Place {
    tag: u32,
    slot: u32,
}

/// The known lines, each in a slot.
pub(crate) struct Store {
    nodes: Vec<Node>,
    free: Vec<u32>,
    /// Open addressing with linear probing.
    index: Vec<Place>,
    bits: u32,
    used: usize,
    /// Evicted lines whose written content only the cache held.
    pub(crate) written_back: u64,
    /// Number of lines admitted to the cache so far.
    pub(crate) admitted: u64,
}

impl Default for Store {
    fn default() -> Store {
        let places = vec![Place { tag: 0, slot: NONE }; 1 << BITS_MIN];
        let (nodes, free) = (Vec::new(), Vec::new());
        Store { nodes, free, index: places, bits: BITS_MIN, used: 0, written_back: 0, admitted: 0 }
    }
}

fn tag(key: u64) -> u32 {
    // The upper half of a product by an odd constant depends on every bit of the key.
    ((key ^ (key >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

/// Prefetches memory into the CPU cache.
#[inline]
pub fn fetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch has no visible effect and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

impl Store {
    /// The slot of a key, if it is known.
    #[inline]
    pub fn find(&self, key: u64) -> Option<u32> {
        let tag = tag(key);
        let mask = self.index.len() - 1;
        let mut at = self.home(tag);
        loop {
            let place = self.index[at];
            if place.slot == NONE {
                return None;
            }
            if place.tag == tag && self.nodes[place.slot as usize].key == key {
                return Some(place.slot);
            }
            at = (at + 1) & mask;
        }
    }

    /// Prefetches the index slot of a key that will be used soon.
    #[inline]
    pub fn expect(&self, key: u64) {
        fetch(&raw const self.index[self.home(tag(key))]);
    }

    /// Prefetches the probable line of a key whose index slot is already in the CPU cache.
    #[inline]
    pub(crate) fn expect_line(&self, key: u64) {
        if let Some(node) = self.nodes.get(self.index[self.home(tag(key))].slot as usize) {
            fetch(node);
        }
    }

    /// Inserts an unknown key.
    #[inline]
    pub fn insert(&mut self, key: u64, object: u32, state: u32) -> u32 {
        if (self.used + 1) * 2 > self.index.len() {
            self.grow();
        }
        let node = Node { key, before: NONE, after: NONE, state, object };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.nodes[slot as usize] = node;
                slot
            }
            None => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as u32
            }
        };
        self.place(Place { tag: tag(key), slot });
        self.used += 1;
        slot
    }

    /// Removes a line that is in no list. It counts as written back if it is dirty.
    #[inline]
    pub fn remove(&mut self, slot: u32) {
        self.clean(slot);
        let mask = self.index.len() - 1;
        let mut hole = self.home(tag(self.nodes[slot as usize].key));
        while self.index[hole].slot != slot {
            hole = (hole + 1) & mask;
        }
        // Entries behind the hole move up, unless that would put them before their home.
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let place = self.index[at];
            if place.slot == NONE {
                break;
            }
            let distance = at.wrapping_sub(self.home(place.tag)) & mask;
            if distance >= (at.wrapping_sub(hole) & mask) {
                self.index[hole] = place;
                hole = at;
            }
        }
        self.index[hole].slot = NONE;
        self.free.push(slot);
        self.used -= 1;
    }

    #[inline]
    pub fn state(&self, slot: u32) -> u32 {
        self.nodes[slot as usize].state
    }

    #[inline]
    pub(crate) fn set_state(&mut self, slot: u32, state: u32) {
        self.nodes[slot as usize].state = state;
    }

    pub fn object(&self, slot: u32) -> u32 {
        self.nodes[slot as usize].object & !DIRTY
    }

    /// Marks a line as dirty: only the cache holds its content.
    pub(crate) fn mark_dirty(&mut self, slot: u32) {
        self.nodes[slot as usize].object |= DIRTY;
    }

    /// Writes a line back to the disk if it is dirty.
    #[inline]
    pub(crate) fn clean(&mut self, slot: u32) {
        let object = &mut self.nodes[slot as usize].object;
        self.written_back += u64::from(*object >> 31);
        *object &= !DIRTY;
    }

    /// Drops the dirty mark of a line whose content is no longer needed.
    pub(crate) fn forget_written(&mut self, slot: u32) {
        self.nodes[slot as usize].object &= !DIRTY;
    }

    #[inline]
    fn home(&self, tag: u32) -> usize {
        (tag >> (32 - self.bits)) as usize
    }

    #[inline]
    fn place(&mut self, place: Place) {
        let mask = self.index.len() - 1;
        let mut at = self.home(place.tag);
        while self.index[at].slot != NONE {
            at = (at + 1) & mask;
        }
        self.index[at] = place;
    }

    fn grow(&mut self) {
        self.bits += 1;
        let empty = vec![Place { tag: 0, slot: NONE }; 1 << self.bits];
        for place in std::mem::replace(&mut self.index, empty) {
            if place.slot != NONE {
                self.place(place);
            }
        }
    }
}

/// An ordered list of lines; the newest is the head.
pub(crate) struct List {
    head: u32,
    tail: u32,
    len: usize,
}

impl Default for List {
    fn default() -> List {
        List { head: NONE, tail: NONE, len: 0 }
    }
}

impl List {
    pub fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn tail(&self) -> Option<u32> {
        (self.tail != NONE).then_some(self.tail)
    }

    /// The line inserted next after this one; None for the head.
    pub(crate) fn newer(&self, store: &Store, slot: u32) -> Option<u32> {
        let before = store.nodes[slot as usize].before;
        (before != NONE).then_some(before)
    }

    #[inline]
    pub fn push(&mut self, store: &mut Store, slot: u32) {
        let head = self.head;
        let node = &mut store.nodes[slot as usize];
        node.before = NONE;
        node.after = head;
        match head {
            NONE => self.tail = slot,
            _ => store.nodes[head as usize].before = slot,
        }
        self.head = slot;
        self.len += 1;
    }

    #[inline]
    pub fn take(&mut self, store: &mut Store, slot: u32) {
        let Node { before, after, .. } = store.nodes[slot as usize];
        match before {
            NONE => self.head = after,
            _ => store.nodes[before as usize].after = after,
        }
        match after {
            NONE => self.tail = before,
            _ => store.nodes[after as usize].before = before,
        }
        self.len -= 1;
    }

    #[inline]
    pub fn pop(&mut self, store: &mut Store) -> Option<u32> {
        let slot = self.tail()?;
        self.take(store, slot);
        Some(slot)
    }

    /// Removes the oldest line; false if the list is empty.
    #[inline]
    pub(crate) fn forget_oldest(&mut self, store: &mut Store) -> bool {
        self.pop(store).inspect(|&slot| store.remove(slot)).is_some()
    }

    #[inline]
    pub(crate) fn renew(&mut self, store: &mut Store, slot: u32) {
        if self.head != slot {
            self.take(store, slot);
            self.push(store, slot);
        }
    }

    /// Calls `each` with every line, starting at the head.
    pub fn each(&self, store: &Store, mut each: impl FnMut(u32)) {
        let mut at = self.head;
        while at != NONE {
            each(at);
            at = store.nodes[at as usize].after;
        }
    }
}
