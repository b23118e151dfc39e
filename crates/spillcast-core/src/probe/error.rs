//! Errors of a probe: why it cannot start, or could not finish.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

#[derive(Debug, Error)]
pub enum ProbeError {
    #[error("the plan holds no temp I/O: record the query while it spills")]
    Empty,
    /// Steps count from 0.
    #[error("step {step} of the plan cannot be replayed: {fault}")]
    BadStep { step: usize, fault: &'static str },
    #[error("{} is not a directory: give one on the storage to probe", .dir.display())]
    NotADirectory { dir: PathBuf },
    #[error("{} is not writable ({source}): give a directory this user may write to", .dir.display())]
    NotWritable { dir: PathBuf, source: io::Error },
    /// There is no room for the smallest possible measurement.
    #[error(
        "the byte budget is {}, and files need {} at least: give more, as in --budget 1G",
        size(*.budget_bytes), size(*.least_bytes)
    )]
    BudgetTooSmall { budget_bytes: u64, least_bytes: u64 },
    /// The probe ended before any operation of a cell counted.
    #[error("no cell was measured within {budget:?}: give more time, as in --budget 60s")]
    NoTime { budget: Duration },
    /// The probe leaves part of the free bytes to the file system.
    #[error(
        "the probe needs {} and leaves {} free, and {} ({filesystem}) has {} free: make room there \
         or give a directory on a larger file system",
        size(*.need_bytes), size(*.kept_bytes), .dir.display(), size(*.free_bytes)
    )]
    TooSmall { dir: PathBuf, filesystem: String, need_bytes: u64, free_bytes: u64, kept_bytes: u64 },
    #[error("{doing} in {} ({filesystem}): {source}", .dir.display())]
    Io { doing: String, dir: PathBuf, filesystem: String, source: io::Error },
    #[error("the probe was cancelled")]
    Cancelled,
}

/// A size in the largest unit that does not exceed it: `16 MiB`, `1.5 GiB`.
fn size(bytes: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB"), (0, "B")];
    let (shift, unit) = units.into_iter().find(|(shift, _)| bytes >> shift > 0).unwrap_or(units[4]);
    let tenths = (bytes as f64 / (1u64 << shift) as f64 * 10.0).round() / 10.0;
    format!("{tenths} {unit}")
}
