//! The plan of a replay: checks it, and reduces a plan too large for the byte budget to a hashed,
//! representative share of its regions.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use spillcast_calls::CallKind;

use super::blocks::{BLOCK_BYTES, BlockSet};
use super::error::ProbeError;
use crate::random;
use crate::wait::Op;

const STEP_BYTES_MAX: u32 = 64 << 20;
const EXTENT_BYTES_MAX: u64 = 16 << 40;

/// The actions of a thread up to the end of one operation: it burns CPU, waits for another thread
/// to reach a point, pauses, and reads, writes or changes a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    pub thread: u32,
    /// Null for a wait or a change, which transfer no bytes.
    pub op: Op,
    /// A call that creates, resizes, syncs, removes or looks up the file.
    pub change: Option<CallKind>,
    pub file: u32,
    /// Offset of the operation; for a change, the new length or the start.
    pub offset: u64,
    /// From 1 byte to 64 MiB for a read or write.
    pub bytes: u32,
    /// CPU time that the thread burns after the end of its previous step.
    pub cpu_ns: u64,
    /// Index in the plan of the step of another thread that must end before; that thread then burns
    /// `after_cpu_ns`.
    pub after: Option<u32>,
    pub after_cpu_ns: u64,
    /// A pause after that.
    pub delay_ns: u64,
}

impl Step {
    /// Whether the step accesses a file.
    pub(super) fn acts(&self) -> bool {
        self.op != Op::Null || self.change.is_some()
    }

    pub(super) fn range(&self) -> Range<u64> {
        debug_assert_eq!(self.bytes == 0, self.op == Op::Null, "bytes that nobody moves: {self:?}");
        self.offset..self.offset + u64::from(self.bytes)
    }
}

/// Fails at the first step that cannot be replayed.
pub(super) fn check(steps: &[Step]) -> Result<(), ProbeError> {
    if steps.iter().all(|step| step.op == Op::Null) {
        return Err(ProbeError::Empty);
    }
    let fault = |step: &Step| {
        let bytes = u64::from(step.bytes);
        match step {
            _ if !waits_for_another(steps, step) => {
                Some("it waits for a step that no other thread does")
            }
            Step { op: Op::Null, bytes: 1.., .. } => Some("it neither reads nor writes"),
            Step { change: Some(kind), .. } if !kind.changes_file() || step.op != Op::Null => {
                Some("it is not a call that changes a file")
            }
            Step { offset, .. } if *offset > EXTENT_BYTES_MAX - bytes => {
                Some("it ends beyond 16 TiB")
            }
            Step { op: Op::Null, .. } => None,
            Step { bytes: 0, .. } => Some("it moves no bytes"),
            Step { bytes, .. } if *bytes > STEP_BYTES_MAX => Some("it moves more than 64 MiB"),
            _ => None,
        }
    };
    match steps.iter().enumerate().find_map(|(step, s)| Some((step, fault(s)?))) {
        Some((step, fault)) => Err(ProbeError::BadStep { step, fault }),
        None => Ok(()),
    }
}

/// Whether the step that this one waits for, if any, exists and belongs to another thread.
fn waits_for_another(steps: &[Step], step: &Step) -> bool {
    let other = |after: u32| steps.get(after as usize).is_some_and(|s| s.thread != step.thread);
    step.after.is_none_or(other)
}

/// Replaces each number by its index among the distinct numbers; returns how many there are.
pub(super) fn renumber<'a>(numbers: impl Iterator<Item = &'a mut u32>) -> usize {
    let mut positions = HashMap::new();
    for number in numbers {
        let next = positions.len() as u32;
        *number = *positions.entry(*number).or_insert(next);
    }
    positions.len()
}

/// The steps that read, write or change a file.
pub(super) fn on_files(steps: &mut [Step]) -> impl Iterator<Item = &mut Step> {
    steps.iter_mut().filter(|step| step.acts())
}

