//! What a replay measured.

use std::collections::BTreeMap;
use std::mem;

use super::Step;
use crate::histogram::Histogram;
use crate::wait::{Op, size_class_bytes};

/// All replayed operations of one kind and size class.
#[derive(Clone, Debug)]
pub struct Group {
    pub op: Op,
    pub size_class_bytes: u64,
    /// How many replay threads do I/O.
    pub depth: u32,
    pub count: u64,
    pub bytes: u64,
    pub histogram: Histogram,
    /// Count and mean latency in each segment of the plan that has some, in the order of time.
    pub block_means_ns: Vec<(u64, f64)>,
}

#[derive(Clone, Debug)]
pub struct Outcome {
    /// Ascending by operation and size class.
    pub groups: Vec<Group>,
    /// From the first step to the last, without the preparation.
    pub elapsed_ns: u64,
    pub steps_replayed: u64,
    /// Steps the budget had no time for.
    pub steps_skipped: u64,
    /// What was written untimed so that a read met data. Such a read follows right upon its
    /// write: where the page cache holds it, the latency says so.
    pub prefilled_bytes: u64,
    pub threads: u32,
    /// Mean number of operations in flight while at least one is.
    pub in_flight: f64,
    /// Type of the file system, such as `ext4`; the magic number in hex where it is not known.
    pub filesystem: String,
    /// What the replay reports for an operation that takes no time.
    pub floor_ns: u64,
}

/// One timed step.
pub(super) struct Sample {
    /// Position in the plan.
    pub(super) step: usize,
    pub(super) start_ns: u64,
    pub(super) elapsed_ns: u64,
}

/// The samples so far, summed up segment by segment.
#[derive(Default)]
pub(super) struct Tally {
    groups: BTreeMap<(Op, u64), Running>,
    pub(super) steps: u64,
    io_ns: u64,
    busy_ns: u64,
}

#[derive(Default)]
struct Running {
    bytes: u64,
    histogram: Histogram,
    block_means_ns: Vec<(u64, f64)>,
    block_count: u64,
    block_total_ns: u64,
}

impl Tally {
    /// Adds the samples of one segment, none of which overlaps those of another.
    pub(super) fn add_segment(&mut self, steps: &[Step], mut samples: Vec<Sample>) {
        samples.sort_unstable_by_key(|sample| sample.start_ns);
        let mut busy_until_ns = 0;
        for sample in &samples {
            let end_ns = sample.start_ns + sample.elapsed_ns;
            self.busy_ns += end_ns.saturating_sub(busy_until_ns.max(sample.start_ns));
            busy_until_ns = busy_until_ns.max(end_ns);
            self.io_ns += sample.elapsed_ns;

            let step = &steps[sample.step];
            let bytes = u64::from(step.bytes);
            let group = self.groups.entry((step.op, size_class_bytes(bytes))).or_default();
            group.bytes += bytes;
            group.histogram.record(sample.elapsed_ns);
            group.block_count += 1;
            group.block_total_ns += sample.elapsed_ns;
        }
        self.steps += samples.len() as u64;
        for group in self.groups.values_mut().filter(|group| group.block_count > 0) {
            let count = mem::take(&mut group.block_count);
            let total_ns = mem::take(&mut group.block_total_ns);
            group.block_means_ns.push((count, total_ns as f64 / count as f64));
        }
    }

    /// Mean number of operations in flight while at least one is.
    pub(super) fn in_flight(&self) -> f64 {
        self.io_ns as f64 / self.busy_ns.max(1) as f64
    }

    pub(super) fn into_groups(self, depth: u32) -> Vec<Group> {
        let groups = self.groups.into_iter().map(|((op, size_class_bytes), group)| Group {
            op,
            size_class_bytes,
            depth,
            count: group.histogram.count(),
            bytes: group.bytes,
            histogram: group.histogram,
            block_means_ns: group.block_means_ns,
        });
        groups.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(op: Op, bytes: u32) -> Step {
        Step { thread: 0, op, file: 0, offset: 0, bytes, think_ns: 0 }
    }

    fn sample(step: usize, start_ns: u64, elapsed_ns: u64) -> Sample {
        Sample { step, start_ns, elapsed_ns }
    }

    #[test]
    fn samples_are_grouped_and_overlap_is_counted() {
        let steps = [step(Op::Write, 8192), step(Op::Read, 8000), step(Op::Write, 8190)];
        let mut tally = Tally::default();
        // 100..200 and 150..300 keep 200 ns busy with 250 ns of I/O; 400..450 adds 50 to both.
        tally.add_segment(
            &steps,
            vec![sample(1, 150, 150), sample(0, 100, 100), sample(2, 400, 50)],
        );
        // Nested in time: 1000..1100 holds 1010..1020.
        tally.add_segment(&steps, vec![sample(0, 1000, 100), sample(2, 1010, 10)]);
        assert_eq!(tally.steps, 5);
        assert!((tally.in_flight() - (300.0 + 110.0) / (250.0 + 100.0)).abs() < 1e-12);
        let groups = tally.into_groups(2);
        let [read, write] = &groups[..] else { panic!("{groups:?}") };
        assert_eq!(
            (read.op, read.size_class_bytes, read.count, read.bytes),
            (Op::Read, 8192, 1, 8000)
        );
        assert_eq!(read.block_means_ns, [(1, 150.0)]);
        assert_eq!((write.op, write.count, write.bytes), (Op::Write, 4, 2 * 8192 + 2 * 8190));
        assert_eq!(write.block_means_ns, [(2, 75.0), (2, 55.0)]);
        assert_eq!(write.histogram.total_ns(), 260);
    }
}
