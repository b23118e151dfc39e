//! The mergeable latency histogram of all modules: two significant digits, 1 ns to 2 h.
//!
//! Its buckets are those of HdrHistogram. A few latencies take two bytes each, so that a profile of
//! many small groups stays small.

use serde::ser::{Serialize, SerializeStruct, Serializer};

const LATENCY_MAX_NS: u64 = 2 * 3600 * 1_000_000_000;
/// Latencies below are exact; above, each power of two has half as many steps.
const EXACT: u64 = 256;
const STEPS: u64 = EXACT / 2;
const BUCKETS: usize = bucket(LATENCY_MAX_NS) as usize + 1;
/// Limit of single latencies: counts of all buckets take twice as much memory.
const FEW: usize = 8 << 10;

/// Latencies in nanoseconds, each kept to within 1 %.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Counts,
    total_ns: u64,
}

#[derive(Clone, Debug)]
enum Counts {
    /// The bucket of each latency.
    Few(Vec<u16>),
    /// The number of latencies in each bucket.
    Many(Box<[u64; BUCKETS]>),
}

/// With the count and total, and the middle and count of each bucket that is not empty.
impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (latency_ns, latency_count): (Vec<u64>, Vec<u64>) = self.buckets().unzip();
        let mut fields = serializer.serialize_struct("Histogram", 4)?;
        fields.serialize_field("count", &self.count())?;
        fields.serialize_field("total_ns", &self.total_ns)?;
        fields.serialize_field("latency_ns", &latency_ns)?;
        fields.serialize_field("latency_count", &latency_count)?;
        fields.end()
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { counts: Counts::Few(Vec::new()), total_ns: 0 }
    }
}

impl Histogram {
    /// Counts a latency; one above two hours counts as two hours, the total stays exact.
    #[inline]
    pub(crate) fn record(&mut self, latency_ns: u64) {
        self.total_ns = self.total_ns.saturating_add(latency_ns);
        match &mut self.counts {
            Counts::Many(counts) => counts[usize::from(bucket(latency_ns))] += 1,
            Counts::Few(list) if list.len() < FEW => list.push(bucket(latency_ns)),
            Counts::Few(_) => self.many()[usize::from(bucket(latency_ns))] += 1,
        }
    }

    pub(crate) fn merge(&mut self, other: &Histogram) {
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        let counts = self.many();
        for (bucket, count) in other.counted() {
            counts[usize::from(bucket)] += count;
        }
    }

    pub fn count(&self) -> u64 {
        match &self.counts {
            Counts::Few(list) => list.len() as u64,
            Counts::Many(counts) => counts.iter().sum(),
        }
    }

    pub fn total_ns(&self) -> u64 {
        self.total_ns
    }

    /// The largest latency of the bucket that holds the quantile; 0 if the histogram is empty.
    pub fn quantile_ns(&self, quantile: f64) -> u64 {
        debug_assert!((0.0..=1.0).contains(&quantile), "a quantile of {quantile}");
        let wanted = (quantile * self.count() as f64).ceil().max(1.0) as u64;
        let mut below = 0;
        let reached = self.counted().into_iter().find(|(_, count)| {
            below += count;
            below >= wanted
        });
        reached.map_or(0, |(bucket, _)| least_ns(bucket) + (1 << shift(bucket)) - 1)
    }

    /// The buckets that are not empty: (middle of the bucket in ns, count), ascending.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        self.counted().into_iter().map(|(bucket, count)| (middle_ns(bucket), count))
    }

    /// The same by bucket number.
    fn counted(&self) -> Vec<(u16, u64)> {
        match &self.counts {
            Counts::Many(counts) => {
                (0..).zip(counts.iter().copied()).filter(|&(_, count)| count > 0).collect()
            }
            Counts::Few(list) => {
                let mut list = list.clone();
                list.sort_unstable();
                let alike = list.chunk_by(|previous, next| previous == next);
                alike.map(|alike| (alike[0], alike.len() as u64)).collect()
            }
        }
    }

    #[cold]
    fn many(&mut self) -> &mut [u64; BUCKETS] {
        if let Counts::Few(list) = &self.counts {
            let mut counts = Box::new([0; BUCKETS]);
            list.iter().for_each(|&bucket| counts[usize::from(bucket)] += 1);
            self.counts = Counts::Many(counts);
        }
        match &mut self.counts {
            Counts::Many(counts) => counts,
            Counts::Few(_) => unreachable!("they were counted just now"),
        }
    }
}