/// Keeps the `wanted` reads and writes, and other steps whose thread's next read or write is kept.
/// A step that waited for a removed step waits for the previous kept step of that thread.
fn keep(steps: &mut Vec<Step>, wanted: impl Fn(&Step) -> bool) {
    let mut kept = vec![false; steps.len()];
    let mut next_wanted = HashMap::new();
    for (position, step) in steps.iter().enumerate().rev() {
        if step.op != Op::Null {
            next_wanted.insert(step.thread, wanted(step));
        }
        kept[position] = next_wanted.get(&step.thread).copied().unwrap_or(false);
    }
    let (mut last, mut count) = (HashMap::new(), 0u32);
    let mut stands_for: Vec<Option<u32>> = Vec::with_capacity(steps.len());
    for (step, &kept) in steps.iter().zip(&kept) {
        if kept {
            last.insert(step.thread, count);
            count += 1;
        }
        stands_for.push(last.get(&step.thread).copied());
    }
    for step in steps.iter_mut() {
        let Some(after) = step.after.map(|after| after as usize) else { continue };
        step.after = stands_for[after];
        step.after_cpu_ns *= u64::from(kept[after]);
    }
    let mut kept = kept.into_iter();
    steps.retain(|_| kept.next().unwrap_or(false));
    debug_assert!(steps.iter().all(|step| waits_for_another(steps, step)), "who waits for whom");
}

/// By file, the end of its reads and writes. Files are numbered from 0.
pub(super) fn extents_bytes(steps: &[Step], files: usize) -> Vec<u64> {
    let mut extents_bytes = vec![0; files];
    for step in steps.iter().filter(|step| step.op != Op::Null) {
        let extent_bytes: &mut u64 = &mut extents_bytes[step.file as usize];
        *extent_bytes = step.range().end.max(*extent_bytes);
    }
    extents_bytes
}

/// By file, the size of all distinct blocks that the steps touch.
pub(super) fn touched_bytes<'a>(
    steps: impl IntoIterator<Item = &'a Step>,
    extents_bytes: &[u64],
) -> Vec<u64> {
    let files: Vec<BlockSet> = extents_bytes.iter().map(|&bytes| BlockSet::new(bytes)).collect();
    let mut touched_bytes = vec![0; files.len()];
    for step in steps.into_iter().filter(|step| step.op != Op::Null) {
        let file = step.file as usize;
        touched_bytes[file] += files[file].insert(step.range()) * BLOCK_BYTES;
    }
    touched_bytes
}

fn working_set_bytes<'a>(steps: impl Iterator<Item = &'a Step>, extents_bytes: &[u64]) -> u64 {
    touched_bytes(steps, extents_bytes).iter().sum()
}

/// Small enough to match a share closely, large enough to keep most runs of sequential I/O whole.
pub(super) const REGION_BYTES: u64 = 16 << 20;

/// Keeps the steps of as many regions as fit the budget, in order: a kept region is written and
/// read as before. Returns the working set of the plan and of what is left, which is 0 if not even
/// one region fits. Files are numbered from 0.
pub(super) fn fit(steps: &mut Vec<Step>, extents_bytes: &[u64], budget_bytes: u64) -> (u64, u64) {
    let whole_bytes = working_set_bytes(steps.iter(), extents_bytes);
    if whole_bytes <= budget_bytes {
        return (whole_bytes, whole_bytes);
    }
    // A step may end beyond its region, so the kept bytes are counted rather than computed.
    let mut regions = ranked_regions(steps);
    let mut kept_bytes = whole_bytes;
    while kept_bytes > budget_bytes {
        let share = budget_bytes as f64 / kept_bytes as f64;
        regions.truncate(((regions.len() as f64 * share) as usize).min(regions.len() - 1));
        let kept: HashSet<u64> = regions.iter().copied().collect();
        let left = steps.iter().filter(|step| kept.contains(&rank(step)));
        kept_bytes = working_set_bytes(left, extents_bytes);
    }
    let kept: HashSet<u64> = regions.into_iter().collect();
    keep(steps, |step| kept.contains(&rank(step)));
    (whole_bytes, kept_bytes)
}

/// The ranks of the regions in which steps start, ascending: an order that is independent of their
/// offsets.
fn ranked_regions(steps: &[Step]) -> Vec<u64> {
    let io = steps.iter().filter(|step| step.op != Op::Null);
    let mut ranks: Vec<u64> = io.map(rank).collect::<HashSet<_>>().into_iter().collect();
    ranks.sort_unstable();
    ranks
}

