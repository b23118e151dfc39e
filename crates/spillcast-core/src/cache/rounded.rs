//! Stack distances of all lines, rounded so that the curve stays within a given error.
//!
//! Sampling suits few workloads: the error of a step of the curve is one over the square root of
//! the number of sampled lines. For 0.2 points the sample is a sixth of a workload of millions of
//! lines, and all of a smaller one. Instead, some thousand buckets hold all lines by their last use
//! (MIMIR, Saemundsson et al., SoCC 2014).
//!
//! A use looks up the line's bucket in a prefetched table, adds 1 to it, and moves the line to the
//! newest bucket. The number of lines in later buckets is summed once for many uses. So each
//! distance has a lower and an upper bound, and counts as their middle. The mean error of the curve
//! over all sizes is at most half the sum of the differences between the bounds; this is a bound,
//! not an estimate.

use std::hint::black_box;

use super::curve::Curve;
use super::store::fetch;

/// Errors below this need more and smaller buckets than 16 bits can number.
pub(crate) const ERROR_MIN: f64 = 1e-4;
/// Lower and upper limit of the number of buckets at which neighbours are merged.
const BUCKETS: (f64, f64) = (2048.0, 65_000.0);
/// The bounds of a distance should differ by at most 2 * `error` * lines. Of the factor 2, `MERGED`
/// is for the size of a merged bucket, and `SINCE` for lines used since all were settled.
const MERGED: f64 = 0.75;
const SINCE: f64 = 1.25;
/// A merged bucket holds at most 1 / `SHARE` of the lines in later buckets, or `fill` if more.
const SHARE: u32 = 64;
/// Buckets settled per line used, at most. Where that is too few, as with few lines and a small
/// error, the `error_max` of the curve exceeds the error that was requested.
const SETTLED: usize = 48;
/// Prefetch distance of table slots, in uses.
const AHEAD: usize = 40;
/// Uses in a batch.
const CHUNK: usize = 4096;

/// Uses of a bucket's lines since it was last settled.
#[derive(Clone, Copy, Default)]
struct Uses {
    /// Lines that were used, and have moved to a newer bucket.
    all: u32,
    /// Uses that count.
    counted: u32,
}

#[derive(Clone, Copy, Default)]
struct Bucket {
    /// Lines in the bucket and in later ones, when it was last settled.
    lines: u32,
    later: u32,
}

/// All lines, in buckets numbered from 1 in the order of their last use.
pub(crate) struct Rounded {
    error: f64,
    table: Table,
    buckets: Vec<Bucket>,
    uses: Vec<Uses>,
    /// The first bucket that began after all were last settled.
    recent: usize,
    /// Lines in the newest bucket, and the number that fills it.
    filled: u32,
    fill: u32,
    buckets_max: usize,
    references: u64,
    distances: Histogram,
    /// Sum of the error bounds of all distances.
    off: f64,
}

impl Rounded {
    /// Aims at a curve with a mean error of at most `error` over all sizes.
    pub fn new(error: f64) -> Rounded {
        let mut rounded = Rounded {
            error,
            table: Table::new(),
            buckets: vec![Bucket::default(); 2],
            uses: vec![Uses::default(); 2],
            recent: 1,
            filled: 0,
            fill: 0,
            buckets_max: 0,
            references: 0,
            distances: Histogram::new(),
            off: 0.0,
        };
        rounded.plan();
        rounded
    }

    /// Forgets the distances; the lines stay in their buckets.
    pub(crate) fn begin_run(&mut self) {
        self.settle(1);
        (self.references, self.off) = (0, 0.0);
        self.distances = Histogram::new();
    }

    /// Takes hashes of lines, and whether their uses count.
    pub(crate) fn use_lines(&mut self, used: &[(u64, bool)]) {
        for used in used.chunks(CHUNK) {
            self.table.reserve(used.len());
            for (at, &(hash, counts)) in used.iter().enumerate() {
                if let Some(&(hash, _)) = used.get(at + AHEAD) {
                    self.table.expect(hash);
                }
                let newest = self.buckets.len() - 1;
                let before = usize::from(self.table.put(hash, newest as u16));
                let uses = &mut self.uses[before];
                uses.all += 1;
                uses.counted += u32::from(counts);
                self.references += u64::from(counts);
                self.filled += u32::from(before != newest);
                if self.filled == self.fill {
                    self.close();
                }
            }
        }
    }

    pub fn finish(mut self) -> Curve {
        self.settle(1);
        let lines = self.table.lines as f64;
        let step = self.distances.step as f64;
        let by_steps: Vec<f64> = self.distances.counts.iter().map(|count| *count as f64).collect();
        let off = self.off + by_steps.iter().sum::<f64>() * (step - 1.0) / 2.0;
        let error_max = off / (self.references as f64 * lines).max(1.0);
        let mut curve = Curve::new(1.0 / step, self.references, lines, &by_steps);
        (curve.error_max, curve.lines_min) = (error_max, f64::from(2 * self.fill));
        curve
    }

    /// Closes the newest bucket and begins another.
    fn close(&mut self) {
        let newest = self.buckets.len() - 1;
        let since_all = (newest + 1 - self.recent) * self.fill as usize;
        let all = since_all as f64 >= SINCE * self.error * self.table.lines as f64
            && since_all * SETTLED >= newest;
        self.settle(if all { 1 } else { self.recent });
        if all {
            self.recent = newest + 1;
        }
        if self.buckets.len() == self.buckets_max {
            self.merge();
        }
        self.buckets.push(Bucket::default());
        self.uses.resize(self.buckets.len(), Uses::default());
        self.filled = 0;
    }

