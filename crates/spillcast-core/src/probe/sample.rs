//! A plan too large for the byte budget: a hashed share of its regions stands for all.

use std::collections::HashSet;

use super::Step;
use super::plan;
use crate::random;
use crate::wait::Op;

/// Small enough that a share is met closely, large enough that most runs of sequential I/O are
/// kept whole.
pub(super) const REGION_BYTES: u64 = 16 << 20;

/// Keeps the steps of as many regions as the budget has room for, in their order: a region that is
/// kept is written and read as it was. Returns the working set of what is left, 0 where not even
/// one region has room. Files are numbered from 0.
pub(super) fn fit(steps: &mut Vec<Step>, extents_bytes: &[u64], budget_bytes: u64) -> u64 {
    let whole_bytes = plan::working_set_bytes(steps.iter(), extents_bytes);
    if whole_bytes <= budget_bytes {
        return whole_bytes;
    }
    // A step may end beyond its region, so that room is counted, not computed.
    let mut regions = ranked_regions(steps);
    let mut kept_bytes = whole_bytes;
    while kept_bytes > budget_bytes {
        let share = budget_bytes as f64 / kept_bytes as f64;
        regions.truncate(((regions.len() as f64 * share) as usize).min(regions.len() - 1));
        let kept: HashSet<u64> = regions.iter().copied().collect();
        let left = steps.iter().filter(|step| kept.contains(&rank(step)));
        kept_bytes = plan::working_set_bytes(left, extents_bytes);
    }
    let kept: HashSet<u64> = regions.into_iter().collect();
    plan::keep(steps, |step| kept.contains(&rank(step)));
    kept_bytes
}

/// The ranks of the regions that steps begin in, ascending: an order that has nothing to do with
/// where they lie.
fn ranked_regions(steps: &[Step]) -> Vec<u64> {
    let io = steps.iter().filter(|step| step.op != Op::Null);
    let mut ranks: Vec<u64> = io.map(rank).collect::<HashSet<_>>().into_iter().collect();
    ranks.sort_unstable();
    ranks
}

/// A hash of the region that a step begins in, the same in every run and without collisions.
fn rank(step: &Step) -> u64 {
    // Extents end at 16 TiB, so a region has 20 bits and its file the others.
    let region = (u64::from(step.file) << 20) | (step.offset / REGION_BYTES);
    random::mix(region)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn step(op: Op, file: u32, offset: u64, bytes: u32) -> Step {
        Step { op, file, offset, bytes, ..Step::default() }
    }

    fn working_set_bytes(steps: &[Step]) -> u64 {
        plan::working_set_bytes(steps.iter(), &plan::extents_bytes(steps, 3))
    }

    proptest! {
        #[test]
        fn what_is_kept_has_room_and_is_whole_regions_in_order(
            places in prop::collection::vec((0u32..3, 0u64..1 << 30, 1u32..1 << 20), 1..400),
            budget_bytes in 0u64..400 << 20,
        ) {
            let all: Vec<Step> =
                places.iter().map(|&(file, at, bytes)| step(Op::Read, file, at, bytes)).collect();
            let mut kept = all.clone();
            let kept_bytes = fit(&mut kept, &plan::extents_bytes(&all, 3), budget_bytes);
            prop_assert_eq!(kept_bytes, working_set_bytes(&kept));
            prop_assert!(kept_bytes <= budget_bytes);
            prop_assert!(budget_bytes < working_set_bytes(&all) || kept.len() == all.len());
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
        // 8 GiB written in order, then read back.
        let blocks = |op| (0..8192u64).map(move |i| step(op, 0, i << 20, 1 << 20));
        let mut steps: Vec<Step> = blocks(Op::Write).chain(blocks(Op::Read)).collect();
        let kept_bytes = fit(&mut steps, &[8 << 30], 1 << 30);
        assert_eq!(kept_bytes, 1 << 30);
        let writes = steps.iter().filter(|s| s.op == Op::Write).count();
        assert_eq!(writes * 2, steps.len());
        let second_half = steps[..writes].iter().filter(|s| s.offset >= 4 << 30).count();
        let half = writes as f64 / 2.0;
        assert!((second_half as f64 - half).abs() < half / 2.0, "{second_half} of {writes}");
    }

    #[test]
    fn a_plan_with_room_is_kept_and_one_without_any_is_not() {
        let mut steps = vec![step(Op::Write, 0, 0, 8192), step(Op::Write, 0, 4096, 8192)];
        assert_eq!(fit(&mut steps, &[12288], 12288), 12288);
        assert_eq!(steps.len(), 2);
        assert_eq!(fit(&mut steps, &[12288], 12287), 0);
        assert!(steps.is_empty());
    }
}
