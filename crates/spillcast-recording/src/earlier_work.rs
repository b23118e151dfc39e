//! What a process did before its recording began.

use serde::Serialize;
use spillcast_core::proc::{Stat, age_s, family, moved};

/// Sums of a process and its descendants up to the start of the recording.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct EarlierWork {
    /// Time since its start.
    pub ran_s: f64,
    pub cpu_s: f64,
    /// Bytes read and written on all files; None if that may not be read.
    pub bytes: Option<u64>,
    pub written_bytes: Option<u64>,
}

impl EarlierWork {
    /// The sums up to now; None if the process has ended.
    pub fn of(pid: i32) -> Option<EarlierWork> {
        let ran_s = age_s(pid, "")?;
        let (mut cpu_ns, mut sums) = (0, Some((0, 0)));
        for member in family(pid) {
            let Some(stat) = Stat::of(member) else { continue };
            cpu_ns += stat.cpu_ns;
            sums = sums
                .zip(moved(member))
                .map(|(sum, more)| (sum.0 + more.read_bytes, sum.1 + more.written_bytes));
        }
        Some(EarlierWork {
            ran_s,
            cpu_s: cpu_ns as f64 / 1e9,
            bytes: sums.map(|(read, written)| read + written),
            written_bytes: sums.map(|(_, written)| written),
        })
    }
}
