//! The bucket that each line is in: 8 bytes a slot, and at least four slots for three lines.
//!
//! A line is known by 48 bits of its hash: of ten million lines, one in ten traces takes two for one.

use std::hint::black_box;

use super::store::fetch;

const BUCKET_BITS: u32 = 16;
const TAG_BITS: u32 = 64 - BUCKET_BITS;
const BITS_MIN: u32 = 13;
/// Slots of a page of memory.
const PAGE: usize = 512;

/// Open addressing, a line as near behind its home as there was room; an empty slot is 0.
pub struct Table {
    slots: Vec<u64>,
    bits: u32,
    /// Distinct lines so far.
    pub lines: usize,
}

impl Table {
    pub fn new() -> Table {
        Table { slots: vec![0; 1 << BITS_MIN], bits: BITS_MIN, lines: 0 }
    }

    /// Makes room for so many more lines.
    pub fn reserve(&mut self, lines: usize) {
        while (self.lines + lines) * 4 > self.slots.len() * 3 {
            self.bits += 1;
            let slots = std::mem::replace(&mut self.slots, vec![0; 1 << self.bits]);
            // A page that is read before it is written to would have two faults.
            self.slots.iter_mut().step_by(PAGE).for_each(|slot| *slot = black_box(0));
            for slot in slots.into_iter().filter(|slot| *slot != 0) {
                let at = self.find(slot >> BUCKET_BITS);
                self.slots[at] = slot;
            }
        }
    }

    /// Prefetches the slot of a line that will be used soon.
    #[inline]
    pub fn expect(&self, hash: u64) {
        fetch(&raw const self.slots[self.home(hash >> BUCKET_BITS)]);
    }

    /// Puts a line into a bucket from 1 on: the one it was in, 0 for a line that was not known, for
    /// which there is room.
    #[inline]
    pub fn put(&mut self, hash: u64, bucket: u16) -> u16 {
        let tag = hash >> BUCKET_BITS;
        let at = self.find(tag);
        let before = self.slots[at] as u16;
        self.slots[at] = tag << BUCKET_BITS | u64::from(bucket);
        self.lines += usize::from(before == 0);
        before
    }

    /// Gives each bucket its number in `numbers`, which has 0 for 0.
    pub fn renumber(&mut self, numbers: &[u16]) {
        for slot in &mut self.slots {
            *slot = *slot >> BUCKET_BITS << BUCKET_BITS | u64::from(numbers[*slot as u16 as usize]);
        }
    }

    #[inline]
    fn home(&self, tag: u64) -> usize {
        (tag >> (TAG_BITS - self.bits)) as usize
    }

    /// The slot of a line, or the one to put it into.
    #[inline]
    fn find(&self, tag: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = self.home(tag);
        while self.slots[at] != 0 && self.slots[at] >> BUCKET_BITS != tag {
            at = (at + 1) & mask;
        }
        at
    }
}
