//! The latencies of a group: two bytes each while they are few, a count for each bucket when they
//! are many, so that a profile of many small groups stays small.

/// Counts of all buckets take twice as much.
const FEW: usize = 8 << 10;
/// Values below are kept as they are; above, as many steps as half of it to each power of two, as
/// in [`Histogram`](crate::histogram::Histogram).
const EXACT: u64 = 256;
const STEPS: u64 = EXACT / 2;
/// The largest latency, as in the histogram: longer ones count as this.
const MAX_NS: u64 = 2 * 3600 * 1_000_000_000;
const BUCKETS: usize = bucket(MAX_NS) as usize + 1;

#[derive(Clone, Debug)]
pub(super) enum Latencies {
    /// Numbers of buckets.
    Few(Vec<u16>),
    /// How many there are of each bucket.
    Many(Box<[u64; BUCKETS]>),
}

impl Latencies {
    #[inline(always)]
    pub(crate) fn record(&mut self, latency_ns: u64) {
        match self {
            Latencies::Many(counts) => counts[usize::from(bucket(latency_ns))] += 1,
            Latencies::Few(list) if list.len() < FEW => list.push(bucket(latency_ns)),
            Latencies::Few(_) => self.record_many(latency_ns),
        }
    }

    #[cold]
    fn record_many(&mut self, latency_ns: u64) {
        if let Latencies::Few(list) = self {
            let mut counts = Box::new([0; BUCKETS]);
            list.iter().for_each(|&bucket| counts[usize::from(bucket)] += 1);
            *self = Latencies::Many(counts);
        }
        self.record(latency_ns);
    }

    /// What holds something: (middle of the bucket in ns, count), ascending, as of a histogram.
    pub fn buckets(&self) -> Vec<(u64, u64)> {
        let list = match self {
            Latencies::Many(counts) => return middles(counts).collect(),
            Latencies::Few(list) => list,
        };
        let mut list = list.clone();
        list.sort_unstable();
        let alike = list.chunk_by(|previous, next| previous == next);
        alike.map(|alike| (middle_ns(alike[0]), alike.len() as u64)).collect()
    }
}

/// The buckets that hold something: (middle in ns, count).
fn middles(counts: &[u64; BUCKETS]) -> impl Iterator<Item = (u64, u64)> {
    let some = (0..).zip(counts).filter(|&(_, &count)| count > 0);
    some.map(|(bucket, &count)| (middle_ns(bucket), count))
}

/// As in a histogram, 0 has no bucket.
#[inline]
const fn bucket(latency_ns: u64) -> u16 {
    let latency_ns = match latency_ns {
        0 => 1,
        1..MAX_NS => latency_ns,
        _ => MAX_NS,
    };
    let shift = ((latency_ns | (EXACT - 1)).ilog2() - (EXACT - 1).ilog2()) as u64;
    // The step is STEPS or more wherever the shift is not nought.
    (shift * STEPS + (latency_ns >> shift)) as u16
}

/// The power of two that a bucket is wide.
fn shift(bucket: u16) -> u64 {
    (u64::from(bucket) / STEPS).saturating_sub(1)
}

/// The least latency of a bucket.
fn least_ns(bucket: u16) -> u64 {
    let shift = shift(bucket);
    (u64::from(bucket) - shift * STEPS) << shift
}

/// The middle of a bucket.
fn middle_ns(bucket: u16) -> u64 {
    least_ns(bucket) + ((1 << shift(bucket)) >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Histogram;

    /// One of each octave's ends and some between.
    fn values() -> Vec<u64> {
        let ends = (0..44).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit, (1 << bit) + 1]);
        ends.chain((1..3_000u64).map(|i| i * i * i * 271)).collect()
    }

    #[test]
    fn few_are_what_a_histogram_of_them_says() {
        for values in values().chunks(100) {
            let (mut few, mut whole) = (Latencies::Few(Vec::new()), Histogram::default());
            for &value in values {
                few.record(value);
                whole.record(value);
            }
            assert!(matches!(few, Latencies::Few(_)));
            assert!(few.buckets().into_iter().eq(whole.buckets()));
        }
    }

    #[test]
    fn many_are_too() {
        let (mut many, mut whole) = (Latencies::Few(Vec::new()), Histogram::default());
        for at in 0..FEW as u64 + 1_000 {
            many.record(at * 977 + 40);
            whole.record(at * 977 + 40);
        }
        assert!(matches!(many, Latencies::Many(_)));
        assert!(many.buckets().into_iter().eq(whole.buckets()));
    }
}
