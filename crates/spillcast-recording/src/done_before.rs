//! What a process had done before its recording began.

use serde::Serialize;
use spillcast_core::proc::{Stat, age_s, family, moved};

/// What a process and those that it started had done when its recording began.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct DoneBefore {
    /// Since its start.
    pub ran_s: f64,
    pub cpu_s: f64,
    /// Bytes read and written of any file; None where that may not be seen.
    pub bytes: Option<u64>,
    pub written_bytes: Option<u64>,
}

impl DoneBefore {
    /// Until now; None where the process has ended.
    pub fn of(pid: i32) -> Option<DoneBefore> {
        let ran_s = age_s(pid, "")?;
        let (mut cpu_ns, mut sums) = (0, Some((0, 0)));
        for member in family(pid) {
            let Some(stat) = Stat::of(member) else { continue };
            cpu_ns += stat.cpu_ns;
            sums = sums
                .zip(moved(member))
                .map(|(sum, more)| (sum.0 + more.read_bytes, sum.1 + more.written_bytes));
        }
        Some(DoneBefore {
            ran_s,
            cpu_s: cpu_ns as f64 / 1e9,
            bytes: sums.map(|(read, written)| read + written),
            written_bytes: sums.map(|(_, written)| written),
        })
    }
}
