//! Replays of plans on real directories: the operations issued, and leftovers.

use std::collections::{BTreeMap, HashSet};
use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use spillcast_core::probe::{Options, Outcome, Probe, ProbeError, Step};
use spillcast_core::wait::{Op, size_class_bytes};

use crate::{check_blocks, directories, entries, few_cases, options, run, step};

const CHILD: &str = "replay::child_in_the_middle_of_a_replay";
const CHILD_DIR: &str = "SPILLCAST_TEST_PROBE_DIR";

/// The groups that a complete replay must report, counted step by step.
fn count_groups(steps: &[Step]) -> BTreeMap<(Op, u64), (u64, u64)> {
    let mut groups = BTreeMap::new();
    for step in steps {
        let group = groups.entry((step.op, size_class_bytes(step.bytes.into()))).or_insert((0, 0));
        *group = (group.0 + 1, group.1 + u64::from(step.bytes));
    }
    groups
}

/// Bytes that one thread must write so that each of its reads meets data: whole unwritten blocks,
/// and the bytes between the end of the file and that of the read.
fn count_prefilled(steps: &[Step]) -> u64 {
    let mut written: HashSet<(u32, u64)> = HashSet::new();
    let mut sizes: BTreeMap<u32, u64> = BTreeMap::new();
    let mut prefilled = 0;
    for step in steps {
        let end = step.offset + u64::from(step.bytes);
        let size = sizes.entry(step.file).or_insert(0);
        for block in step.offset / 4096..=(end - 1) / 4096 {
            if written.insert((step.file, block)) && step.op == Op::Read {
                prefilled += 4096;
                *size = (*size).max((block + 1) * 4096);
            }
        }
        if step.op == Op::Read {
            prefilled += end.saturating_sub(*size);
        }
        *size = (*size).max(end);
    }
    prefilled
}

fn check_complete(steps: &[Step], outcome: &Outcome) {
    let groups: BTreeMap<_, _> = outcome
        .groups
        .iter()
        .map(|group| ((group.op, group.size_class_bytes), (group.histogram.count(), group.bytes)))
        .collect();
    assert_eq!(groups, count_groups(steps));
    let threads: HashSet<u32> = steps.iter().map(|step| step.thread).collect();
    assert_eq!(outcome.threads as usize, threads.len());
    assert_eq!((outcome.steps_replayed, outcome.steps_skipped), (steps.len() as u64, 0));
    assert!(outcome.in_flight >= 1.0 && outcome.in_flight <= threads.len() as f64);
    let mut io_ns = 0;
    for group in &outcome.groups {
        assert_eq!(group.depth as usize, threads.len());
        assert!(group.block_means_ns.len() <= 20);
        check_blocks(group);
        io_ns += group.histogram.total_ns();
    }
    assert!(outcome.elapsed_ns * threads.len() as u64 >= io_ns);
}

fn any_steps(threads: u32, count: usize) -> impl Strategy<Value = Vec<Step>> {
    let op = prop_oneof![Just(Op::Read), Just(Op::Write)];
    let bytes = prop_oneof![Just(8192u32), Just(262_144), 1u32..70_000];
    let offset = prop_oneof![(0u64..200).prop_map(|block| block * 8192), 0u64..1_000_000];
    let step = (0..threads, op, 0u32..4, offset, bytes, 0u64..30_000).prop_map(
        |(thread, op, file, offset, bytes, delay_ns)| {
            // Thread and file numbers are those of the recording, with gaps.
            let (thread, file) = (4_000_000_000 + thread * 7, file * 1000);
            Step { delay_ns, ..step(thread, op, file, offset, bytes) }
        },
    );
    prop::collection::vec(step, 1..count)
}

proptest! {
    #![proptest_config(few_cases())]

    #[test]
    fn every_step_is_replayed_once(steps in any_steps(5, 300)) {
        for dir in directories() {
            let outcome = run(&steps, options(dir.path()));
            check_complete(&steps, &outcome);
            prop_assert_eq!(entries(dir.path()), 0);
        }
    }

    #[test]
    fn one_thread_prefills_exactly_what_its_reads_would_miss(steps in any_steps(1, 200)) {
        let [dir, _] = directories();
        let outcome = run(&steps, options(dir.path()));
        check_complete(&steps, &outcome);
        prop_assert_eq!(outcome.prefilled_bytes, count_prefilled(&steps));
    }
}

