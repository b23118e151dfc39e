//! Errors of a probe: why it cannot start, or did not finish.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug)]
pub enum ProbeError {
    /// The plan has no steps.
    Empty,
    /// A step (from 0) that no replay can issue.
    BadStep {
        step: usize,
        fault: &'static str,
    },
    NotADirectory {
        dir: PathBuf,
    },
    NotWritable {
        dir: PathBuf,
        source: io::Error,
    },
    /// The byte budget has no room for the least that can be measured.
    BudgetTooSmall {
        budget_bytes: u64,
        least_bytes: u64,
    },
    /// The time budget ended before any operation of a cell counted.
    NoTime {
        budget: Duration,
    },
    /// The probe would not leave the file system its reserve.
    TooSmall {
        dir: PathBuf,
        filesystem: String,
        need_bytes: u64,
        free_bytes: u64,
        /// Of them, the reserve.
        kept_bytes: u64,
    },
    Io {
        doing: String,
        dir: PathBuf,
        filesystem: String,
        source: io::Error,
    },
    Cancelled,
}

impl fmt::Display for ProbeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProbeError::Empty => {
                f.write_str("the plan holds no temp I/O: record the query while it spills")
            }
            ProbeError::BadStep { step, fault } => {
                write!(f, "step {step} of the plan cannot be replayed: {fault}")
            }
            ProbeError::NotADirectory { dir } => {
                write!(f, "{} is not a directory: give one on the storage to probe", dir.display())
            }
            ProbeError::NotWritable { dir, source } => write!(
                f,
                "{} is not writable ({source}): give a directory this user may write to",
                dir.display()
            ),
            ProbeError::BudgetTooSmall { budget_bytes, least_bytes } => write!(
                f,
                "the byte budget is {}, and files need {} at least: give more, as in --budget 1G",
                size(*budget_bytes),
                size(*least_bytes)
            ),
            ProbeError::NoTime { budget } => {
                write!(
                    f,
                    "no cell was measured within {budget:?}: give more time, as in --budget 60s"
                )
            }
            ProbeError::TooSmall { dir, filesystem, need_bytes, free_bytes, kept_bytes } => write!(
                f,
                "the probe needs {} and leaves {} free, and {} ({filesystem}) has {} free: make room \
                 there or give a directory on a larger file system",
                size(*need_bytes),
                size(*kept_bytes),
                dir.display(),
                size(*free_bytes)
            ),
            ProbeError::Io { doing, dir, filesystem, source } => {
                write!(f, "{doing} in {} ({filesystem}): {source}", dir.display())
            }
            ProbeError::Cancelled => f.write_str("the probe was cancelled"),
        }
    }
}

/// A size in the largest unit of which it holds one: `16 MiB`, `1.5 GiB`.
fn size(bytes: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB"), (0, "B")];
    let (shift, unit) = units.into_iter().find(|(shift, _)| bytes >> shift > 0).unwrap_or(units[4]);
    let tenths = (bytes as f64 / (1u64 << shift) as f64 * 10.0).round() / 10.0;
    format!("{tenths} {unit}")
}

impl Error for ProbeError {}
