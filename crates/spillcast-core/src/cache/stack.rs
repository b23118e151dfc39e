//! Stack distances in O(log n): a bit for the time of each line's last use, and a Fenwick tree over
//! blocks of 512 bits. Lines may be in groups, whose distances are also counted separately.

use rustc_hash::FxHashMap;

const WORDS: usize = 8;
const BLOCK: usize = 64 * WORDS;
const TIMES_MIN: usize = 1 << 14;

/// Numbers of other lines used since the last use of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Since {
    /// Lines that were singled out.
    pub(crate) single: usize,
    pub others: usize,
    /// The other lines of the requested group.
    pub(crate) in_group: usize,
}

/// The group of the lines that were singled out.
const SINGLE: u8 = u8::MAX;

/// All lines, by the time of their last use.
#[derive(Default)]
pub(crate) struct Stack {
    line_of: FxHashMap<u64, u32>,
    /// By line.
    time_of: Vec<u32>,
    group_of: Vec<u8>,
    /// By time; valid only for times of last uses.
    line_at: Vec<u32>,
    single: Times,
    others: Times,
    groups: Vec<Times>,
    now: usize,
}

impl Stack {
    /// Divides the lines into `groups` groups, or none if it is 0.
    pub(crate) fn with_groups(groups: usize) -> Stack {
        Stack { groups: vec![Times::default(); groups], ..Stack::default() }
    }

    /// Uses a line; returns how many others were used since its last use. The first use puts the
    /// line into `group` and returns None. Later uses count the lines of `group`.
    pub(crate) fn touch(&mut self, key: u64, group: u8) -> Option<Since> {
        if self.now == self.line_at.len() {
            self.compact();
        }
        let now = self.now;
        let lines = self.time_of.len();
        let line = *self.line_of.entry(key).or_insert(lines as u32) as usize;
        self.line_at[now] = line as u32;
        self.now += 1;
        if line == lines {
            self.time_of.push(now as u32);
            self.group_of.push(group);
            self.set(now, group);
            return None;
        }
        let before = std::mem::replace(&mut self.time_of[line], now as u32) as usize;
        let single = self.single.after(before);
        let others = self.others.after(before);
        let in_group = self.groups.get(group as usize).map_or(0, |times| times.after(before));
        let group = self.group_of[line];
        self.unset(before, group);
        self.set(now, group);
        Some(Since { single, others, in_group })
    }

    #[inline]
    fn set(&mut self, time: usize, group: u8) {
        if group == SINGLE {
            return self.single.set(time);
        }
        self.others.set(time);
        if let Some(times) = self.groups.get_mut(group as usize) {
            times.set(time);
        }
    }

    #[inline]
    fn unset(&mut self, time: usize, group: u8) {
        if group == SINGLE {
            return self.single.unset(time);
        }
        self.others.unset(time);
        if let Some(times) = self.groups.get_mut(group as usize) {
            times.unset(time);
        }
    }

    /// Counts a line separately from now on; an unknown line counts as used now.
    pub(crate) fn count_separately(&mut self, key: u64) {
        if !self.line_of.contains_key(&key) {
            self.touch(key, 0);
        }
        let line = self.line_of[&key] as usize;
        let time = self.time_of[line] as usize;
        let group = std::mem::replace(&mut self.group_of[line], SINGLE);
        self.unset(time, group);
        self.set(time, SINGLE);
    }

    /// Renumbers the last uses from 0, with room for as many again.
    fn compact(&mut self) {
        let mut next = 0;
        for time in 0..self.now {
            let line = self.line_at[time];
            if self.time_of[line as usize] as usize == time {
                self.line_at[next] = line;
                self.time_of[line as usize] = next as u32;
                next += 1;
            }
        }
        let times = (2 * next).max(TIMES_MIN).next_multiple_of(BLOCK);
        self.line_at.resize(times, 0);
        self.single.clear(times);
        self.others.clear(times);
        self.groups.iter_mut().for_each(|group| group.clear(times));
        for time in 0..next {
            self.set(time, self.group_of[self.line_at[time] as usize]);
        }
        self.now = next;
    }
}

/// A set of times, which can count how many lie after a given one.
#[derive(Clone, Default)]
struct Times {
    bits: Vec<u64>,
    /// A Fenwick tree over the bits of each block.
    tree: Vec<u32>,
    count: usize,
}

impl Times {
    fn clear(&mut self, times: usize) {
        self.bits.clear();
        self.bits.resize(times / 64, 0);
        self.tree.clear();
        self.tree.resize(times / BLOCK + 1, 0);
        self.count = 0;
    }

    fn set(&mut self, time: usize) {
        self.bits[time / 64] |= 1 << (time % 64);
        self.add(time / BLOCK, 1);
        self.count += 1;
    }

    fn unset(&mut self, time: usize) {
        self.bits[time / 64] &= !(1 << (time % 64));
        self.add(time / BLOCK, u32::MAX);
        self.count -= 1;
    }

    /// Number of times after `time`.
    fn after(&self, time: usize) -> usize {
        let mut upto = (self.bits[time / 64] << (63 - time % 64)).count_ones();
        let mut block = time / BLOCK;
        for word in &self.bits[block * WORDS..time / 64] {
            upto += word.count_ones();
        }
        while block > 0 {
            upto += self.tree[block];
            block &= block - 1;
        }
        self.count - upto as usize
    }

    /// Adds to a block's count, modulo 2^32.
    fn add(&mut self, block: usize, by: u32) {
        let mut at = block + 1;
        while at < self.tree.len() {
            self.tree[at] = self.tree[at].wrapping_add(by);
            at += at & at.wrapping_neg();
        }
    }
}
