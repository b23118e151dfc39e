//! The sums over a recording's waits that a forecast needs, in one pass.

use std::collections::BTreeMap;
use std::path::Path;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::bins::Bins;
use crate::capture::temp_name_of;
use crate::thread_trace::Slices;
use crate::wait::{NameId, Op, RowNames, Wait, size_class_bytes};

/// Bins of equal length of the run. The number of active threads is averaged in each.
const BINS: usize = 10;

/// The run, and the time of a read from memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Run<'a> {
    pub elapsed_s: f64,
    pub slices: Slices<'a>,
    /// The longest time of a read of no bytes from memory.
    pub memory_s: f64,
    pub memory_bytes_per_s: f64,
}

/// The sums so far; takes waits in the order of their start.
#[derive(Default)]
pub struct Work<'a> {
    run: Run<'a>,
    streams: FxHashMap<(Option<NameId>, Op), Stream>,
    sequential: BTreeMap<(Op, u64), Sequential>,
    temp_sessions: FxHashSet<i64>,
    temp_ns: i64,
    temp_covered_ns: i64,
    temp_reached_ns: i64,
    blocked: u64,
    blocked_known: u64,
    changes: BTreeMap<NameId, Changes>,
    woken: bool,
    owner: Option<&'static str>,
    files: FxHashSet<NameId>,
    cpu_known: bool,
    threads: FxHashMap<i64, Thread>,
    bursts: Vec<Burst>,
    reads: DataReads,
    /// Intervals in which a thread was on a CPU or in I/O.
    active_ns: Vec<(i64, i64)>,
    /// By bin, the sum of these intervals, and the time of cold data reads.
    worked_ns: [i64; BINS],
    cold_ns: [i64; BINS],
}

/// End offset, in bytes, of the last operation of an op on a file, and its slice.
struct Stream {
    end: i64,
    slice: usize,
}

/// Operations with a known predecessor, and how many of them begin where it ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sequential {
    pub operations: u64,
    pub following: u64,
}

/// Calls that change temp files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    pub calls: u64,
    pub total_ns: i64,
}

/// The last temp operation of a thread with its slice, and the thread's CPU time since.
#[derive(Default)]
struct Thread {
    last: Option<(Burst, usize)>,
    cpu_ns: i64,
}

/// A temp operation and the CPU time of its thread before the next one.
#[derive(Clone, Copy, Debug)]
pub struct Burst {
    pub start_ns: i64,
    pub wait_ns: i64,
    pub bytes: i64,
    pub op: Op,
    pub next_op: Op,
    pub session: i64,
    pub cpu_ns: i64,
}

/// Reads of files that are not temp. Cold ones were slower than memory and, if known, left the CPU.
#[derive(Clone, Copy, Debug, Default)]
pub struct DataReads {
    pub total_ns: i64,
    pub cold: u64,
    pub cold_bytes: i64,
    /// Time of the cold reads, divided in each bin by the number of its active threads.
    pub cold_elapsed_s: f64,
    /// Mean number of active threads while any was active, at least 1.
    pub threads_at_once: f64,
}

pub struct Worked {
    /// By op and size class, of temp operations with an offset.
    pub sequential: BTreeMap<(Op, u64), Sequential>,
    /// Threads that did temp I/O.
    pub threads: usize,
    /// Mean number of temp operations in flight while at least one is; 0 without any.
    pub in_flight: f64,
    /// Share of the temp operations that left the CPU; 0 if that is unknown for all.
    pub blocked_share: f64,
    /// By event.
    pub changes: BTreeMap<NameId, Changes>,
    /// Whether it is known which threads wait for each other.
    pub woken: bool,
    /// The engine whose temp files have such names.
    pub owner: Option<&'static str>,
    /// Sorted by thread; None if CPU times are not known.
    pub bursts: Option<Vec<Burst>>,
    pub reads: DataReads,
}

