//! Divides the budget: the steps into segments, with a deadline and the operations that fit it.

use std::ops::Range;
use std::time::Duration;

use super::Step;
use crate::wait::Op;

/// Number of segments: phases of a query (first writes, then reads) are longer than 1/20 of it.
pub(super) const SEGMENTS: usize = 20;

pub(super) struct Pace {
    /// Factor on CPU time and pauses.
    pub(super) think_scale: f64,
    pub(super) segments: Vec<Segment>,
}

pub(super) struct Segment {
    /// Indexes in the plan.
    pub(super) steps: Range<usize>,
    /// Time since the start of the replay. After it, a thread goes on with the next segment; later
    /// segments gain the time that earlier ones leave.
    pub(super) deadline_ns: u64,
    /// Time for reads and for writes, in proportion to their number, used if there is too little
    /// for all: otherwise the operations at the end of each segment would never be measured.
    pub(super) shares_ns: [u64; 2],
}

impl Pace {
    /// Threads of the steps are numbered from 0 to below `threads`. Gaps are kept if they take at
    /// most half of the budget, and scaled down to half of it otherwise. A segment gets the time of
    /// its own gaps and an equal share of the rest.
    pub(super) fn new(all: &[Step], threads: usize, budget: Duration) -> Pace {
        let budget_ns = budget.as_nanos() as f64;
        let count = all.len().min(SEGMENTS);
        let ranges = (0..count).map(|i| all.len() * i / count..all.len() * (i + 1) / count);
        let think_ns: Vec<f64> =
            ranges.clone().map(|range| longest_think_ns(&all[range], threads)).collect();
        let total_ns: f64 = think_ns.iter().sum();
        let think_scale = if total_ns > 0.0 { (budget_ns / 2.0 / total_ns).min(1.0) } else { 1.0 };
        let share_ns = (budget_ns - total_ns * think_scale) / count as f64;
        let mut deadline_ns = 0.0;
        let segments = ranges.zip(think_ns).map(|(steps, think_ns)| {
            deadline_ns += think_ns * think_scale + share_ns;
            Segment {
                deadline_ns: deadline_ns as u64,
                shares_ns: shares(&all[steps.clone()], share_ns),
                steps,
            }
        });
        Pace { think_scale, segments: segments.collect() }
    }

    /// The segment of an index in the plan.
    pub(super) fn segment(&self, position: usize) -> usize {
        self.segments.partition_point(|segment| segment.steps.end <= position)
    }
}

/// A segment's time for reads and for writes, in proportion to their number.
fn shares(steps: &[Step], time_ns: f64) -> [u64; 2] {
    let count = |op| steps.iter().filter(|step| step.op == op).count() as f64;
    let (reads, writes) = (count(Op::Read), count(Op::Write));
    [reads, writes].map(|count| (time_ns * count / (reads + writes).max(1.0)) as u64)
}

/// CPU time and pauses of the thread with the largest sum: threads run concurrently.
fn longest_think_ns(steps: &[Step], threads: usize) -> f64 {
    let mut by_thread = vec![0.0; threads];
    for step in steps {
        by_thread[step.thread as usize] += (step.cpu_ns + step.delay_ns) as f64;
    }
    by_thread.into_iter().fold(0.0, f64::max)
}

/// The work of a thread in a segment.
#[derive(Default)]
pub(super) struct Done {
    /// Time of the thread's reads and of its writes, in ns; None before the first.
    took_ns: [Option<u64>; 2],
    /// Whether an operation was skipped for lack of time.
    pub left_out: bool,
    /// Whether one was skipped in the previous segment.
    hurries: bool,
}

impl Done {
    /// The state at the start of the next segment.
    pub fn next(&self) -> Done {
        Done { hurries: self.left_out, ..Done::default() }
    }

    /// Whether a read or write is the first of its kind in the segment; false for other calls.
    pub(crate) fn is_first(&self, op: Op) -> bool {
        kind(op).is_some_and(|kind| self.took_ns[kind].is_none())
    }

    /// Whether operations of this kind have time left, if there is too little for all.
    pub(crate) fn has_time_for(&self, op: Op, shares_ns: [u64; 2]) -> bool {
        !self.hurries
            || kind(op).is_none_or(|kind| self.took_ns[kind].unwrap_or(0) < shares_ns[kind])
    }

    pub fn add(&mut self, op: Op, elapsed_ns: u64) {
        if let Some(kind) = kind(op) {
            *self.took_ns[kind].get_or_insert(0) += elapsed_ns;
        }
    }
}

/// Index of reads and of writes in pairs.
fn kind(op: Op) -> Option<usize> {
    match op {
        Op::Read => Some(0),
        Op::Write => Some(1),
        Op::Null => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::Op;

    fn steps(count: usize, think_ns: impl Fn(usize) -> u64) -> Vec<Step> {
        (0..count)
            .map(|i| Step {
                thread: (i % 2) as u32,
                op: Op::Write,
                bytes: 1,
                delay_ns: think_ns(i) / 2,
                cpu_ns: think_ns(i) - think_ns(i) / 2,
                ..Step::default()
            })
            .collect()
    }

    #[test]
    fn segments_cover_every_step_once_and_end_with_the_budget() {
        for count in [1, 19, 20, 21, 399, 1000] {
            let pace = Pace::new(&steps(count, |_| 7), 2, Duration::from_secs(60));
            assert_eq!(pace.segments.len(), count.min(20));
            let mut next = 0;
            for segment in &pace.segments {
                assert_eq!(segment.steps.start, next);
                assert!(segment.steps.end > next);
                assert_eq!(pace.segment(next), pace.segment(segment.steps.end - 1));
                next = segment.steps.end;
            }
            assert_eq!(next, count);
            let last_ns = pace.segments.last().unwrap().deadline_ns;
            assert!(last_ns.abs_diff(60_000_000_000) < 10, "{last_ns}");
        }
    }

    #[test]
    fn gaps_are_kept_up_to_half_of_the_budget_and_scaled_above() {
        // Two threads with 100 gaps each, concurrently: five per segment.
        let budget = Duration::from_nanos(1_000);
        let scale = |think_ns| Pace::new(&steps(200, |_| think_ns), 2, budget).think_scale;
        assert_eq!(scale(5), 1.0);
        assert_eq!(scale(20), 0.25);
    }

    #[test]
    fn a_segment_has_the_time_of_its_gaps_and_a_share_of_the_rest() {
        // All 400 ns of gaps are in the first of 20 segments; 600 ns are left for 20 shares of 30.
        let all = steps(40, |i| if i == 0 { 400 } else { 0 });
        let pace = Pace::new(&all, 2, Duration::from_nanos(1_000));
        assert_eq!(pace.segments[0].deadline_ns, 430);
        assert_eq!(pace.segments[1].deadline_ns, 460);
    }

    #[test]
    fn a_hurrying_thread_divides_time_by_the_counts_of_reads_and_writes() {
        let shares_ns = [60, 40];
        let mut done = Done { hurries: true, ..Done::default() };
        done.add(Op::Write, 39);
        assert!(done.has_time_for(Op::Write, shares_ns));
        done.add(Op::Write, 10);
        assert!(!done.has_time_for(Op::Write, shares_ns));
        assert!(done.has_time_for(Op::Read, shares_ns) && done.is_first(Op::Read));
        assert!(!done.is_first(Op::Write) && !done.is_first(Op::Null));
    }

    #[test]
    fn a_thread_that_skipped_nothing_continues_to_the_deadline() {
        let mut done = Done::default();
        done.add(Op::Write, 1_000);
        assert!(done.has_time_for(Op::Write, [60, 40]));
    }
}
