//! The result of a replay.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::group::{Access, Cell, Group, Pattern, Running};
use super::place::Filesystem;
use super::plan::Step;
use super::schedule::Disturbance;
use crate::histogram::Histogram;
use crate::wait::{Op, size_class_bytes};

/// Serialised as the facts of storage.json.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Ascending by operation and size class.
    #[serde(skip)]
    pub groups: Vec<Group>,
    /// Latencies of calls that change files, by name.
    #[serde(skip)]
    pub changes: BTreeMap<&'static str, Histogram>,
    /// Time from the first step to the last, without the preparation.
    pub elapsed_ns: u64,
    pub steps_replayed: u64,
    /// Steps omitted for lack of time.
    pub steps_skipped: u64,
    /// Bytes written untimed so that reads meet data. Such a read directly follows its write, so
    /// its latency may be that of the page cache.
    pub prefilled_bytes: u64,
    /// Factor on the recorded CPU time and pauses.
    pub think_scale: f64,
    pub threads: u32,
    /// Mean number of operations in flight while at least one is.
    pub in_flight: f64,
    /// Number of distinct bytes that the plan touches.
    pub(crate) working_set_bytes: u64,
    /// Share of the working set that fits the byte budget; 1 for all.
    pub(crate) byte_share: f64,
    #[serde(skip)]
    pub filesystem: Filesystem,
    /// Whether the I/O bypassed the page cache.
    pub direct: bool,
    /// Latency that the replay reports for an operation that takes no time.
    pub(crate) floor_ns: u64,
    /// Number of repetitions because of disturbances; this is the least disturbed run.
    pub(crate) repeated: u32,
    /// The cost of other work on the machine.
    #[serde(flatten)]
    pub disturbance: Disturbance,
}

impl Outcome {
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.elapsed_ns)
    }
}

/// One timed step.
pub(super) struct Sample {
    /// Index in the plan.
    pub(super) step: usize,
    pub(super) start_ns: u64,
    pub(super) elapsed_ns: u64,
}

/// Sums of the samples of all segments so far.
#[derive(Default)]
pub(super) struct Tally {
    groups: BTreeMap<(Op, u64), Running>,
    pub(super) steps: u64,
    io_ns: u64,
    busy_ns: u64,
}

impl Tally {
    /// Sums the time with operations in flight, given all samples, which it sorts by start.
    pub(super) fn overlap(&mut self, samples: &mut [Sample]) {
        samples.sort_unstable_by_key(|sample| sample.start_ns);
        let mut busy_until_ns = 0;
        for sample in samples {
            let end_ns = sample.start_ns + sample.elapsed_ns;
            self.busy_ns += end_ns.saturating_sub(busy_until_ns.max(sample.start_ns));
            busy_until_ns = busy_until_ns.max(end_ns);
            self.io_ns += sample.elapsed_ns;
        }
    }

    pub(super) fn add_segment(&mut self, steps: &[Step], samples: &[Sample]) {
        for sample in samples {
            let step = &steps[sample.step];
            let bytes = u64::from(step.bytes);
            let group = self.groups.entry((step.op, size_class_bytes(bytes))).or_default();
            group.record(sample.elapsed_ns, bytes);
        }
        self.steps += samples.len() as u64;
        self.groups.values_mut().for_each(Running::end_block);
    }

    /// Mean number of operations in flight while at least one is.
    pub(super) fn in_flight(&self) -> f64 {
        self.io_ns as f64 / self.busy_ns.max(1) as f64
    }

    pub(super) fn into_groups(self, depth: u32, direct: bool) -> Vec<Group> {
        let access = if direct { Access::Direct } else { Access::Buffered };
        let group = |((op, size_class_bytes), running): ((Op, u64), Running)| {
            let (bytes, pattern) = (size_class_bytes as u32, Pattern::Recorded);
            running.into_group(Cell { op, bytes, depth, pattern, access })
        };
        self.groups.into_iter().map(group).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(op: Op, bytes: u32) -> Step {
        Step { op, bytes, ..Step::default() }
    }

    fn sample(step: usize, start_ns: u64, elapsed_ns: u64) -> Sample {
        Sample { step, start_ns, elapsed_ns }
    }

    #[test]
    fn samples_are_grouped_and_overlap_is_counted() {
        let steps = [step(Op::Write, 8192), step(Op::Read, 8000), step(Op::Write, 8190)];
        let mut tally = Tally::default();
        // 100..200 and 150..300 are 200 ns busy with 250 ns of I/O; 400..450 adds 50 to both.
        // 1000..1100 contains 1010..1020.
        let mut samples = [
            sample(1, 150, 150),
            sample(0, 100, 100),
            sample(2, 400, 50),
            sample(2, 1010, 10),
            sample(0, 1000, 100),
        ];
        tally.add_segment(&steps, &samples[..3]);
        tally.add_segment(&steps, &samples[3..]);
        tally.overlap(&mut samples);
        assert_eq!(tally.steps, 5);
        assert!((tally.in_flight() - (300.0 + 110.0) / (250.0 + 100.0)).abs() < 1e-12);
        let groups = tally.into_groups(2, false);
        let [read, write] = &groups[..] else { panic!("{groups:?}") };
        assert_eq!(
            (read.op, read.size_class_bytes, read.histogram.count(), read.bytes),
            (Op::Read, 8192, 1, 8000)
        );
        assert_eq!(read.block_means_ns, [(1, 150.0)]);
        assert_eq!(
            (write.op, write.histogram.count(), write.bytes),
            (Op::Write, 4, 2 * 8192 + 2 * 8190)
        );
        assert_eq!(write.block_means_ns, [(2, 75.0), (2, 55.0)]);
        assert_eq!(write.histogram.total_ns(), 260);
    }
}
