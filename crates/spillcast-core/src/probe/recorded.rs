//! The temp I/O of recorded waits as a plan: with the work of their threads in between, or pauses.

use rustc_hash::FxHashMap;
use spillcast_calls::CallKind;

use super::plan::{Plan, Step};
use crate::thread_trace::{NONE, Recorded, Row, Threads, thread_trace};
use crate::wait::{Names, Op};

/// A plan, and whether it is known what the threads waited for: a closed loop.
pub struct FromWaits {
    pub plan: Plan,
    pub closed_loop: bool,
}

/// The plan of waits in any order, whose events are `names`; `whole` where all waits were kept.
pub fn plan_of_waits(mut waits: Vec<Recorded>, names: &Names, whole: bool) -> FromWaits {
    let kinds: Vec<Option<CallKind>> =
        names.list().iter().map(|name| CallKind::named(name)).collect();
    if !waits.is_sorted_by_key(|wait| wait.start_ns) {
        waits.sort_by_key(|wait| wait.start_ns);
    }
    let closed_loop = waits.iter().any(|wait| !wait.on_file());
    let steps = if closed_loop {
        let requests: Vec<bool> =
            names.list().iter().map(|name| name.starts_with("io_uring_")).collect();
        closed(&waits, &thread_trace(&waits, &requests), &kinds, whole)
    } else {
        open(&waits, &kinds)
    };
    FromWaits { plan: Plan { steps }, closed_loop }
}

/// A step for each row of the trace; those that act on no temp file are waits alone.
fn closed(waits: &[Recorded], rows: &[Row], kinds: &[Option<CallKind>], whole: bool) -> Vec<Step> {
    let mut offsets = Offsets::default();
    let lone_beginning = |row: &Row| row.source == NONE && row.after == NONE;
    // The time before the first slice is no pause of anybody.
    let before_ns = match whole {
        true => None,
        false => rows.iter().filter(|row| lone_beginning(row)).map(|row| row.end_ns).min(),
    };
    let step = |row: &Row| {
        let wait = waits.get(row.source as usize);
        let acting = wait.filter(|wait| wait.moves() || wait.changes());
        let mut step = match acting {
            Some(wait) => acts(wait, row.thread, kinds, &mut offsets),
            None => idle(row.thread),
        };
        let wait_ns = row.end_ns - row.start_ns;
        let tied = row.after != NONE;
        let burned_ns = if row.on_core && acting.is_none() { wait_ns } else { 0 };
        step.cpu_ns = positive(row.cpu_ns + burned_ns);
        // The storage that is probed has writeback of its own.
        let writeback = wait.is_some_and(|wait| wait.temp);
        if acting.is_none() && !row.on_core && !tied && !writeback {
            let cut_ns = before_ns.filter(|_| row.source == NONE).unwrap_or(0);
            step.delay_ns = positive(wait_ns - cut_ns);
        }
        step.after = tied.then_some(row.after);
        step.after_cpu_ns = positive(row.after_cpu_ns);
        step
    };
    rows.iter().map(step).collect()
}

/// A step for each wait that acts, after the pause since its thread's last.
fn open(waits: &[Recorded], kinds: &[Option<CallKind>]) -> Vec<Step> {
    let threads = Threads::of(waits);
    let mut ends_ns = vec![None; threads.count()];
    let mut offsets = Offsets::default();
    let acting = waits.iter().filter(|wait| wait.moves() || wait.changes());
    let step = |wait: &Recorded| {
        let thread = threads.of_wait(wait);
        let before_ns = ends_ns[thread as usize].replace(wait.end_ns());
        let delay_ns = before_ns.map_or(0, |end_ns| positive(wait.start_ns - end_ns));
        Step { delay_ns, ..acts(wait, thread, kinds, &mut offsets) }
    };
    acting.map(step).collect()
}

fn acts(wait: &Recorded, thread: u32, kinds: &[Option<CallKind>], offsets: &mut Offsets) -> Step {
    Step {
        op: wait.op,
        change: kinds[wait.event as usize].filter(|_| wait.changes()),
        file: wait.file,
        offset: offsets.of(wait),
        bytes: wait.bytes,
        ..idle(thread)
    }
}

fn idle(thread: u32) -> Step {
    Step {
        thread,
        op: Op::Null,
        change: None,
        file: 0,
        offset: 0,
        bytes: 0,
        cpu_ns: 0,
        after: None,
        after_cpu_ns: 0,
        delay_ns: 0,
    }
}

/// Offsets as recorded; where there is none, the I/O of a file is taken to be sequential.
#[derive(Default)]
struct Offsets(FxHashMap<u32, u64>);

impl Offsets {
    fn of(&mut self, wait: &Recorded) -> u64 {
        wait.offset().unwrap_or_else(|| {
            let end = self.0.entry(wait.file).or_default();
            let begin = *end;
            *end += u64::from(wait.bytes);
            begin
        })
    }
}

fn positive(ns: i64) -> u64 {
    ns.max(0) as u64
}
