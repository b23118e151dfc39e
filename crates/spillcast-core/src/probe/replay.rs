//! The replay itself: one thread for each recorded one, segment after segment.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use super::arena::{Arena, Slice};
use super::clock;
use super::error::ProbeError;
use super::file::ReplayFile;
use super::group::Access;
use super::outcome::{Outcome, Sample, Tally};
use super::pace::{Pace, Segment};
use super::scratch;
use super::{Probe, Step};
use crate::wait::Op;

struct Replay<'a> {
    probe: &'a Probe,
    /// By the number of the file in the steps. Dropping them frees their space.
    files: Vec<ReplayFile>,
    started_ns: u64,
    think_scale: f64,
    /// A thread met an error: the others end too.
    failed: AtomicBool,
    prefilled_bytes: AtomicU64,
}

/// What a replay thread takes from one segment to the next.
struct Lane<'a> {
    memory: Slice<'a>,
    previous_end_ns: u64,
}

pub(super) fn run(probe: &Probe) -> Result<Outcome, ProbeError> {
    let steps = &probe.steps;
    let pace = Pace::new(steps, probe.threads, probe.options.budget, probe.options.think);
    let files = create_files(probe)?;
    let seed =
        scratch::random().map_err(|error| probe.place.io_error("reading /dev/urandom", error))?;
    let largest_bytes = steps.iter().map(|step| step.bytes).max().unwrap_or(0);
    let mut arena = Arena::new(probe.threads, largest_bytes as usize, seed as u64);
    let floor_ns = clock::floor_ns();

    let started_ns = probe.counters.start();
    let replay = Replay {
        probe,
        files,
        started_ns,
        think_scale: pace.think_scale,
        failed: AtomicBool::new(false),
        prefilled_bytes: AtomicU64::new(0),
    };
    let mut lanes: Vec<Lane> = arena
        .slices(probe.threads)
        .map(|memory| Lane { memory, previous_end_ns: started_ns })
        .collect();
    let mut tally = Tally::default();
    let access = if probe.options.direct { Access::Direct } else { Access::Buffered };
    for segment in &pace.segments {
        let samples = replay.segment(segment, &mut lanes)?;
        if probe.is_cancelled() {
            return Err(ProbeError::Cancelled);
        }
        probe.counters.skip((segment.steps.len() - samples.len()) as u64);
        tally.add_segment(steps, samples);
    }
    Ok(Outcome {
        elapsed_ns: probe.counters.stop(),
        steps_replayed: tally.steps,
        steps_skipped: steps.len() as u64 - tally.steps,
        prefilled_bytes: replay.prefilled_bytes.into_inner(),
        threads: probe.threads as u32,
        in_flight: tally.in_flight(),
        groups: tally.into_groups(probe.threads as u32, access),
        working_set_bytes: probe.working_set_bytes,
        byte_share: probe.byte_share,
        filesystem: probe.place.filesystem.clone(),
        floor_ns,
    })
}

fn create_files(probe: &Probe) -> Result<Vec<ReplayFile>, ProbeError> {
    let count = probe.extents_bytes.len();
    let create = |(position, &extent_bytes): (usize, &u64)| {
        let dir = &probe.place.dir;
        ReplayFile::create(dir, probe.options.direct, extent_bytes).map_err(|error| {
            let hint = match error.raw_os_error() {
                Some(libc::EMFILE) => ": raise the limit of open files with `ulimit -n`",
                _ => "",
            };
            probe.place.io_error(format!("opening file {} of {count}{hint}", position + 1), error)
        })
    };
    probe.extents_bytes.iter().enumerate().map(create).collect()
}

impl Replay<'_> {
    /// Runs the steps of one segment; all its threads have ended when this returns.
    fn segment(&self, segment: &Segment, lanes: &mut [Lane]) -> Result<Vec<Sample>, ProbeError> {
        let deadline_ns = self.started_ns + segment.deadline_ns;
        let queues = self.queues(&segment.steps, lanes.len());
        thread::scope(|scope| {
            let work = queues.into_iter().zip(lanes).filter(|(queue, _)| !queue.is_empty());
            let mut threads = Vec::new();
            for (queue, lane) in work {
                let body = move || self.lane(&queue, lane, deadline_ns);
                let name = "spillcast-probe".to_owned();
                let spawned = thread::Builder::new().name(name).spawn_scoped(scope, body);
                threads.push(spawned.map_err(|error| {
                    self.failed.store(true, Ordering::Relaxed);
                    self.probe.place.io_error("starting a replay thread", error)
                })?);
            }
            let mut samples = Vec::with_capacity(segment.steps.len());
            let mut outcome = Ok(());
            for thread in threads {
                match thread.join().expect("a replay thread does not panic") {
                    Ok(part) => samples.extend(part),
                    Err(error) => outcome = outcome.and(Err(error)),
                }
            }
            outcome.map(|()| samples)
        })
    }

    /// The positions of each thread's steps, in their order.
    fn queues(&self, steps: &Range<usize>, threads: usize) -> Vec<Vec<usize>> {
        let mut queues = vec![Vec::new(); threads];
        for position in steps.clone() {
            queues[self.probe.steps[position].thread as usize].push(position);
        }
        queues
    }

    /// One thread's steps of one segment, one after the other until the deadline. The first is
    /// issued whatever the time, so that every phase of the plan is seen.
    fn lane(
        &self,
        queue: &[usize],
        lane: &mut Lane,
        deadline_ns: u64,
    ) -> Result<Vec<Sample>, ProbeError> {
        let stopped = || self.failed.load(Ordering::Relaxed) || self.probe.is_cancelled();
        let mut samples = Vec::with_capacity(queue.len());
        for &position in queue {
            let step = &self.probe.steps[position];
            let think_ns = (step.think_ns as f64 * self.think_scale) as u64;
            clock::pause(deadline_ns.min(lane.previous_end_ns + think_ns), stopped);
            let late = !samples.is_empty() && clock::now_ns() >= deadline_ns;
            if late || stopped() {
                break;
            }
            let sample = self.step(position, step, &mut lane.memory).map_err(|error| {
                self.failed.store(true, Ordering::Relaxed);
                let op = step.op.name().unwrap_or("wait");
                let (bytes, offset) = (step.bytes, step.offset);
                let doing = format!("step {position} ({op} of {bytes} bytes at offset {offset})");
                self.probe.place.io_error(doing, error)
            })?;
            lane.previous_end_ns = sample.start_ns + sample.elapsed_ns;
            self.probe.counters.add(u64::from(step.bytes));
            samples.push(sample);
        }
        Ok(samples)
    }

    /// Between the two readings of the clock there is the system call and nothing else.
    fn step(&self, position: usize, step: &Step, memory: &mut Slice) -> std::io::Result<Sample> {
        let file = &self.files[step.file as usize];
        let range = step.range();
        if step.op == Op::Read {
            let filled_bytes = file.fill_holes(range.clone(), memory.all())?;
            self.prefilled_bytes.fetch_add(filled_bytes, Ordering::Relaxed);
        }
        let buffer = memory.buffer(step.bytes as usize);
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
        Ok(Sample { step: position, start_ns, elapsed_ns: end_ns - start_ns })
    }
}
