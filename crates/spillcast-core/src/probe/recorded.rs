//! Plans from the temp I/O of recorded waits, with the work of threads in between, or pauses.

use rustc_hash::FxHashMap;
use spillcast_calls::CallKind;

use super::plan::{Step, on_files, renumber};
use crate::thread_trace::{NONE, Recorded, Row, Slices, Threads, thread_trace};
use crate::wait::{NameId, Names, Op};

/// The steps of a plan, and whether the threads' waits are known, which makes it a closed loop.
pub struct FromWaits {
    pub steps: Vec<Step>,
    pub closed_loop: bool,
}

/// The plan of waits in any order, whose events are `names`: I/O, calls that change files and, if
/// known, the work of the threads.
pub fn plan_of_waits(mut waits: Vec<Recorded>, names: &Names, slices: Slices) -> FromWaits {
    sort(&mut waits);
    let closed_loop = waits.iter().any(|wait| wait.op == Op::Null && wait.file == NONE);
    let mut acts = Acts::new(names);
    let steps = if closed_loop {
        let rows = thread_trace(&waits, names, slices).rows;
        // The time before the first slice is not a pause of a thread.
        let lone_beginning = |row: &&Row| row.source == NONE && row.after == NONE;
        let lone = rows.iter().filter(lone_beginning).map(|row| row.end_ns - row.start_ns);
        let before_ns = if slices.0.is_empty() { 0 } else { lone.min().unwrap_or(0) };
        rows.iter().map(|row| closed_step(row, &waits, before_ns, &mut acts)).collect()
    } else {
        open_steps(waits.iter().filter(|wait| wait.moves() || wait.changes()), &mut acts)
    };
    FromWaits { steps: numbered(steps), closed_loop }
}

/// The plan of reads and writes only.
pub fn plan_of_moves(mut waits: Vec<Recorded>, names: &Names) -> Vec<Step> {
    sort(&mut waits);
    numbered(open_steps(waits.iter().filter(|wait| wait.moves()), &mut Acts::new(names)))
}

fn sort(waits: &mut [Recorded]) {
    if !waits.is_sorted_by_key(|wait| wait.start_ns) {
        waits.sort_by_key(|wait| wait.start_ns);
    }
}

/// Numbers the files by the first step that acts on them.
fn numbered(mut steps: Vec<Step>) -> Vec<Step> {
    renumber(on_files(&mut steps).map(|step| &mut step.file));
    steps
}

/// The step of a row of the trace; only a wait if it acts on no temp file.
fn closed_step(row: &Row, waits: &[Recorded], before_ns: i64, acts: &mut Acts) -> Step {
    let wait = waits.get(row.source as usize);
    let acting = wait.filter(|wait| wait.moves() || wait.changes());
    let mut step = acting.map(|wait| acts.step(wait)).unwrap_or_default();
    step.thread = row.thread;
    let wait_ns = row.end_ns - row.start_ns;
    let tied = row.after != NONE;
    let burned_ns = if row.on_core && acting.is_none() { wait_ns } else { 0 };
    step.cpu_ns = positive(row.cpu_ns + burned_ns);
    if acting.is_none() && !row.on_core && !tied {
        step.delay_ns = positive(if row.source == NONE { wait_ns - before_ns } else { wait_ns });
    }
    step.after = tied.then_some(row.after);
    step.after_cpu_ns = positive(row.after_cpu_ns);
    step
}

/// A step for each acting wait, after the pause since its thread's previous one.
fn open_steps<'a>(
    acting: impl Iterator<Item = &'a Recorded> + Clone,
    acts: &mut Acts,
) -> Vec<Step> {
    let threads = Threads::of(acting.clone());
    let mut ends_ns = vec![None; threads.count()];
    let step = |wait: &Recorded| {
        let thread = threads.of_wait(wait);
        let before_ns = ends_ns[thread as usize].replace(wait.end_ns());
        let delay_ns = before_ns.map_or(0, |end_ns| positive(wait.start_ns - end_ns));
        Step { thread, delay_ns, ..acts.step(wait) }
    };
    acting.map(step).collect()
}

/// Creates steps from I/O and changes of temp files. Offsets are as recorded; without offsets, the
/// I/O of a file is assumed sequential.
struct Acts {
    /// The call by event.
    kinds: Vec<Option<CallKind>>,
    /// By file, the end of its I/O without offsets.
    ends: FxHashMap<NameId, u64>,
}

impl Acts {
    fn new(names: &Names) -> Acts {
        let kinds = names.list().iter().map(|name| CallKind::named(name)).collect();
        Acts { kinds, ends: FxHashMap::default() }
    }

    fn step(&mut self, wait: &Recorded) -> Step {
        let offset = wait.offset().unwrap_or_else(|| {
            let end = self.ends.entry(wait.file).or_default();
            *end += u64::from(wait.bytes);
            *end - u64::from(wait.bytes)
        });
        // A wait for writeback has no file: the probed storage has writeback of its own.
        let changes = wait.changes() && wait.file != NONE;
        let change = self.kinds[wait.event as usize].filter(|_| changes);
        let &Recorded { op, file, bytes, .. } = wait;
        Step { op, change, file, offset, bytes, ..Step::default() }
    }
}

fn positive(ns: i64) -> u64 {
    ns.max(0) as u64
}
