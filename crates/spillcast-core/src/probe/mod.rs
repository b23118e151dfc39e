//! Replay of recorded temp I/O on a directory: what it would wait for on that storage.
//!
//! The same operations go to the same offsets of as many files, from as many threads, in the
//! order of the recording. The files have no names, so nothing is left in the directory however
//! the process ends.

mod arena;
mod blocks;
mod clock;
mod error;
mod file;
mod filesystem;
mod outcome;
mod pace;
mod plan;
mod progress;
mod replay;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub use error::ProbeError;
pub use outcome::{Group, Outcome};
pub use plan::{Plan, Step};
pub use progress::Progress;

use file::ReplayFile;
use filesystem::Filesystem;
use progress::Counters;

const RESERVE_BYTES: u64 = 64 << 20;

#[derive(Clone, Debug)]
pub struct Options {
    pub dir: PathBuf,
    /// How long the replay may take, without its preparation. Each segment of the plan may go
    /// beyond by one step of each thread.
    pub budget: Duration,
    /// Keep the recorded gaps between a thread's operations, scaled down where they would take
    /// more than half of the budget.
    pub think: bool,
    /// O_DIRECT, which wants offsets and sizes in whole sectors.
    pub direct: bool,
}

impl Options {
    /// One minute, with gaps, buffered.
    pub fn new(dir: &Path) -> Options {
        let budget = Duration::from_secs(60);
        Options { dir: dir.to_owned(), budget, think: true, direct: false }
    }
}

/// A plan that may be replayed on a directory. One thread runs it; others may watch and cancel.
pub struct Probe {
    /// Threads and files are numbered from 0 here.
    steps: Vec<Step>,
    threads: usize,
    /// Of each file, the end of what is read or written of it.
    extents_bytes: Vec<u64>,
    options: Options,
    filesystem: String,
    counters: Counters,
    cancelled: AtomicBool,
}

impl Probe {
    /// Checks the plan, the directory and its free space; writes nothing.
    pub fn new(plan: Plan, options: Options) -> Result<Probe, ProbeError> {
        let mut steps = plan.steps;
        plan::check(&steps, options.direct)?;
        let threads = plan::renumber(steps.iter_mut().map(|step| &mut step.thread));
        let files = plan::renumber(steps.iter_mut().map(|step| &mut step.file));
        let mut extents_bytes = vec![0; files];
        for step in &steps {
            let extent_bytes: &mut u64 = &mut extents_bytes[step.file as usize];
            *extent_bytes = step.range().end.max(*extent_bytes);
        }
        let filesystem = check_directory(&options.dir)?;
        let probe = Probe {
            steps,
            threads,
            extents_bytes,
            options,
            filesystem: filesystem.name,
            counters: Counters::default(),
            cancelled: AtomicBool::new(false),
        };
        probe.check_writable()?;
        probe.check_space(filesystem.free_bytes)?;
        Ok(probe)
    }

    /// Replays the plan and blocks until it is done, cancelled or failed. Nothing stays on the
    /// storage.
    pub fn run(&self) -> Result<Outcome, ProbeError> {
        if self.is_cancelled() {
            return Err(ProbeError::Cancelled);
        }
        replay::run(self)
    }

    /// How far the run is.
    pub fn progress(&self) -> Progress {
        self.counters.read(self.steps.len() as u64)
    }

    /// Ends the run before its next operation; a run that begins later ends at once.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    fn check_writable(&self) -> Result<(), ProbeError> {
        let dir = &self.options.dir;
        match ReplayFile::create(dir, self.options.direct, 0) {
            Ok(_) => Ok(()),
            Err(source) if is_refusal(&source) => {
                Err(ProbeError::NotWritable { dir: dir.clone(), source })
            }
            Err(error) => Err(self.io_error("opening a file", error)),
        }
    }

    /// The file system keeps 64 MiB or 2 % of what is free, whichever is more.
    fn check_space(&self, free_bytes: Option<u64>) -> Result<(), ProbeError> {
        let Some(free_bytes) = free_bytes else { return Ok(()) };
        let need_bytes = plan::working_set_bytes(&self.steps, &self.extents_bytes);
        let reserve_bytes = RESERVE_BYTES.max(free_bytes / 50);
        if need_bytes > free_bytes.saturating_sub(reserve_bytes) {
            let (dir, filesystem) = (self.options.dir.clone(), self.filesystem.clone());
            return Err(ProbeError::TooSmall { dir, filesystem, need_bytes, free_bytes });
        }
        Ok(())
    }

    fn io_error(&self, doing: impl Into<String>, source: io::Error) -> ProbeError {
        let (dir, filesystem) = (self.options.dir.clone(), self.filesystem.clone());
        ProbeError::Io { doing: doing.into(), dir, filesystem, source }
    }
}

fn check_directory(dir: &Path) -> Result<Filesystem, ProbeError> {
    match fs::metadata(dir) {
        Ok(metadata) if metadata.is_dir() => {}
        Err(source) if is_refusal(&source) => {
            return Err(ProbeError::NotWritable { dir: dir.to_owned(), source });
        }
        _ => return Err(ProbeError::NotADirectory { dir: dir.to_owned() }),
    }
    Filesystem::of(dir).map_err(|source| ProbeError::Io {
        doing: "asking for the free space".to_owned(),
        dir: dir.to_owned(),
        filesystem: "unknown".to_owned(),
        source,
    })
}

fn is_refusal(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}
