//! Miss ratios of LRU caches of every size at once, exact or from a sample of the lines.
//!
//! Exact: the stack distance of Mattson et al. (1970), the number of other lines used since a line
//! was used last, is counted in O(log n): a bit for the time of each line's last use, and a Fenwick
//! tree over blocks of 512 of them. Sampled: SHARDS (Waldspurger et al., FAST 2015) with a fixed
//! rate: lines are picked by a hash, distances divided by the rate, and what the sample has of
//! requests too many or too few is taken to be hits (SHARDS-adj).
//!
//! Memory: about 50 bytes for each distinct line that is picked.

use std::io;

use rustc_hash::FxHashMap;

use super::request::{Class, Flow, Source};

const WORDS: usize = 8;
const BLOCK: usize = 64 * WORDS;
const TIMES_MIN: usize = 1 << 14;

/// Requests by stack distance.
pub struct Curve {
    rate: f64,
    /// Requests that count, whether they were picked or not.
    references: u64,
    picked: u64,
    lines: u64,
    /// Picked requests with a distance below this one.
    below: Vec<u64>,
}

impl Curve {
    /// Requests that the ratios are of.
    pub fn references(&self) -> u64 {
        self.references
    }

    /// Distinct lines; an estimate where they are sampled.
    pub fn lines(&self) -> f64 {
        self.lines as f64 / self.rate
    }

    /// Share of the requests that miss in a cache of so many lines; not a number without requests.
    pub fn miss_ratio(&self, lines: f64) -> f64 {
        let expected = self.references as f64 * self.rate;
        let at = (lines * self.rate).clamp(0.0, (self.below.len() - 1) as f64);
        let (low, share) = (at.floor() as usize, at.fract());
        let next = self.below[(low + 1).min(self.below.len() - 1)];
        let within = self.below[low] as f64 * (1.0 - share) + next as f64 * share;
        let adjusted = within + if lines < 1.0 { 0.0 } else { expected - self.picked as f64 };
        (1.0 - adjusted / expected).clamp(0.0, 1.0)
    }
}

/// Counts distances with a share `rate` of the lines, all of them with 1.
///
/// Reads count. Temp writes use their lines without counting, or are left out without
/// `temp_writes`; other writes are left out. The requests are gone through `runs` times, and only
/// the last time counts.
pub fn distances<S: Source + ?Sized>(
    source: &S,
    rate: f64,
    temp_writes: bool,
    runs: u32,
) -> io::Result<Curve> {
    let threshold = (rate * u64::MAX as f64) as u64;
    let mut stack = Stack::default();
    let mut histogram: Vec<u64> = Vec::new();
    let (mut references, mut picked) = (0u64, 0u64);
    for _ in 0..runs {
        histogram.clear();
        (references, picked) = (0, 0);
        source.each(&mut |requests| {
            for request in requests {
                let write = request.class.is_write();
                if write && !(temp_writes && request.class == Class::TempWrite) {
                    continue;
                }
                references += u64::from(!write);
                if rate < 1.0 && mixed(request.key) > threshold {
                    continue;
                }
                picked += u64::from(!write);
                let Some(distance) = stack.touch(request.key) else { continue };
                if !write {
                    if distance >= histogram.len() {
                        histogram.resize((distance + 1).max(2 * histogram.len()), 0);
                    }
                    histogram[distance] += 1;
                }
            }
            Flow::Continue(())
        })?;
    }
    let mut below = Vec::with_capacity(histogram.len() + 1);
    below.push(0);
    let mut sum = 0;
    below.extend(histogram.iter().map(|count| {
        sum += count;
        sum
    }));
    Ok(Curve { rate, references, picked, lines: stack.lines() as u64, below })
}

/// A hash whose every bit depends on every bit of the key: the end of splitmix64.
fn mixed(key: u64) -> u64 {
    let key = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let key = (key ^ (key >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let key = (key ^ (key >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    key ^ (key >> 31)
}

/// All lines, by the time of their last use.
#[derive(Default)]
struct Stack {
    line_of: FxHashMap<u64, u32>,
    /// By line.
    time_of: Vec<u32>,
    /// By time; holds for times of last uses only.
    line_at: Vec<u32>,
    /// A bit for each time: whether it is a line's last use.
    last: Vec<u64>,
    /// A Fenwick tree over the bits of each block.
    tree: Vec<u32>,
    now: usize,
}

impl Stack {
    fn lines(&self) -> usize {
        self.time_of.len()
    }

    /// Uses a line: how many others were used since it was; None for the first use.
    fn touch(&mut self, key: u64) -> Option<usize> {
        if self.now == self.line_at.len() {
            self.compact();
        }
        let now = self.now as u32;
        let lines = self.lines();
        let line = *self.line_of.entry(key).or_insert(lines as u32);
        let distance = if line as usize == lines {
            self.time_of.push(now);
            None
        } else {
            let before = std::mem::replace(&mut self.time_of[line as usize], now) as usize;
            let upto = self.upto(before);
            self.last[before / 64] &= !(1 << (before % 64));
            self.add(before / BLOCK, u32::MAX);
            Some(lines - upto)
        };
        self.line_at[self.now] = line;
        self.last[self.now / 64] |= 1 << (self.now % 64);
        self.add(self.now / BLOCK, 1);
        self.now += 1;
        distance
    }

    /// Lines whose last use was at this time or before.
    fn upto(&self, time: usize) -> usize {
        let mut count = 0u32;
        let mut block = time / BLOCK;
        let words = &self.last[block * WORDS..=time / 64];
        for word in &words[..words.len() - 1] {
            count += word.count_ones();
        }
        count += (self.last[time / 64] << (63 - time % 64)).count_ones();
        while block > 0 {
            count += self.tree[block];
            block &= block - 1;
        }
        count as usize
    }

    /// Adds to a block's count, modulo 2^32.
    fn add(&mut self, block: usize, by: u32) {
        let mut at = block + 1;
        while at < self.tree.len() {
            self.tree[at] = self.tree[at].wrapping_add(by);
            at += at & at.wrapping_neg();
        }
    }

    /// Numbers last uses anew from 0, with room for as many more.
    fn compact(&mut self) {
        let mut next = 0;
        for time in 0..self.now {
            if self.last[time / 64] >> (time % 64) & 1 == 1 {
                let line = self.line_at[time];
                self.line_at[next] = line;
                self.time_of[line as usize] = next as u32;
                next += 1;
            }
        }
        let times = (2 * next).max(TIMES_MIN).next_multiple_of(BLOCK);
        self.line_at.resize(times, 0);
        self.last.clear();
        self.last.resize(times / 64, 0);
        for time in 0..next {
            self.last[time / 64] |= 1 << (time % 64);
        }
        self.tree.clear();
        self.tree.resize(times / BLOCK + 1, 0);
        for block in 0..times / BLOCK {
            let held = next.saturating_sub(block * BLOCK).min(BLOCK);
            if held > 0 {
                self.add(block, held as u32);
            }
        }
        self.now = next;
    }
}
