//! Sums of intervals over bins of equal length of a run.
//!
//! A time line adds up waits batch by batch, so that ten million waits are never in memory
//! (`python -m bench report`).

/// Bins of equal length; the first starts at 0.
#[derive(Clone, Copy, Debug)]
pub struct Bins {
    pub width_ns: f64,
    pub count: usize,
}

impl Bins {
    /// Sums the values of intervals by bin, each spread evenly over the part of its interval within
    /// the bins. An interval entirely before them counts in the first, one after them in the last.
    pub fn spread(self, intervals: impl Iterator<Item = (i64, i64, f64)>) -> Vec<f64> {
        let mut sums = vec![0.0; self.count];
        // Changes of the value that intervals add to each bin that they cover entirely.
        let mut steps = vec![0.0; self.count + 1];
        for (begin_ns, end_ns, value) in intervals {
            let (begin, end) = (self.place(begin_ns), self.place(end_ns));
            let (first, last) = (self.number(begin), self.number(end));
            if first >= last {
                sums[first] += value;
                continue;
            }
            let each = value / (end - begin);
            sums[first] += each * ((first + 1) as f64 - begin);
            sums[last] += each * (end - last as f64);
            steps[first + 1] += each;
            steps[last] -= each;
        }
        let mut covering = 0.0;
        for (sum, step) in sums.iter_mut().zip(steps) {
            covering += step;
            *sum += covering;
        }
        sums
    }

    /// By bin, how long (ns) at least one interval covers it. They are sorted by start.
    pub fn covered_ns(self, intervals: impl Iterator<Item = (i64, i64)>) -> Vec<f64> {
        let most_ns = (self.width_ns * self.count as f64) as i64;
        let within = covered(intervals).map(|(begin_ns, end_ns)| {
            let (begin_ns, end_ns) = (begin_ns.clamp(0, most_ns), end_ns.clamp(0, most_ns));
            (begin_ns, end_ns, (end_ns - begin_ns) as f64)
        });
        self.spread(within)
    }

    fn place(self, ns: i64) -> f64 {
        (ns as f64 / self.width_ns).clamp(0.0, self.count as f64)
    }

    fn number(self, place: f64) -> usize {
        (place as usize).min(self.count - 1)
    }
}

/// The part of each interval that no earlier interval covers. They are sorted by start.
fn covered(intervals: impl Iterator<Item = (i64, i64)>) -> impl Iterator<Item = (i64, i64)> {
    let mut reached_ns = i64::MIN;
    intervals.filter_map(move |(begin_ns, end_ns)| {
        let begin_ns = begin_ns.max(reached_ns);
        reached_ns = reached_ns.max(end_ns);
        (end_ns > begin_ns).then_some((begin_ns, end_ns))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::next;

    const BINS: Bins = Bins { width_ns: 10.0, count: 10 };

    /// Intervals of up to 60 ns that start from -20 to 120, sorted by start.
    fn some(seed: u64) -> Vec<(i64, i64)> {
        let mut state = seed;
        let mut drawn = || (next(&mut state) % 140) as i64 - 20;
        let mut intervals: Vec<(i64, i64)> = (0..8).map(|_| (drawn(), drawn())).collect();
        intervals.iter_mut().for_each(|(begin, end)| *end = *begin + (*end - *begin).abs() % 60);
        intervals.sort_unstable();
        intervals
    }

    #[test]
    fn each_nanosecond_is_counted_in_its_bin() {
        for seed in 0..200 {
            let intervals = some(seed);
            let mut sums = [0.0; 10];
            let mut covered = [0.0; 10];
            for &(begin, end) in &intervals {
                let bin = |ns: i64| (ns.clamp(0, 99) / 10) as usize;
                if begin.clamp(0, 100) == end.clamp(0, 100) {
                    sums[bin(begin)] += 1.0;
                    continue;
                }
                let inside: Vec<i64> = (begin..end).filter(|ns| (0..100).contains(ns)).collect();
                inside.iter().for_each(|&ns| sums[bin(ns)] += 1.0 / inside.len() as f64);
            }
            for ns in 0..100 {
                let any = intervals.iter().any(|&(begin, end)| begin <= ns && ns < end);
                covered[(ns / 10) as usize] += f64::from(u8::from(any));
            }
            let spread = BINS.spread(intervals.iter().map(|&(a, b)| (a, b, 1.0)));
            for (sum, expected) in spread.iter().zip(sums) {
                assert!((sum - expected).abs() < 1e-9, "{intervals:?}: {spread:?}, not {sums:?}");
            }
            let covered_ns = BINS.covered_ns(intervals.iter().copied());
            for (sum, expected) in covered_ns.iter().zip(covered) {
                assert!((sum - expected).abs() < 1e-9, "{intervals:?}");
            }
        }
    }
}
