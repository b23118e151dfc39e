//! The behaviour of a storage: latencies by op, pattern, size and depth, servers, and limits.
//!
//! For each op and pattern it holds the measured latencies of some sizes. The latency of an
//! operation at a quantile is interpolated between the two neighbouring sizes, linearly in bytes.
//! So a distribution with two peaks keeps them, and "base plus bytes" is exact. An operation is
//! sequential if it begins where the last one of its op on that file ended, or is the first.

use crate::wait::Op;

/// The properties of a storage that emulations and simulations use.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub read: Latencies,
    pub write: Latencies,
    /// Operations served at once; the others queue. None if there is no limit.
    pub servers: Option<usize>,
    pub limits: Vec<Limit>,
}

/// Latencies of one op on a storage.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    pub sequential: Curves,
    pub random: Curves,
}

/// Curves by measured queue depth, ascending. Without any, operations take no time.
#[derive(Clone, Debug, Default)]
pub struct Curves(Vec<(u32, Curve)>);

/// The properties of a read or write that decide its latency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Operation {
    pub op: Op,
    pub sequential: bool,
    pub bytes: u64,
}

impl Model {
    /// A storage where every read takes `read_ns` and every write `write_ns`, whatever its size.
    pub fn fixed(read_ns: u64, write_ns: u64) -> Model {
        let both = |ns| Latencies { sequential: Curves::fixed(ns), random: Curves::fixed(ns) };
        Model { read: both(read_ns), write: both(write_ns), ..Model::default() }
    }

    /// The latency of `operation` at a quantile, from 0 to 1, with `depth` operations in flight.
    pub(crate) fn latency_ns(&self, operation: Operation, depth: u32, quantile: f64) -> f64 {
        let latencies = if operation.op == Op::Write { &self.write } else { &self.read };
        let curves = if operation.sequential { &latencies.sequential } else { &latencies.random };
        curves.latency_ns(operation.bytes, depth, quantile)
    }

    /// Whether latency depends on the number of operations in flight.
    pub(crate) fn knows_depth(&self) -> bool {
        let of = |latencies: &Latencies| [latencies.sequential.0.len(), latencies.random.0.len()];
        [of(&self.read), of(&self.write)].into_iter().flatten().any(|depths| depths > 1)
    }
}

impl Curves {
    /// From curves by depth; of several at the same depth the first counts.
    pub fn new(mut by_depth: Vec<(u32, Curve)>) -> Curves {
        by_depth.sort_by_key(|&(depth, _)| depth);
        by_depth.dedup_by_key(|&mut (depth, _)| depth);
        Curves(by_depth)
    }

    pub fn fixed(latency_ns: u64) -> Curves {
        Curves(vec![(1, Curve::fixed(latency_ns))])
    }

    /// Between two measured depths latency is a power of the depth. Beyond the outermost depths the
    /// power is that of the nearest two, limited to 0 to 1.
    pub(crate) fn latency_ns(&self, bytes: u64, depth: u32, quantile: f64) -> f64 {
        let (first, last) = match self.0.as_slice() {
            [] => return 0.0,
            [(_, only)] => return only.latency_ns(bytes, quantile),
            [first, .., last] => (first.0, last.0),
        };
        let above = self.0.partition_point(|&(measured, _)| measured < depth);
        let above = above.clamp(1, self.0.len() - 1);
        let (low, high) = (&self.0[above - 1], &self.0[above]);
        let low_ns = low.1.latency_ns(bytes, quantile).max(LATENCY_MIN_NS);
        let high_ns = high.1.latency_ns(bytes, quantile).max(LATENCY_MIN_NS);
        let mut power = (high_ns / low_ns).ln() / (f64::from(high.0) / f64::from(low.0)).ln();
        if depth < first || depth > last {
            power = power.clamp(0.0, 1.0);
        }
        let (from, from_ns) = if depth > last { (high.0, high_ns) } else { (low.0, low_ns) };
        from_ns * (f64::from(depth.max(1)) / f64::from(from)).powf(power)
    }
}

/// A latency below that of any storage, which avoids ratios of 0.
const LATENCY_MIN_NS: f64 = 1e-3;

/// Distributions of latency by size in bytes, ascending. Without any, operations take no time.
#[derive(Clone, Debug, Default)]
pub struct Curve(Vec<(u64, Distribution)>);