#[test]
fn gaps_are_kept_or_scaled() {
    let [dir, _] = directories();
    let steps: Vec<Step> = (0..20)
        .map(|i| Step { delay_ns: 5_000_000, ..step(0, Op::Write, 0, i * 8192, 8192) })
        .collect();
    let kept = run(&steps, options(dir.path()));
    assert!(kept.elapsed_ns >= 20 * 5_000_000, "{}", kept.elapsed_ns);

    let one_day_ns = 86_400_000_000_000;
    let days: Vec<Step> =
        steps.iter().map(|step| Step { delay_ns: one_day_ns, ..step.clone() }).collect();
    let scaled = run(&days, Options { budget: Duration::from_millis(200), ..options(dir.path()) });
    assert!(scaled.elapsed_ns >= 99_000_000, "half of the budget: {}", scaled.elapsed_ns);
}

/// Two threads, each of which works for 2 ms after the other has written, and then writes.
fn turns(count: u32) -> Vec<Step> {
    let wait =
        |i: u32| Step { after: (i > 0).then(|| 2 * i - 1), ..step(i % 2, Op::Null, 0, 0, 0) };
    let write = |i: u32| Step {
        cpu_ns: 2_000_000,
        ..step(i % 2, Op::Write, i % 2, u64::from(i) * 8192, 8192)
    };
    (0..count).flat_map(|i| [wait(i), write(i)]).collect()
}

#[test]
fn threads_that_waited_for_each_other_take_turns() {
    let [dir, _] = directories();
    let outcome = run(&turns(40), options(dir.path()));
    assert_eq!((outcome.steps_replayed, outcome.steps_skipped, outcome.threads), (40, 0, 2));
    assert!(outcome.elapsed_ns >= 40 * 2_000_000, "{}", outcome.elapsed_ns);
    assert_eq!(outcome.in_flight, 1.0);
}

#[test]
fn skipped_steps_do_not_block_other_threads() {
    let [dir, _] = directories();
    let outcome =
        run(&turns(400), Options { budget: Duration::from_millis(100), ..options(dir.path()) });
    assert!(outcome.think_scale < 1.0);
    assert_eq!(outcome.steps_replayed + outcome.steps_skipped, 400);
    // A thread that ends before it signals the other, because it has no step left.
    let mut steps = turns(4);
    steps[0].after = Some(7);
    let budget = Duration::from_millis(100);
    let outcome = run(&steps, Options { budget, ..options(dir.path()) });
    assert!(outcome.steps_replayed > 0);
}

#[test]
fn a_replay_that_waits_for_another_thread_is_cancelled() {
    let [dir, _] = directories();
    let mut steps = turns(4);
    steps[1].cpu_ns = 3_600_000_000_000;
    let budget = Duration::from_secs(24 * 3600);
    let probe = Probe::new(steps, Options { budget, ..options(dir.path()) }).unwrap();
    thread::scope(|scope| {
        let running = scope.spawn(|| probe.run());
        thread::sleep(Duration::from_millis(50));
        probe.cancel();
        assert!(matches!(running.join().unwrap(), Err(ProbeError::Cancelled)));
    });
}