/// A hash of the region in which a step starts, equal in every run and without collisions.
fn rank(step: &Step) -> u64 {
    // Extents end at 16 TiB, so a region takes 20 bits and its file the others.
    let region = (u64::from(step.file) << 20) | (step.offset / REGION_BYTES);
    random::mix(region)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn step(thread: u32, op: Op, offset: u64, after: Option<u32>) -> Step {
        let (bytes, after_cpu_ns) = (u32::from(op != Op::Null), 9 * u64::from(after.is_some()));
        Step { thread, op, offset, bytes, after, after_cpu_ns, ..Step::default() }
    }

    #[test]
    fn a_dependency_on_a_removed_step_moves_to_the_one_before() {
        let mut steps = vec![
            step(0, Op::Write, 0, None),
            step(1, Op::Null, 0, Some(0)),
            step(0, Op::Null, 0, None),
            step(0, Op::Write, 1, None),
            step(1, Op::Null, 0, Some(3)),
            step(1, Op::Write, 0, None),
            step(0, Op::Null, 0, Some(5)),
        ];
        keep(&mut steps, |step| step.offset == 0);
        let left: Vec<_> =
            steps.iter().map(|s| (s.thread, s.op, s.after, s.after_cpu_ns)).collect();
        let (write, null) = (Op::Write, Op::Null);
        assert_eq!(
            left,
            [
                (0, write, None, 0),
                (1, null, Some(0), 9),
                (1, null, Some(0), 0),
                (1, write, None, 0)
            ]
        );
    }

    #[test]
    fn a_step_waits_for_a_step_of_another_thread() {
        let ok = [step(0, Op::Write, 0, None), step(1, Op::Null, 0, Some(0))];
        assert!(check(&ok).is_ok());
        for after in [0, 2] {
            let bad = [step(0, Op::Write, 0, None), step(0, Op::Null, 0, Some(after))];
            assert!(matches!(check(&bad), Err(ProbeError::BadStep { step: 1, .. })));
        }
        assert!(matches!(check(&ok[..0]), Err(ProbeError::Empty)));
        let waits = [step(0, Op::Null, 0, None)];
        assert!(matches!(check(&waits), Err(ProbeError::Empty)));
    }

    fn moves(op: Op, file: u32, offset: u64, bytes: u32) -> Step {
        Step { op, file, offset, bytes, ..Step::default() }
    }

    fn touched_bytes(steps: &[Step]) -> u64 {
        working_set_bytes(steps.iter(), &extents_bytes(steps, 3))
    }

    proptest! {
        #[test]
        fn retained_steps_fit_and_are_whole_regions_in_order(
            places in prop::collection::vec((0u32..3, 0u64..1 << 30, 1u32..1 << 20), 1..400),
            budget_bytes in 0u64..400 << 20,
        ) {
            let all: Vec<Step> =
                places.iter().map(|&(file, at, bytes)| moves(Op::Read, file, at, bytes)).collect();
            let mut kept = all.clone();
            let (all_bytes, kept_bytes) = fit(&mut kept, &extents_bytes(&all, 3), budget_bytes);
            prop_assert_eq!(kept_bytes, touched_bytes(&kept));
            prop_assert!(kept_bytes <= budget_bytes);
            prop_assert_eq!(all_bytes, touched_bytes(&all));
            prop_assert!(budget_bytes < all_bytes || kept.len() == all.len());
            let regions: HashSet<(u32, u64)> =
                kept.iter().map(|s| (s.file, s.offset / REGION_BYTES)).collect();
            let expected: Vec<Step> = all
                .iter()
                .filter(|s| regions.contains(&(s.file, s.offset / REGION_BYTES)))
                .cloned()
                .collect();
            prop_assert_eq!(kept, expected);
        }
    }

    #[test]
    fn a_large_file_is_thinned_close_to_the_budget_everywhere() {
        // 8 GiB written sequentially, then read back.
        let blocks = |op| (0..8192u64).map(move |i| moves(op, 0, i << 20, 1 << 20));
        let mut steps: Vec<Step> = blocks(Op::Write).chain(blocks(Op::Read)).collect();
        assert_eq!(fit(&mut steps, &[8 << 30], 1 << 30), (8 << 30, 1 << 30));
        let writes = steps.iter().filter(|s| s.op == Op::Write).count();
        assert_eq!(writes * 2, steps.len());
        let second_half = steps[..writes].iter().filter(|s| s.offset >= 4 << 30).count();
        let half = writes as f64 / 2.0;
        assert!((second_half as f64 - half).abs() < half / 2.0, "{second_half} of {writes}");
    }

    #[test]
    fn a_plan_that_fits_is_kept_and_one_that_never_fits_is_emptied() {
        let mut steps = vec![moves(Op::Write, 0, 0, 8192), moves(Op::Write, 0, 4096, 8192)];
        assert_eq!(fit(&mut steps, &[12288], 12288), (12288, 12288));
        assert_eq!(steps.len(), 2);
        assert_eq!(fit(&mut steps, &[12288], 12287), (12288, 0));
        assert!(steps.is_empty());
    }
}
