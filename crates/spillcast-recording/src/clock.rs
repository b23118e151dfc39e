//! The clock of a recording: times count from its start, and move to the run's start when it ends.
//!
//! A recorder often starts before the query: a session is attached while it is idle, an experiment
//! waits at a gate. Only the end of a recording knows when the run began. All rows move once, before
//! anybody reads them, so readers know a single clock.

use spillcast_core::capture::Second;
use spillcast_core::wait::Wait;

const S_NS: i64 = 1_000_000_000;

/// A wait by a clock that begins at `zero_ns`; None where it ended before.
///
/// One that began before keeps its part after it, and no CPU time before it.
pub fn moved(mut wait: Wait, zero_ns: i64) -> Option<Wait> {
    if zero_ns == 0 {
        return Some(wait);
    }
    let end_ns = wait.start_ns + wait.elapsed_ns;
    if wait.start_ns < zero_ns {
        if end_ns <= zero_ns {
            return None;
        }
        (wait.start_ns, wait.elapsed_ns) = (zero_ns, end_ns - zero_ns);
        wait.cpu_before_ns = Some(0);
    }
    wait.start_ns -= zero_ns;
    wait.cpu_before_ns = wait.cpu_before_ns.map(|ns| ns.min(wait.start_ns));
    Some(wait)
}

/// A per-second row, moved by whole seconds: the first one may hold some of before zero.
pub fn moved_second(mut row: Second, zero_ns: i64) -> Option<Second> {
    row.second -= zero_ns.div_euclid(S_NS);
    (row.second >= 0 || zero_ns == 0).then_some(row)
}
