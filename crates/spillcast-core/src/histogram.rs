//! The mergeable latency histogram of everything: HDR, two significant digits, 1 ns to 2 h.

use hdrhistogram::Histogram as Hdr;

const LATENCY_MAX_NS: u64 = 2 * 3600 * 1_000_000_000;

/// Latencies in nanoseconds, each kept to within 1 %.
#[derive(Clone, Debug)]
pub struct Histogram {
    hdr: Hdr<u64>,
    total_ns: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        let mut hdr = Hdr::new(2).expect("two digits are within what HDR offers");
        hdr.auto(true);
        Histogram { hdr, total_ns: 0 }
    }
}

impl Histogram {
    /// Counts one latency; what is above two hours counts as two hours, the total stays exact.
    pub(crate) fn record(&mut self, latency_ns: u64) {
        self.total_ns = self.total_ns.saturating_add(latency_ns);
        self.hdr.record(latency_ns.clamp(1, LATENCY_MAX_NS)).expect("an auto-resizing histogram");
    }

    /// Middle of the bucket that a latency is counted in.
    pub(crate) fn bucket_ns(&self, latency_ns: u64) -> u64 {
        self.hdr.median_equivalent(latency_ns.clamp(1, LATENCY_MAX_NS))
    }

    pub(crate) fn merge(&mut self, other: &Histogram) {
        let count = self.count() + other.count();
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        self.hdr.add(&other.hdr).expect("an auto-resizing histogram takes any other");
        debug_assert_eq!(self.count(), count, "a latency was lost");
    }

    pub fn count(&self) -> u64 {
        self.hdr.len()
    }

    pub fn total_ns(&self) -> u64 {
        self.total_ns
    }

    pub fn quantile_ns(&self, quantile: f64) -> u64 {
        debug_assert!((0.0..=1.0).contains(&quantile), "a quantile of {quantile}");
        self.hdr.value_at_quantile(quantile)
    }

    /// The buckets that hold something: (middle of the bucket in ns, count), ascending.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.hdr
            .iter_recorded()
            .map(|v| (self.hdr.median_equivalent(v.value_iterated_to()), v.count_at_value()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_parts_equal_the_whole() {
        let values: Vec<u64> = (1..5_000u64).map(|i| i * i * 37 % 90_000_000 + 1).collect();
        let mut whole = Histogram::default();
        let mut parts = [Histogram::default(), Histogram::default()];
        for (i, &value) in values.iter().enumerate() {
            whole.record(value);
            parts[i % 2].record(value);
        }
        let [mut merged, other] = parts;
        merged.merge(&other);
        assert!(merged.buckets().eq(whole.buckets()));
        assert_eq!(merged.total_ns(), values.iter().sum::<u64>());
    }

    #[test]
    fn a_total_beyond_64_bits_stays_the_largest() {
        let (mut histogram, mut other) = (Histogram::default(), Histogram::default());
        [u64::MAX, u64::MAX].into_iter().for_each(|latency_ns| histogram.record(latency_ns));
        other.record(1);
        histogram.merge(&other);
        assert_eq!((histogram.count(), histogram.total_ns()), (3, u64::MAX));
    }

    #[test]
    fn quantiles_are_within_one_percent() {
        let mut histogram = Histogram::default();
        (1..=100_000u64).for_each(|v| histogram.record(v * 1_000));
        let p95 = histogram.quantile_ns(0.95) as f64;
        assert!((p95 / 95_000_000.0 - 1.0).abs() < 0.01, "{p95}");
    }
}