impl<'a> Work<'a> {
    pub fn new(run: Run<'a>) -> Work<'a> {
        Work { run, temp_reached_ns: i64::MIN, ..Work::default() }
    }

    /// Takes the next wait, whose names are in `names`.
    pub fn push(&mut self, wait: &Wait, names: &RowNames) {
        let slice = self.run.slices.number(wait.start_ns);
        self.woken |= wait.woken_by.is_some();
        self.burst(wait, slice);
        self.active(wait);
        match (wait.temp, wait.op) {
            (true, Op::Null) => {
                let changes = self.changes.entry(wait.event).or_default();
                changes.calls += 1;
                changes.total_ns += wait.elapsed_ns;
            }
            (true, _) => self.temp_io(wait, slice, names),
            (false, Op::Read) => self.data_read(wait),
            (false, _) => {}
        }
    }

    fn temp_io(&mut self, wait: &Wait, slice: usize, names: &RowNames) {
        let end_ns = wait.start_ns + wait.elapsed_ns;
        self.temp_ns += wait.elapsed_ns;
        self.temp_covered_ns += (end_ns - wait.start_ns.max(self.temp_reached_ns)).max(0);
        self.temp_reached_ns = self.temp_reached_ns.max(end_ns);
        self.temp_sessions.insert(wait.session);
        self.blocked_known += u64::from(wait.blocked.is_some());
        self.blocked += u64::from(wait.blocked == Some(true));
        if let Some(file) = wait.file
            && self.owner.is_none()
            && self.files.insert(file)
        {
            let name = temp_name_of(Path::new(&names.files.list()[file as usize]));
            self.owner = name.map(|name| name.engine);
        }
        let (Some(offset), Some(bytes)) = (wait.offset, wait.bytes) else { return };
        let next = Stream { end: offset.wrapping_add(bytes), slice };
        let last = self.streams.insert((wait.file, wait.op), next);
        if last.as_ref().is_some_and(|last| last.slice != slice) {
            return;
        }
        let class = size_class_bytes(bytes.max(0) as u64);
        let sequential = self.sequential.entry((wait.op, class)).or_default();
        sequential.operations += 1;
        sequential.following += u64::from(last.is_none_or(|last| last.end == offset));
    }

    fn burst(&mut self, wait: &Wait, slice: usize) {
        self.cpu_known |= wait.cpu_before_ns.is_some();
        let thread = self.threads.entry(wait.session).or_default();
        thread.cpu_ns += wait.cpu_before_ns.unwrap_or(0);
        let Some(bytes @ 1..) = wait.bytes else { return };
        if !wait.temp || wait.op == Op::Null {
            return;
        }
        let cpu_ns = std::mem::take(&mut thread.cpu_ns);
        let burst = Burst {
            start_ns: wait.start_ns,
            wait_ns: wait.elapsed_ns,
            bytes,
            op: wait.op,
            next_op: Op::Null,
            session: wait.session,
            cpu_ns: 0,
        };
        // The CPU time between two slices is unknown.
        if let Some((last, last_slice)) = thread.last.replace((burst, slice))
            && last_slice == slice
        {
            self.bursts.push(Burst { next_op: wait.op, cpu_ns, ..last });
        }
    }

    /// A thread is active on its CPU before a wait, and in the wait if that is on a file.
    fn active(&mut self, wait: &Wait) {
        let on_file = wait.op != Op::Null || wait.file.is_some();
        let begin_ns = wait.start_ns - wait.cpu_before_ns.unwrap_or(0);
        let end_ns = wait.start_ns + if on_file { wait.elapsed_ns } else { 0 };
        self.active_ns.push((begin_ns, end_ns));
        self.worked_ns[self.bin(wait.start_ns)] += end_ns - begin_ns;
    }

    fn data_read(&mut self, wait: &Wait) {
        let (elapsed_s, bytes) = (wait.elapsed_ns as f64 / 1e9, wait.bytes.unwrap_or(0));
        self.reads.total_ns += wait.elapsed_ns;
        let memory_s = self.run.memory_s + bytes as f64 / self.run.memory_bytes_per_s;
        if elapsed_s > memory_s && wait.blocked.unwrap_or(true) {
            self.reads.cold += 1;
            self.reads.cold_bytes += bytes;
            self.cold_ns[self.bin(wait.start_ns)] += wait.elapsed_ns;
        }
    }

    fn bin(&self, ns: i64) -> usize {
        let width_s = self.run.elapsed_s / BINS as f64;
        let after = (1..BINS).filter(|&edge| edge as f64 * width_s <= ns as f64 / 1e9);
        after.count()
    }

    pub fn finish(mut self) -> Worked {
        self.bursts.sort_by_key(|burst| burst.session);
        self.active_threads();
        let covered_s = (self.temp_covered_ns as f64 / 1e9).max(1e-9);
        Worked {
            sequential: self.sequential,
            threads: self.temp_sessions.len(),
            in_flight: self.temp_ns as f64 / 1e9 / covered_s,
            blocked_share: self.blocked as f64 / self.blocked_known.max(1) as f64,
            changes: self.changes,
            woken: self.woken,
            owner: self.owner,
            bursts: self.cpu_known.then_some(self.bursts),
            reads: self.reads,
        }
    }

    fn active_threads(&mut self) {
        let reads = &mut self.reads;
        if self.threads.len() <= 1 {
            reads.threads_at_once = 1.0;
            reads.cold_elapsed_s = self.cold_ns.iter().sum::<i64>() as f64 / 1e9;
            return;
        }
        self.active_ns.sort_unstable();
        let width_ns = self.run.elapsed_s * 1e9 / BINS as f64;
        let bins = Bins { width_ns, count: BINS };
        let covered_ns = bins.covered_ns(self.active_ns.iter().copied());
        let threads =
            |worked_ns: i64, covered_ns: f64| (worked_ns as f64 / covered_ns.max(1.0)).max(1.0);
        reads.threads_at_once = threads(self.worked_ns.iter().sum(), covered_ns.iter().sum());
        let elapsed_ns = (0..BINS)
            .map(|at| self.cold_ns[at] as f64 / threads(self.worked_ns[at], covered_ns[at]));
        reads.cold_elapsed_s = elapsed_ns.sum::<f64>() / 1e9;
    }
}