    /// Turns the uses of the buckets from `first` on into distances.
    fn settle(&mut self, first: usize) {
        let newest = self.buckets.len() - 1;
        let mut later = 0;
        for at in (first..=newest).rev() {
            let bucket = &mut self.buckets[at];
            let uses = std::mem::take(&mut self.uses[at]);
            bucket.lines = if at == newest { self.filled } else { bucket.lines - uses.all };
            let upto = later + bucket.lines;
            if uses.counted > 0 {
                // Lines in later buckets stay there and others join them, so the number only grows.
                let (least, most) = (bucket.later, upto - 1);
                let middle = least + (most - least) / 2;
                self.distances.count(middle as usize, uses.counted);
                self.off += f64::from(uses.counted) * f64::from(most - middle);
            }
            bucket.later = later;
            later = upto;
        }
    }

    /// Merges neighbouring buckets, older ones into larger buckets, and renumbers them.
    fn merge(&mut self) {
        self.settle(1);
        // Two neighbours together exceed this, so at least half of the numbers become free.
        let most = (MERGED * self.error).max(4.0 / BUCKETS.1) * self.table.lines as f64;
        let mut merged: Vec<Bucket> = Vec::new();
        let mut numbers = vec![0u16; self.buckets.len()];
        for (at, bucket) in self.buckets.iter().enumerate().skip(1).rev() {
            match merged.last_mut() {
                Some(last)
                    if last.lines + bucket.lines
                        <= (last.later / SHARE).min(most as u32).max(self.fill) =>
                {
                    last.lines += bucket.lines;
                }
                _ => merged.push(*bucket),
            }
            numbers[at] = merged.len() as u16;
        }
        let count = merged.len() as u16 + 1;
        numbers.iter_mut().skip(1).for_each(|number| *number = count - *number);
        self.table.renumber(&numbers);
        merged.push(Bucket::default());
        merged.reverse();
        self.recent = merged.len();
        self.uses.clear();
        self.buckets = merged;
        self.plan();
    }

    /// Chooses the size of buckets from the number of lines so far, such that settling and
    /// renumbering cost little per use.
    fn plan(&mut self) {
        let lines = self.table.lines as f64;
        let buckets = (6.0 * self.error * lines).max(4.0 / (MERGED * self.error));
        let buckets = buckets.clamp(BUCKETS.0, BUCKETS.1);
        self.buckets_max = buckets as usize;
        let since = (SINCE * self.error * lines).max(buckets / SETTLED as f64);
        self.fill = (2.0 * lines / buckets).max(since.sqrt() / 4.0).max(1.0) as u32;
    }
}

/// Numbers of uses by distance, in steps that double when the histogram is full.
struct Histogram {
    step: usize,
    counts: Vec<u64>,
}

impl Histogram {
    const STEPS: usize = 1 << 16;

    fn new() -> Histogram {
        Histogram { step: 1, counts: Vec::new() }
    }

    fn count(&mut self, distance: usize, uses: u32) {
        while distance / self.step >= Histogram::STEPS {
            self.step *= 2;
            self.counts = self.counts.chunks(2).map(|pair| pair.iter().sum()).collect();
        }
        let at = distance / self.step;
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] += u64::from(uses);
    }
}

const BUCKET_BITS: u32 = 16;
const TAG_BITS: u32 = 64 - BUCKET_BITS;
const TABLE_BITS_MIN: u32 = 13;
/// Slots of a page of memory.
const PAGE: usize = 512;

/// The bucket of each line: 8 bytes a slot, and at least four slots for three lines.
///
/// A line is identified by 48 bits of its hash: with ten million lines, two collide in one of ten
/// traces. Open addressing with linear probing; an empty slot is 0.
struct Table {
    slots: Vec<u64>,
    bits: u32,
    /// Distinct lines so far.
    lines: usize,
}

impl Table {
    fn new() -> Table {
        Table { slots: vec![0; 1 << TABLE_BITS_MIN], bits: TABLE_BITS_MIN, lines: 0 }
    }

    /// Makes room for `lines` more lines.
    fn reserve(&mut self, lines: usize) {
        while (self.lines + lines) * 4 > self.slots.len() * 3 {
            self.bits += 1;
            let slots = std::mem::replace(&mut self.slots, vec![0; 1 << self.bits]);
            // A page that is read before it is written to would fault twice.
            self.slots.iter_mut().step_by(PAGE).for_each(|slot| *slot = black_box(0));
            for slot in slots.into_iter().filter(|slot| *slot != 0) {
                let at = self.find(slot >> BUCKET_BITS);
                self.slots[at] = slot;
            }
        }
    }

    /// Prefetches the slot of a line that will be used soon.
    #[inline]
    fn expect(&self, hash: u64) {
        fetch(&raw const self.slots[self.home(hash >> BUCKET_BITS)]);
    }

    /// Moves a line to a bucket from 1 on; returns its previous bucket, 0 for a new line. The table
    /// must have room for it.
    #[inline]
    fn put(&mut self, hash: u64, bucket: u16) -> u16 {
        let tag = hash >> BUCKET_BITS;
        let at = self.find(tag);
        let before = self.slots[at] as u16;
        self.slots[at] = tag << BUCKET_BITS | u64::from(bucket);
        self.lines += usize::from(before == 0);
        before
    }

    /// Replaces each bucket number by its entry in `numbers`, where entry 0 is 0.
    fn renumber(&mut self, numbers: &[u16]) {
        for slot in &mut self.slots {
            *slot = *slot >> BUCKET_BITS << BUCKET_BITS | u64::from(numbers[*slot as u16 as usize]);
        }
    }

    #[inline]
    fn home(&self, tag: u64) -> usize {
        (tag >> (TAG_BITS - self.bits)) as usize
    }

    /// The slot of a line, or the empty slot for it.
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
