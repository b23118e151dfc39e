//! Measures a directory with a replay of recorded temp I/O, or with a grid of cells without one.
//!
//! A replay issues the same operations at the same offsets of as many files, from as many threads,
//! in the order of the recording. Between them each thread works, pauses and waits for others as
//! recorded, with pauses scaled down if they would exceed half of the budget. I/O goes through the
//! page cache, as in engines. The files have no names, so nothing is left in the directory however
//! the process ends.

mod arena;
mod blocks;
mod change;
mod clock;
mod dependencies;
mod error;
mod file;
pub mod grid;
mod group;
mod outcome;
mod pace;
mod place;
mod plan;
mod progress;
mod recorded;
mod replay;
mod schedule;
mod scratch;

pub use scratch::prefix as scratch_prefix;

use std::path::PathBuf;
use std::time::Duration;

pub use crate::mounts::Mount;
pub use error::ProbeError;
pub use group::{Access, Group, Pattern};
pub use outcome::Outcome;
pub use place::{Filesystem, is_network, mounted};
pub use plan::Step;
pub(crate) use progress::Progress;
pub use recorded::{FromWaits, plan_of_moves, plan_of_waits};

use arena::Arena;
use place::Place;
use progress::Counters;

use crate::wait::Op;

/// Maximum number of repetitions of a disturbed replay.
const REPEATS_MAX: u32 = 2;

#[derive(Clone, Debug)]
pub struct Options {
    pub dir: PathBuf,
    /// Time for the replay, without its preparation. Each segment of the plan may exceed it by one
    /// step of each thread.
    pub budget: Duration,
    /// Maximum size of the files; None for all free space but a reserve. If the whole plan does not
    /// fit, a share of the regions of its files is replayed.
    pub budget_bytes: Option<u64>,
    /// Bypass the page cache, if the file system and the sizes in the plan allow it.
    pub direct: bool,
}

/// A replay of a plan on a directory. One thread runs it; others may watch and cancel it.
pub struct Probe {
    /// Threads and files are numbered from 0.
    steps: Vec<Step>,
    threads: usize,
    /// By file, the end of its reads and writes.
    extents_bytes: Vec<u64>,
    /// Number of distinct bytes that the whole plan touches.
    pub working_set_bytes: u64,
    /// Share of the working set that fits the byte budget; 1 for all.
    pub byte_share: f64,
    options: Options,
    place: Place,
    counters: Counters,
}

impl Probe {
    /// Checks the plan, the directory and its free space; writes nothing.
    ///
    /// Steps are in order of recorded start time. Their thread and file numbers may have gaps.
    pub fn new(mut steps: Vec<Step>, options: Options) -> Result<Probe, ProbeError> {
        plan::check(&steps)?;
        let place = Place::new(&options.dir)?;
        let files = plan::renumber(plan::on_files(&mut steps).map(|step| &mut step.file));
        let extents_bytes = plan::extents_bytes(&steps, files);
        let budget_bytes = options.budget_bytes.unwrap_or(u64::MAX);
        let (working_set_bytes, kept_bytes) = plan::fit(&mut steps, &extents_bytes, budget_bytes);
        if steps.is_empty() {
            let least_bytes = working_set_bytes.min(plan::REGION_BYTES);
            place.check_room(least_bytes)?;
            return Err(ProbeError::BudgetTooSmall { budget_bytes, least_bytes });
        }
        place.check_room(kept_bytes)?;
        // Renumbers the rest of the plan, from which some threads and files may have disappeared.
        let threads = plan::renumber(steps.iter_mut().map(|step| &mut step.thread));
        let files = plan::renumber(plan::on_files(&mut steps).map(|step| &mut step.file));
        let extents_bytes = plan::extents_bytes(&steps, files);
        Ok(Probe {
            steps,
            threads,
            extents_bytes,
            working_set_bytes,
            byte_share: kept_bytes as f64 / working_set_bytes as f64,
            options,
            place,
            counters: Counters::default(),
        })
    }

    /// Replays the plan; blocks until done, cancelled or failed. Nothing stays on the storage. A
    /// replay disturbed by other work on the machine is repeated while the budget has time for it;
    /// the least disturbed one counts.
    pub fn run(&self) -> Result<Outcome, ProbeError> {
        self.counters.check()?;
        let mut best = replay::run(self)?;
        let mut left = self.options.budget.saturating_sub(best.elapsed());
        let disturbed = |done: &Outcome| done.disturbance.disturbs(done.elapsed());
        while disturbed(&best) && best.elapsed() <= left && best.repeated < REPEATS_MAX {
            let again = replay::run(self)?;
            left = left.saturating_sub(again.elapsed());
            let repeated = best.repeated + 1;
            if again.disturbance.others_share() < best.disturbance.others_share() {
                best = again;
            }
            best.repeated = repeated;
        }
        Ok(best)
    }

    pub fn progress(&self) -> Progress {
        self.counters.read(self.operations())
    }

    /// Ends the run before its next operation; a run that starts later ends at once.
    pub fn cancel(&self) {
        self.counters.cancel();
    }

    /// The file system of the directory.
    pub fn filesystem(&self) -> &Filesystem {
        &self.place.filesystem
    }

    /// Memory used by a run: buffers, samples, and a stack for each thread.
    pub fn memory_bytes(&self) -> u64 {
        const SAMPLE_BYTES: usize = 64;
        const STACK_BYTES: usize = 64 << 10;
        let largest_bytes = self.steps.iter().map(|step| step.bytes).max().unwrap_or(0);
        let buffers_bytes = Arena::bytes(self.threads, largest_bytes as usize);
        let samples_bytes = self.steps.len() * SAMPLE_BYTES;
        (buffers_bytes + samples_bytes + self.threads * STACK_BYTES) as u64
    }

    /// Number of reads and writes in the plan.
    fn operations(&self) -> u64 {
        self.steps.iter().filter(|step| step.op != Op::Null).count() as u64
    }
}