impl Curve {
    /// From distributions by size in bytes; of several at the same size the first counts.
    pub fn new(mut by_size: Vec<(u64, Distribution)>) -> Curve {
        by_size.sort_by_key(|&(bytes, _)| bytes);
        by_size.dedup_by_key(|&mut (bytes, _)| bytes);
        Curve(by_size)
    }

    pub fn fixed(latency_ns: u64) -> Curve {
        Curve::new(vec![(0, Distribution::new(&[(latency_ns as f64, 1)]))])
    }

    /// Linear in bytes between the same quantiles of the two neighbouring sizes. Beyond the
    /// smallest and the largest size the slope is that of the nearest two, limited to the range
    /// from 0 to proportional to the size.
    pub(crate) fn latency_ns(&self, bytes: u64, quantile: f64) -> f64 {
        let (low, high) = match self.0.as_slice() {
            [] => return 0.0,
            [(_, only)] => return only.quantile_ns(quantile),
            by_size => {
                let above = by_size.partition_point(|&(size, _)| size < bytes);
                let above = above.clamp(1, by_size.len() - 1);
                (&by_size[above - 1], &by_size[above])
            }
        };
        let (low_ns, high_ns) = (low.1.quantile_ns(quantile), high.1.quantile_ns(quantile));
        let mut slope = (high_ns - low_ns) / (high.0 - low.0) as f64;
        let (size, ns) = if bytes > high.0 { (high.0, high_ns) } else { (low.0, low_ns) };
        if bytes <= low.0 || bytes > high.0 {
            slope = slope.clamp(0.0, ns / (size as f64).max(1.0));
        }
        ns + slope * (bytes as f64 - size as f64)
    }
}

/// A distribution of latencies, from a histogram.
#[derive(Clone, Debug)]
pub struct Distribution {
    latency_ns: Vec<f64>,
    /// Number of operations with at most each latency.
    cumulative: Vec<u64>,
}

impl Distribution {
    /// From buckets of (latency in ns, number of operations), at least one of them not empty.
    pub fn new(buckets: &[(f64, u64)]) -> Distribution {
        let mut buckets: Vec<_> = buckets.iter().copied().filter(|&(_, count)| count > 0).collect();
        assert!(!buckets.is_empty(), "a distribution of nothing");
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut sum = 0;
        let (latency_ns, cumulative) = buckets
            .into_iter()
            .map(|(ns, count)| {
                sum += count;
                (ns, sum)
            })
            .unzip();
        Distribution { latency_ns, cumulative }
    }

    pub fn quantile_ns(&self, quantile: f64) -> f64 {
        let last = self.cumulative.len() - 1;
        let rank = quantile * self.cumulative[last] as f64;
        let bucket = self.cumulative.partition_point(|&count| (count as f64) <= rank);
        self.latency_ns[bucket.min(last)]
    }
}

/// A token bucket of device time, filled by one second per second.
///
/// An operation costs `base + bytes * ns_per_byte`; one larger than `operation_bytes` counts as
/// several. It takes its cost when it arrives, and starts once the bucket is not below 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limit {
    pub read_random_ns: f64,
    pub read_sequential_ns: f64,
    pub write_random_ns: f64,
    pub write_sequential_ns: f64,
    pub read_ns_per_byte: f64,
    pub write_ns_per_byte: f64,
    pub operation_bytes: Option<u64>,
    /// Device time in a full bucket. With 0 every operation first waits for its own cost.
    pub burst_ns: f64,
}

