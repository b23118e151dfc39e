//! The replay: one thread for each recorded thread, which repeats its actions.
//!
//! It uses pread and pwrite, because an engine whose I/O can be recorded makes blocking calls, one
//! per thread. io_uring would queue, submit and complete the same I/O differently.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use spillcast_calls::CallKind;

use super::arena::{self, Arena, Slice};
use super::change;
use super::clock::{self, Cores};
use super::dependencies::{Dependencies, Signaller};
use super::error::ProbeError;
use super::file::ReplayFile;
use super::outcome::{Outcome, Sample, Tally};
use super::pace::{Done, Pace};
use super::plan;
use super::schedule::{Disturbance, Machine, OwnSchedule};
use super::scratch;
use super::{Probe, Step};
use crate::capture::run_queue::Scheduled;
use crate::histogram::Histogram;
use crate::wait::Op;

struct Replay<'a> {
    probe: &'a Probe,
    /// By file number in the steps. Dropping the files frees their space.
    files: Vec<ReplayFile>,
    started_ns: u64,
    pace: Pace,
    /// The indexes of each thread's steps, in order.
    queues: Vec<Vec<usize>>,
    dependencies: Dependencies,
    /// Whether threads burn CPU instead of only pausing; and the cores, if there are fewer than
    /// threads.
    burns: bool,
    cores: Option<Cores>,
    largest_bytes: usize,
    /// A thread has failed, so the others end too.
    failed: AtomicBool,
    prefilled_bytes: AtomicU64,
}

/// The state of a replay thread.
struct Worker<'a> {
    memory: Slice<'a>,
    schedule: OwnSchedule,
    signaller: Signaller<'a>,
    /// End of its last step, on the clock and on its CPU clock, the latter without `own_ns`.
    ended_ns: u64,
    ended_cpu_ns: u64,
    /// Its current segment, and what it has done in it.
    segment: usize,
    done: Done,
    samples: Vec<Sample>,
    changes: Vec<Change>,
    /// Its CPU time and run-queue delay, and the part of the delay within operations.
    scheduled: Scheduled,
    io_delay_ns: u64,
    /// Overhead of the replay in the last step: producing data to write, and reading the schedule.
    own_ns: u64,
}

/// A call that changed a file, and its duration in ns.
type Change = (CallKind, u64);

pub(super) fn run(probe: &Probe) -> Result<Outcome, ProbeError> {
    let steps = &probe.steps;
    let files = create_files(probe)?;
    let direct = probe.options.direct && go_direct(probe, &files)?;
    let seed = scratch::random()
        .map_err(|error| probe.place.io_error("asking for random numbers", error))?;
    let largest_bytes = steps.iter().map(|step| step.bytes).max().unwrap_or(0);
    let mut arena = Arena::new(probe.threads, largest_bytes as usize, seed as u64);
    let floor_ns = clock::floor_ns();
    let queues = queues(steps, probe.threads);
    let replay = Replay {
        probe,
        files,
        pace: Pace::new(steps, probe.threads, probe.options.budget),
        dependencies: Dependencies::new(steps, &queues),
        queues,
        burns: steps.iter().any(|step| step.cpu_ns > 0),
        cores: Cores::shared_by(probe.threads),
        largest_bytes: largest_bytes as usize,
        failed: AtomicBool::new(false),
        prefilled_bytes: AtomicU64::new(0),
        started_ns: probe.counters.start(),
    };
    let (mut samples, changes, disturbance) = replay.workers(arena.slices(probe.threads))?;
    let elapsed_ns = probe.counters.stop();
    probe.counters.check()?;
    let mut tally = Tally::default();
    tally.overlap(&mut samples);
    samples.sort_unstable_by_key(|sample| sample.step);
    let segment_of = |sample: &Sample| replay.pace.segment(sample.step);
    for samples in samples.chunk_by(|sample, next| segment_of(sample) == segment_of(next)) {
        tally.add_segment(steps, samples);
    }
    let does_io = |queue: &&Vec<usize>| queue.iter().any(|&at| steps[at].op != Op::Null);
    let io_threads = replay.queues.iter().filter(does_io).count() as u32;
    Ok(Outcome {
        elapsed_ns,
        steps_replayed: tally.steps,
        steps_skipped: probe.operations() - tally.steps,
        prefilled_bytes: replay.prefilled_bytes.into_inner(),
        think_scale: replay.pace.think_scale,
        threads: io_threads,
        in_flight: tally.in_flight(),
        groups: tally.into_groups(io_threads, direct),
        direct,
        changes: by_name(&changes),
        working_set_bytes: probe.working_set_bytes,
        byte_share: probe.byte_share,
        filesystem: probe.place.filesystem.clone(),
        floor_ns,
        disturbance,
        repeated: 0,
    })
}