#[test]
fn a_small_budget_includes_the_last_phase() {
    let [dir, _] = directories();
    // Writes of 1 MiB over the same 16 MiB, and small reads in the last segment.
    let mut steps: Vec<Step> =
        (0..40_000).map(|i| step(i % 2, Op::Write, 0, u64::from(i % 16) << 20, 1 << 20)).collect();
    steps[38_000..].iter_mut().for_each(|step| (step.op, step.bytes) = (Op::Read, 65_536));
    let plan = steps.clone();
    let budget = Duration::from_millis(300);
    let probe = Probe::new(plan, Options { budget, ..options(dir.path()) }).unwrap();
    let outcome = probe.run().unwrap();
    assert!(outcome.steps_skipped > 0);
    assert_eq!(outcome.steps_replayed + outcome.steps_skipped, 40_000);
    let kinds: Vec<(Op, u64)> = outcome.groups.iter().map(|g| (g.op, g.size_class_bytes)).collect();
    assert_eq!(kinds, [(Op::Read, 65_536), (Op::Write, 1 << 20)]);
    assert_eq!(outcome.groups[0].block_means_ns.len(), 1);
    assert_eq!(outcome.groups[1].block_means_ns.len(), 19);
    let progress = probe.progress();
    assert_eq!((progress.steps_done, progress.steps_total), (40_000, 40_000));
    assert_eq!(progress.bytes, outcome.groups.iter().map(|group| group.bytes).sum::<u64>());

    let none = run(&steps, Options { budget: Duration::ZERO, ..options(dir.path()) });
    assert_eq!(none.steps_replayed, 40, "each of two threads issues one step of each segment");
}

#[test]
fn a_small_budget_includes_reads_and_writes_of_each_phase() {
    let op = |n: u64| if n % 500 < 300 { Op::Write } else { Op::Read };
    let steps: Vec<Step> =
        (0..10_000).map(|n| step(0, op(n), 0, n % 500 % 300 * 8192, 8192)).collect();
    for dir in directories() {
        let outcome = run(&steps, Options { budget: Duration::ZERO, ..options(dir.path()) });
        for group in &outcome.groups {
            assert_eq!(group.histogram.count(), 20);
        }
        assert_eq!(outcome.groups.len(), 2);
    }
}

/// Two writes, then a gap of an hour: a replay that lasts until something ends it.
fn endless(dir: &Path) -> Probe {
    let mut steps: Vec<Step> =
        (0..4).map(|i| step(i % 2, Op::Write, i % 2, u64::from(i) * 8192, 8192)).collect();
    steps[2..].iter_mut().for_each(|step| step.delay_ns = 3_600_000_000_000);
    let budget = Duration::from_secs(24 * 3600);
    Probe::new(steps, Options { budget, ..options(dir) }).unwrap()
}

fn wait_for_writes(probe: &Probe) {
    while probe.progress().bytes < 2 * 8192 {
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn cancel_ends_a_sleeping_replay_and_no_file_is_ever_listed() {
    for dir in directories() {
        let probe = endless(dir.path());
        thread::scope(|scope| {
            let running = scope.spawn(|| probe.run());
            wait_for_writes(&probe);
            assert_eq!(entries(dir.path()), 0);
            let cancelled = Instant::now();
            probe.cancel();
            assert!(matches!(running.join().unwrap(), Err(ProbeError::Cancelled)));
            assert!(cancelled.elapsed() < Duration::from_secs(60), "the gap is an hour long");
        });
        assert_eq!(entries(dir.path()), 0);
        assert!(matches!(probe.run(), Err(ProbeError::Cancelled)));
    }
}

#[test]
#[ignore = "the child of killing_a_replay_leaves_the_directory_empty"]
fn child_in_the_middle_of_a_replay() {
    let dir = env::var_os(CHILD_DIR).expect("the parent names the directory");
    let probe = endless(&PathBuf::from(dir));
    thread::scope(|scope| {
        scope.spawn(|| probe.run());
        wait_for_writes(&probe);
        println!("in the middle");
    });
}

#[test]
fn killing_a_replay_leaves_the_directory_empty() {
    for dir in directories() {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", CHILD, "--ignored", "--nocapture"])
            .env(CHILD_DIR, dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("in the middle")));
        let fds = fs::read_dir(format!("/proc/{}/fd", child.id())).unwrap();
        let open = fds
            .filter_map(|fd| fs::read_link(fd.unwrap().path()).ok())
            .filter(|target| target.starts_with(dir.path()));
        assert_eq!(open.count(), 2, "the child holds two files in the directory");
        assert_eq!(entries(dir.path()), 0);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(entries(dir.path()), 0);
    }
}