impl Limit {
    /// Device time of one operation.
    pub fn cost_ns(&self, operation: Operation) -> f64 {
        let (base_ns, ns_per_byte) = match (operation.op == Op::Write, operation.sequential) {
            (false, false) => (self.read_random_ns, self.read_ns_per_byte),
            (false, true) => (self.read_sequential_ns, self.read_ns_per_byte),
            (true, false) => (self.write_random_ns, self.write_ns_per_byte),
            (true, true) => (self.write_sequential_ns, self.write_ns_per_byte),
        };
        let operations = match self.operation_bytes {
            None => 1,
            Some(bytes) => operation.bytes.div_ceil(bytes.max(1)),
        };
        base_ns * operations as f64 + ns_per_byte * operation.bytes as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: Operation = Operation { op: Op::Read, sequential: false, bytes: 8192 };

    #[test]
    fn quantiles_occur_as_often_as_in_the_distribution() {
        let distribution = Distribution::new(&[(900.0, 1), (100.0, 2), (500.0, 0), (200.0, 5)]);
        let drawn: Vec<f64> =
            (0..8).map(|i| distribution.quantile_ns((i as f64 + 0.5) / 8.0)).collect();
        assert_eq!(drawn, [100.0, 100.0, 200.0, 200.0, 200.0, 200.0, 200.0, 900.0]);
        assert_eq!(distribution.quantile_ns(0.0), 100.0);
        assert_eq!(distribution.quantile_ns(1.0), 900.0);
    }

    #[test]
    fn latency_is_linear_between_and_above_two_sizes() {
        let constant = |ns| Distribution::new(&[(ns, 1)]);
        let line = |bytes: u64| 1000.0 + 0.5 * bytes as f64;
        let curve =
            Curve::new([1 << 20, 4096].map(|bytes| (bytes, constant(line(bytes)))).to_vec());
        for bytes in [512, 4096, 4097, 70_000, 1 << 20, 4 << 20] {
            assert!((curve.latency_ns(bytes, 0.3) - line(bytes)).abs() < 1e-6, "{bytes}");
        }
    }

    #[test]
    fn beyond_the_known_sizes_latency_neither_falls_nor_outgrows_the_size() {
        let constant = |ns| Distribution::new(&[(ns, 1)]);
        let curve = Curve::new(vec![(4096, constant(300.0)), (8192, constant(200.0))]);
        assert_eq!(curve.latency_ns(6144, 0.5), 250.0);
        assert_eq!(curve.latency_ns(1 << 20, 0.5), 200.0);
        assert_eq!(curve.latency_ns(512, 0.5), 300.0);
        let steep = Curve::new(vec![(4096, constant(100.0)), (8192, constant(1_000.0))]);
        assert_eq!(steep.latency_ns(16_384, 0.5), 2_000.0);
        assert_eq!(steep.latency_ns(1024, 0.5), 25.0);
        assert_eq!(Curve::default().latency_ns(4096, 0.5), 0.0);
        assert_eq!(Curve::fixed(9).latency_ns(1 << 30, 0.5), 9.0);
    }

    #[test]
    fn latency_is_a_power_of_the_depth() {
        let curves = [(1, 100), (4, 200), (16, 800)].map(|(at, ns)| (at, Curve::fixed(ns)));
        let curves = Curves::new(curves.to_vec());
        // Half the logarithm of the growth at half the logarithm of the depth.
        for (depth, ns) in [(1, 100.0), (2, 20_000f64.sqrt()), (4, 200.0), (8, 400.0), (16, 800.0)]
        {
            assert!((curves.latency_ns(4096, depth, 0.5) - ns).abs() < 1e-6, "{depth}");
        }
        assert!((curves.latency_ns(4096, 64, 0.5) - 3_200.0).abs() < 1e-6);
        let falling = Curves::new(vec![(2, Curve::fixed(100)), (4, Curve::fixed(50))]);
        assert_eq!(falling.latency_ns(4096, 8, 0.5), 50.0);
        assert_eq!(falling.latency_ns(4096, 1, 0.5), 100.0);
    }

    #[test]
    fn the_cost_of_an_operation_depends_on_op_pattern_and_bytes() {
        let limit = Limit {
            read_random_ns: 1000.0,
            read_sequential_ns: 10.0,
            write_random_ns: 2000.0,
            write_sequential_ns: 20.0,
            read_ns_per_byte: 0.5,
            write_ns_per_byte: 1.5,
            operation_bytes: Some(4096),
            burst_ns: 0.0,
        };
        let cost = |op, sequential, bytes| limit.cost_ns(Operation { op, sequential, bytes });
        assert_eq!(cost(Op::Read, false, 4096), 1000.0 + 2048.0);
        assert_eq!(cost(Op::Read, true, 4097), 2.0 * 10.0 + 2048.5);
        assert_eq!(cost(Op::Write, false, 100), 2000.0 + 150.0);
        assert_eq!(cost(Op::Write, true, 8192), 2.0 * 20.0 + 12288.0);
        assert_eq!(Limit { operation_bytes: None, ..limit }.cost_ns(READ), 1000.0 + 4096.0);
    }
}