fn queues(steps: &[Step], threads: usize) -> Vec<Vec<usize>> {
    let mut queues = vec![Vec::new(); threads];
    for (position, step) in steps.iter().enumerate() {
        queues[step.thread as usize].push(position);
    }
    queues
}

fn by_name(changes: &[Change]) -> BTreeMap<&'static str, Histogram> {
    let mut histograms: BTreeMap<&'static str, Histogram> = BTreeMap::new();
    for &(kind, elapsed_ns) in changes {
        histograms.entry(kind.name()).or_default().record(elapsed_ns);
    }
    histograms
}

fn create_files(probe: &Probe) -> Result<Vec<ReplayFile>, ProbeError> {
    let count = probe.extents_bytes.len();
    let touched_bytes = plan::touched_bytes(&probe.steps, &probe.extents_bytes);
    let create = |(position, &extent_bytes): (usize, &u64)| {
        let dir = &probe.place.dir;
        ReplayFile::create(dir, extent_bytes, touched_bytes[position]).map_err(|error| {
            let hint = match error.raw_os_error() {
                Some(libc::EMFILE) => ": raise the limit of open files with `ulimit -n`",
                _ => "",
            };
            probe.place.io_error(format!("opening file {} of {count}{hint}", position + 1), error)
        })
    };
    probe.extents_bytes.iter().enumerate().map(create).collect()
}

/// Sets O_DIRECT on all files. Returns false if a step is not aligned to sectors or the file system
/// does not support it; I/O then goes through the page cache.
fn go_direct(probe: &Probe, files: &[ReplayFile]) -> Result<bool, ProbeError> {
    const SECTOR_BYTES: u64 = 512;
    let aligned = |step: &Step| (step.offset | u64::from(step.bytes)).is_multiple_of(SECTOR_BYTES);
    if !probe.steps.iter().all(aligned) {
        return Ok(false);
    }
    for file in files {
        match scratch::set_direct(&file.alone(), true) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => return Ok(false),
            done => done.map_err(|error| probe.place.io_error("setting O_DIRECT", error))?,
        }
    }
    Ok(true)
}