/// Middle of the bucket of a latency.
pub(crate) fn bucket_ns(latency_ns: u64) -> u64 {
    middle_ns(bucket(latency_ns))
}

/// 0 has no bucket: it counts as 1.
#[inline]
const fn bucket(latency_ns: u64) -> u16 {
    let latency_ns = match latency_ns {
        0 => 1,
        1..LATENCY_MAX_NS => latency_ns,
        _ => LATENCY_MAX_NS,
    };
    let shift = ((latency_ns | (EXACT - 1)).ilog2() - (EXACT - 1).ilog2()) as u64;
    // If the shift is not 0, the shifted latency is STEPS or more.
    (shift * STEPS + (latency_ns >> shift)) as u16
}

/// Binary logarithm of the width of a bucket.
fn shift(bucket: u16) -> u64 {
    (u64::from(bucket) / STEPS).saturating_sub(1)
}

/// The smallest latency of a bucket.
fn least_ns(bucket: u16) -> u64 {
    let shift = shift(bucket);
    (u64::from(bucket) - shift * STEPS) << shift
}

fn middle_ns(bucket: u16) -> u64 {
    least_ns(bucket) + ((1 << shift(bucket)) >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(latencies_ns: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::default();
        latencies_ns.into_iter().for_each(|latency_ns| histogram.record(latency_ns));
        histogram
    }

    /// Middle and largest of the latencies that share eight leading binary digits.
    fn bucket_of(latency_ns: u64) -> (u64, u64) {
        let latency_ns = latency_ns.clamp(1, 7_200_000_000_000);
        let mut width = 1;
        while latency_ns / width >= 256 {
            width *= 2;
        }
        let least = latency_ns / width * width;
        (least + width / 2, least + width - 1)
    }

    #[test]
    fn quantiles_equal_those_of_a_sorted_list() {
        let ends = (0..44).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit, (1 << bit) + 1]);
        let values: Vec<u64> = ends.chain((1..12_000u64).map(|i| i * i * i * 271)).collect();
        for values in values.chunks(100).chain([&values[..]]) {
            let histogram = histogram(values.iter().copied());
            let mut list: Vec<(u64, u64)> = values.iter().map(|&ns| bucket_of(ns)).collect();
            list.sort_unstable();
            let alike = list.chunk_by(|previous, next| previous == next);
            assert!(histogram.buckets().eq(alike.map(|same| (same[0].0, same.len() as u64))));
            assert_eq!(histogram.count(), values.len() as u64);
            for share in [0.01, 0.5, 0.99, 1.0] {
                let rank = (share * list.len() as f64).ceil() as usize;
                assert_eq!(histogram.quantile_ns(share), list[rank - 1].1);
            }
        }
    }

    #[test]
    fn merged_parts_equal_the_whole() {
        let values: Vec<u64> = (1..5_000u64).map(|i| i * i * 37 % 90_000_000 + 1).collect();
        let part = |of: usize| histogram(values.iter().copied().skip(of).step_by(2));
        let (mut merged, other) = (part(0), part(1));
        merged.merge(&other);
        assert!(merged.buckets().eq(histogram(values.iter().copied()).buckets()));
        assert_eq!(merged.total_ns(), values.iter().sum::<u64>());
    }

    #[test]
    fn a_total_beyond_64_bits_saturates() {
        let mut both = histogram([u64::MAX, u64::MAX]);
        both.merge(&histogram([1]));
        assert_eq!((both.count(), both.total_ns()), (3, u64::MAX));
    }

    #[test]
    fn quantiles_are_within_one_percent() {
        let p95 = histogram((1..=100_000u64).map(|v| v * 1_000)).quantile_ns(0.95) as f64;
        assert!((p95 / 95_000_000.0 - 1.0).abs() < 0.01, "{p95}");
    }
}
