//! The latencies of a group: two bytes each while they are few, a histogram when they are many, so
//! that a profile of many small groups stays small.

use crate::histogram::Histogram;

/// A histogram takes some 25 KB.
const FEW: usize = 8 << 10;
/// Values below are kept as they are; above, as many steps as half of it to each power of two, as
/// in [`Histogram`].
const EXACT: u64 = 256;
const STEPS: u64 = EXACT / 2;
/// As in [`Histogram`], which counts what is above as this.
const MAX_NS: u64 = 2 * 3600 * 1_000_000_000;

#[derive(Clone, Debug)]
pub(super) enum Latencies {
    /// Numbers of buckets.
    Few(Vec<u16>),
    Many(Box<Histogram>),
}

impl Latencies {
    #[inline]
    pub fn record(&mut self, latency_ns: u64) {
        match self {
            Latencies::Many(histogram) => histogram.record(latency_ns),
            Latencies::Few(list) if list.len() < FEW => list.push(bucket(latency_ns)),
            Latencies::Few(_) => {
                let mut histogram = self.histogram();
                histogram.record(latency_ns);
                *self = Latencies::Many(Box::new(histogram));
            }
        }
    }

    /// What holds something: (middle of the bucket in ns, count), ascending, as of a histogram.
    pub fn buckets(&self) -> Vec<(u64, u64)> {
        let list = match self {
            Latencies::Many(histogram) => return histogram.buckets().collect(),
            Latencies::Few(list) => list,
        };
        let mut list = list.clone();
        list.sort_unstable();
        let mut found = Vec::<(u64, u64)>::new();
        for bucket in list {
            let middle = middle_ns(bucket);
            match found.last_mut() {
                Some((last, count)) if *last == middle => *count += 1,
                _ => found.push((middle, 1)),
            }
        }
        found
    }

    pub fn histogram(&self) -> Histogram {
        match self {
            Latencies::Many(histogram) => (**histogram).clone(),
            Latencies::Few(list) => {
                let mut histogram = Histogram::default();
                list.iter().for_each(|&bucket| histogram.record(least_ns(bucket)));
                histogram
            }
        }
    }
}

#[inline]
fn bucket(latency_ns: u64) -> u16 {
    let latency_ns = latency_ns.min(MAX_NS);
    let shift = u64::from(latency_ns.max(EXACT - 1).ilog2() - (EXACT - 1).ilog2());
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

/// The one in the middle; a histogram has no bucket for nothing.
fn middle_ns(bucket: u16) -> u64 {
    (least_ns(bucket) + ((1 << shift(bucket)) >> 1)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert!(few.histogram().buckets().eq(whole.buckets()));
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
        assert!(many.histogram().buckets().eq(whole.buckets()));
        assert!(many.buckets().into_iter().eq(whole.buckets()));
    }
}