impl Replay<'_> {
    /// Runs all threads to completion; returns their measurements.
    fn workers<'m>(
        &self,
        memory: impl Iterator<Item = Slice<'m>>,
    ) -> Result<(Vec<Sample>, Vec<Change>, Disturbance), ProbeError> {
        let machine = Machine::begin();
        thread::scope(|scope| {
            let mut threads = Vec::new();
            for (number, memory) in memory.enumerate() {
                let name = "spillcast-probe".to_owned();
                let body = move || self.worker(number, memory);
                let spawned = thread::Builder::new().name(name).spawn_scoped(scope, body);
                threads.push(spawned.map_err(|error| {
                    self.failed.store(true, Ordering::Relaxed);
                    self.probe.place.io_error("starting a replay thread", error)
                })?);
            }
            let (mut samples, mut changes) = (Vec::new(), Vec::new());
            let (mut scheduled, mut io_delay_ns) = (Scheduled::default(), 0);
            let mut outcome = Ok(());
            for thread in threads {
                match thread.join().expect("a replay thread does not panic") {
                    Ok(worker) => {
                        samples.extend(worker.samples);
                        changes.extend(worker.changes);
                        scheduled.cpu_ns += worker.scheduled.cpu_ns;
                        scheduled.delay_ns += worker.scheduled.delay_ns;
                        io_delay_ns += worker.io_delay_ns;
                    }
                    Err(error) => outcome = outcome.and(Err(error)),
                }
            }
            outcome.map(|()| (samples, changes, machine.end(scheduled, io_delay_ns)))
        })
    }

    /// Runs one thread's steps in order. In each segment it issues the first read and the first
    /// write regardless of time, so that every phase of the plan is measured, and the others until
    /// the deadline. No thread waits for a skipped step.
    fn worker<'m>(&'m self, number: usize, memory: Slice<'m>) -> Result<Worker<'m>, ProbeError> {
        clock::wake_in_time();
        let mut worker = Worker {
            memory,
            schedule: OwnSchedule::open(),
            signaller: self.dependencies.signaller(number),
            ended_ns: self.started_ns,
            ended_cpu_ns: clock::thread_cpu_ns(),
            segment: 0,
            done: Done::default(),
            samples: Vec::with_capacity(self.queues[number].len()),
            changes: Vec::new(),
            scheduled: Scheduled::default(),
            io_delay_ns: 0,
            own_ns: 0,
        };
        for &position in &self.queues[number] {
            if self.stopped() {
                break;
            }
            let outcome = self.act(position, &mut worker);
            worker.signaller.end(position);
            outcome?;
        }
        worker.scheduled = worker.schedule.read();
        Ok(worker)
    }

    fn act(&self, position: usize, worker: &mut Worker) -> Result<(), ProbeError> {
        let step = &self.probe.steps[position];
        let segment = self.pace.segment(position);
        let deadline_ns = self.started_ns + self.pace.segments[segment].deadline_ns;
        if worker.segment != segment {
            worker.segment = segment;
            worker.done = worker.done.next();
        }
        self.prepare(position, worker, deadline_ns);
        let shares_ns = self.pace.segments[segment].shares_ns;
        let in_time = clock::now_ns() < deadline_ns && worker.done.has_time_for(step.op, shares_ns);
        let acts = step.acts() && (in_time || worker.done.is_first(step.op));
        worker.done.left_out |= step.acts() && !acts;
        worker.own_ns = 0;
        if !acts || self.stopped() {
            self.probe.counters.skip(u64::from(step.op != Op::Null));
            worker.ended_ns = clock::now_ns();
        } else if let Some(kind) = step.change {
            let (file, dir) = (&self.files[step.file as usize], &self.probe.place.dir);
            let bytes = self.probe.extents_bytes[step.file as usize].saturating_sub(step.offset);
            let elapsed_ns = change::make(kind, file, dir, (step.offset, bytes))
                .map_err(|error| self.step_error(position, error))?;
            worker.ended_ns = clock::now_ns();
            worker.changes.push((kind, elapsed_ns));
        } else {
            let sample =
                self.step(position, worker).map_err(|error| self.step_error(position, error))?;
            worker.done.add(step.op, sample.elapsed_ns);
            self.probe.counters.add(u64::from(step.bytes));
            worker.samples.push(sample);
        }
        if self.burns {
            worker.ended_cpu_ns = clock::thread_cpu_ns().saturating_sub(worker.own_ns);
        }
        Ok(())
    }

    /// Ends the replay with an error.
    fn step_error(&self, position: usize, error: std::io::Error) -> ProbeError {
        self.failed.store(true, Ordering::Relaxed);
        let Step { op, change, bytes, offset, .. } = self.probe.steps[position];
        let operation = op.name().or(change.map(CallKind::name)).unwrap_or("wait");
        let doing = format!("step {position} ({operation} of {bytes} bytes at offset {offset})");
        self.probe.place.io_error(doing, error)
    }

    /// Runs what precedes the operation of a step: work, the wait for another thread, a pause.
    fn prepare(&self, position: usize, worker: &mut Worker, deadline_ns: u64) {
        let step = &self.probe.steps[position];
        let scaled = |ns: u64| (ns as f64 * self.pace.think_scale) as u64;
        let over = || self.stopped() || clock::now_ns() >= deadline_ns;
        let ended_cpu_ns = worker.ended_cpu_ns;
        let burn = |cpu_ns| {
            let until_ns = ended_cpu_ns + scaled(cpu_ns);
            match &self.cores {
                Some(cores) => cores.burn(clock::thread_cpu_ns(), until_ns, |until_ns| {
                    clock::burn(until_ns, over);
                }),
                None => clock::burn(until_ns, over),
            }
        };
        while let Some(cpu_ns) = worker.signaller.next_cpu_ns(position) {
            burn(cpu_ns);
            worker.signaller.signal();
        }
        let mut since_ns = worker.ended_ns;
        if step.cpu_ns > 0 {
            burn(step.cpu_ns);
            since_ns = clock::now_ns();
        }
        if step.after.is_some() {
            self.dependencies.wait(position, deadline_ns, over);
            since_ns = clock::now_ns();
        }
        let until_ns = deadline_ns.min(since_ns + scaled(step.delay_ns));
        // A thread that works beside others must not take their CPU while it waits.
        let spin_ns = if self.burns { 0 } else { clock::SPIN_NS };
        clock::pause(until_ns, spin_ns, || self.stopped());
    }

    fn stopped(&self) -> bool {
        self.failed.load(Ordering::Relaxed) || self.probe.counters.is_cancelled()
    }

    /// Only the system call is between the two readings of the clock. The time in which the thread
    /// was runnable without a CPU is subtracted, because the storage did not cause it.
    fn step(&self, position: usize, worker: &mut Worker) -> std::io::Result<Sample> {
        let step = &self.probe.steps[position];
        let file = self.files[step.file as usize].open();
        let range = step.range();
        if step.op == Op::Read {
            let filled_bytes = file.fill_holes(range.clone(), worker.memory.all())?;
            self.prefilled_bytes.fetch_add(filled_bytes, Ordering::Relaxed);
        }
        let begun_ns = clock::now_ns();
        let buffer = worker.memory.of_file(step.file, step.bytes as usize, self.largest_bytes);
        if step.op == Op::Write {
            arena::change(buffer, position as u64);
        }
        let before_ns = clock::now_ns();
        let before = worker.schedule.read();
        let (start_ns, end_ns);
        if step.op == Op::Read {
            start_ns = clock::now_ns();
            file.read(buffer, step.offset)?;
            end_ns = clock::now_ns();
        } else {
            start_ns = clock::now_ns();
            file.write(buffer, step.offset)?;
            end_ns = clock::now_ns();
            file.mark_written(range);
        }
        let delay_ns = worker.schedule.read().delay_ns.saturating_sub(before.delay_ns);
        let (after_ns, call_ns) = (clock::now_ns(), end_ns - start_ns);
        let delay_ns = delay_within(call_ns, after_ns - before_ns - call_ns, delay_ns);
        worker.io_delay_ns += delay_ns;
        worker.ended_ns = end_ns;
        worker.own_ns = after_ns - begun_ns - call_ns;
        Ok(Sample { step: position, start_ns, elapsed_ns: call_ns - delay_ns })
    }
}

/// Two readings of the schedule take less, unless the thread is preempted between them.
const PREEMPTED_NS: u64 = 20_000;

/// The time for which a thread was runnable without a CPU within a call of `call_ns`, given the
/// delay between two readings of its schedule, which themselves took `readings_ns`. A thread that
/// was preempted during the readings was not delayed in the call.
fn delay_within(call_ns: u64, readings_ns: u64, delay_ns: u64) -> u64 {
    let outside_ns = if readings_ns > PREEMPTED_NS { readings_ns } else { 0 };
    delay_ns.saturating_sub(outside_ns).min(call_ns)
}

#[cfg(test)]
mod tests {
    use super::delay_within;

    #[test]
    fn a_delay_outside_the_call_is_not_part_of_it() {
        // A write of 30 us after 4 ms in which another thread was scheduled.
        assert_eq!(delay_within(30_000, 4_003_000, 4_000_000), 0);
        // The same 4 ms within the call.
        assert_eq!(delay_within(4_030_000, 3_000, 4_000_000), 4_000_000);
        // Half of them within the call, half outside.
        assert_eq!(delay_within(2_030_000, 2_000_000, 4_000_000), 2_000_000);
    }
}
