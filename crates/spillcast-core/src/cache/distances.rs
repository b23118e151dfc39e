//! Counts requests by stack distance for a curve, exact or from a sample of the lines.
//!
//! - Exact: the stack distance of Mattson et al. (1970), the number of other lines used since the
//!   last use of a line, from [`Stack`].
//! - To a given error: rounded distances of all lines, from [`Rounded`].
//! - Sampled: SHARDS (Waldspurger et al., FAST 2015) with a fixed rate. A hash selects lines, and
//!   each represents 1 / rate lines. Chance would decide which of the hottest lines are selected,
//!   so hot lines are all followed, with weight 1. First uses are counted over all requests, not
//!   only selected ones. [`Spread`] estimates the error from parts of the sample.
//!
//! Memory: about 50 bytes for each line that is followed, 8 for each distance.

use std::io;

use super::curve::{Curve, added, count};
use super::request::{Class, Flow, Source};
use super::rounded::{ERROR_MIN, Rounded};
use super::sample::{GROUPS, Hot, Seen, Spread};
use super::stack::Stack;
use crate::random;

/// Counts the distances of a share `rate` of the lines, of all lines if it is 1.
///
/// Reads count. Temp writes use their lines without counting, or are left out if `temp_writes` is
/// false; other writes are left out. The requests are replayed `runs` times, and only the last run
/// counts.
pub fn distances(
    source: &dyn Source,
    rate: f64,
    temp_writes: bool,
    runs: u32,
) -> io::Result<Curve> {
    let mut counts = Counts::new(rate);
    for _ in 0..runs {
        counts.begin_run();
        each_chunk(source, temp_writes, |used| counts.use_lines(used))?;
    }
    Ok(counts.finish())
}

/// A curve of all lines, rounded if that keeps the mean error over all sizes within `error`.
/// Whether it does is known only at the end; if not, the requests are replayed for an exact curve.
pub fn distances_within(
    source: &dyn Source,
    error: f64,
    temp_writes: bool,
    runs: u32,
) -> io::Result<Curve> {
    if error >= ERROR_MIN {
        let mut rounded = Rounded::new(error);
        for _ in 0..runs {
            rounded.begin_run();
            each_chunk(source, temp_writes, |used| {
                used.iter_mut().for_each(|(key, _)| *key = mixed(*key));
                rounded.use_lines(used);
            })?;
        }
        let curve = rounded.finish();
        if curve.error_max <= error {
            return Ok(curve);
        }
    }
    distances(source, 1.0, temp_writes, runs)
}

/// Reads the requests once; passes on the keys of the lines used, and whether each use counts.
fn each_chunk(
    source: &dyn Source,
    temp_writes: bool,
    mut take: impl FnMut(&mut [(u64, bool)]),
) -> io::Result<()> {
    let mut used = Vec::new();
    source.each(&mut |requests| {
        used.clear();
        for request in requests {
            let write = request.class.is_write();
            if !write || (temp_writes && request.class == Class::TempWrite) {
                used.push((request.key, !write));
            }
        }
        take(&mut used);
        Flow::Continue(())
    })
}

struct Counts {
    rate: f64,
    threshold: u64,
    stack: Stack,
    hot: Hot,
    seen: Seen,
    references: u64,
    hot_references: u64,
    /// Distinct lines that the hash selected.
    picked_lines: u64,
    /// Requests by distance, of hot lines and of lines that the hash selected.
    hot_distances: Vec<u64>,
    distances: Vec<u64>,
    spread: Spread,
    drawn: u64,
    /// The followed requests of the current chunk.
    followed: Vec<(u32, bool)>,
}

impl Counts {
    fn new(rate: f64) -> Counts {
        Counts {
            rate,
            threshold: (rate * u64::MAX as f64) as u64,
            stack: Stack::with_groups(if rate < 1.0 { GROUPS } else { 0 }),
            hot: Hot::new(),
            seen: Seen::new(),
            references: 0,
            hot_references: 0,
            picked_lines: 0,
            hot_distances: Vec::new(),
            distances: Vec::new(),
            spread: Spread::new(rate),
            drawn: 0,
            followed: Vec::new(),
        }
    }

    fn begin_run(&mut self) {
        (self.references, self.hot_references) = (0, 0);
        self.seen.begin_run();
        self.hot_distances.clear();
        self.distances.clear();
        self.spread.clear();
    }

    /// Takes the lines of a chunk: first all of them, without an unpredictable branch, then the few
    /// that are followed.
    fn use_lines(&mut self, used: &[(u64, bool)]) {
        self.references += used.iter().map(|&(_, counts)| u64::from(counts)).sum::<u64>();
        if self.rate == 1.0 {
            used.iter().for_each(|&(key, counts)| self.follow(key, counts, false, 0));
        } else {
            let mut followed = std::mem::take(&mut self.followed);
            followed.clear();
            followed.resize(used.len(), (0, false));
            let mut count = 0;
            for (at, &(key, counts)) in used.iter().enumerate() {
                let hash = mixed(key);
                self.seen.use_line(hash, counts);
                let is_hot = self.hot.holds(hash);
                followed[count] = (at as u32, is_hot);
                count += usize::from(is_hot | (hash <= self.threshold));
            }
            for &(at, is_hot) in &followed[..count] {
                let (key, counts) = used[at as usize];
                let group = if is_hot { self.spread.turn() } else { Spread::group(mixed(key)) };
                self.follow(key, counts, is_hot, group);
            }
            // One vote per `STEP` requests is enough to find the most used lines. The request is
            // drawn at random because programs use lines in patterns.
            for used in used.chunks_exact(Hot::STEP) {
                let drawn = random::next(&mut self.drawn) as usize % Hot::STEP;
                let key = used[drawn].0;
                if self.hot.becomes_hot(mixed(key)) {
                    self.stack.count_separately(key);
                }
            }
            self.followed = followed;
        }
    }

    #[inline]
    fn follow(&mut self, key: u64, counts: bool, is_hot: bool, group: u8) {
        let used = self.stack.touch(key, group);
        self.picked_lines += u64::from(used.is_none());
        self.hot_references += u64::from(is_hot && counts);
        if let (Some(since), true) = (used, counts) {
            let steps = (since.single as f64 * self.rate) as usize + since.others;
            count(if is_hot { &mut self.hot_distances } else { &mut self.distances }, steps);
            if self.rate < 1.0 {
                self.spread.count(group, since.single, since.in_group, is_hot);
            }
        }
    }

    fn finish(self) -> Curve {
        let picked = self.distances.iter().sum::<u64>() as f64;
        let again = (self.references - self.hot_references) as f64 - self.seen.firsts();
        let weight = if self.rate == 1.0 || picked == 0.0 { 1.0 } else { again / picked };
        let lines = self.picked_lines as f64 / self.rate;
        let by_steps = added(&self.hot_distances, 1.0, &self.distances, weight);
        let mut curve = Curve::new(self.rate, self.references, lines, &by_steps);
        if self.rate < 1.0 {
            let hot_again = self.hot_distances.iter().sum::<u64>() as f64;
            curve.error_max =
                self.spread.error_max(&curve, hot_again, again, self.seen.firsts_deviation());
        }
        curve
    }
}

/// A hash whose every bit depends on every bit of the key.
fn mixed(key: u64) -> u64 {
    random::mix(key.wrapping_add(random::STEP))
}
