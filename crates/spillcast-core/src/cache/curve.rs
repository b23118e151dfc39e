//! Miss ratios of LRU caches of every size, from counts of requests by stack distance.

/// Requests by stack distance.
pub struct Curve {
    /// Share of the lines that are sampled.
    pub rate: f64,
    /// The number of requests behind the ratios.
    pub references: u64,
    /// Number of distinct lines; an estimate if lines are sampled.
    pub lines: f64,
    /// Estimated number of requests with a distance below index / `rate` lines.
    pub below: Vec<f64>,
    /// Upper bound of the error of the miss ratio, averaged over all sizes. It always holds if
    /// distances are rounded, and in 19 of 20 traces if lines are sampled; 0 if the curve is exact.
    pub error_max: f64,
    /// The resolution of the curve: its smallest size, in lines.
    pub lines_min: f64,
}

impl Curve {
    /// A curve from counts of requests by distance, in steps of 1 / `rate`.
    pub(super) fn new(rate: f64, references: u64, lines: f64, by_steps: &[f64]) -> Curve {
        let mut below = vec![0.0];
        below.extend(by_steps.iter().scan(0.0, |sum, count| {
            *sum += count;
            Some(*sum)
        }));
        let lines_min = if rate < 1.0 { 10.0 / rate } else { 1.0 };
        Curve { rate, references, lines, below, error_max: 0.0, lines_min }
    }

    /// Miss ratio of a cache of `lines` lines; NaN without requests.
    pub fn miss_ratio(&self, lines: f64) -> f64 {
        let last = self.below.len() - 1;
        let at = (lines * self.rate).clamp(0.0, last as f64);
        let (low, share) = (at.floor() as usize, at.fract());
        let hits = self.below[low] * (1.0 - share) + self.below[(low + 1).min(last)] * share;
        (1.0 - hits / self.references as f64).clamp(0.0, 1.0)
    }
}

/// Counts a request whose distance is `steps`.
pub(super) fn count(histogram: &mut Vec<u64>, steps: usize) {
    if steps >= histogram.len() {
        histogram.resize((steps + 1).max(2 * histogram.len()), 0);
    }
    histogram[steps] += 1;
}

/// Weighted sum of two histograms.
pub(super) fn added(left: &[u64], left_weight: f64, right: &[u64], right_weight: f64) -> Vec<f64> {
    let at = |histogram: &[u64], steps| histogram.get(steps).copied().unwrap_or(0) as f64;
    (0..left.len().max(right.len()))
        .map(|steps| left_weight * at(left, steps) + right_weight * at(right, steps))
        .collect()
}
