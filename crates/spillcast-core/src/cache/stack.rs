//! Stack distances in O(log n): a bit for the time of each line's last use, and a Fenwick tree over
//! blocks of 512 of them.

use rustc_hash::FxHashMap;

const WORDS: usize = 8;
const BLOCK: usize = 64 * WORDS;
const TIMES_MIN: usize = 1 << 14;

/// How many other lines were used since a line was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Since {
    /// Lines that were singled out.
    pub single: usize,
    pub others: usize,
}

/// All lines, by the time of their last use.
#[derive(Default)]
pub struct Stack {
    line_of: FxHashMap<u64, u32>,
    /// By line.
    time_of: Vec<u32>,
    is_single: Vec<bool>,
    /// By time; holds for times of last uses only.
    line_at: Vec<u32>,
    single: Times,
    others: Times,
    now: usize,
}

impl Stack {
    /// Uses a line: how many others were used since it was; None for the first use.
    pub fn touch(&mut self, key: u64) -> Option<Since> {
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
            self.is_single.push(false);
            self.others.set(now);
            return None;
        }
        let before = std::mem::replace(&mut self.time_of[line], now as u32) as usize;
        let single = self.single.after(before);
        let others = self.others.after(before);
        let times = if self.is_single[line] { &mut self.single } else { &mut self.others };
        times.unset(before);
        times.set(now);
        Some(Since { single, others })
    }

    /// Counts a line apart from the others from now on; one that is not known was used just now.
    pub fn single_out(&mut self, key: u64) {
        if !self.line_of.contains_key(&key) {
            self.touch(key);
        }
        let line = self.line_of[&key];
        let time = self.time_of[line as usize] as usize;
        self.is_single[line as usize] = true;
        self.others.unset(time);
        self.single.set(time);
    }

    /// Numbers last uses anew from 0, with room for as many more.
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
        for time in 0..next {
            let single = self.is_single[self.line_at[time] as usize];
            if single { self.single.set(time) } else { self.others.set(time) }
        }
        self.now = next;
    }
}

/// A set of times, and how many of them lie after another.
#[derive(Default)]
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

    /// How many lie after this one.
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
