//! The clock of the replay: reading it, waiting by it, and what reading it costs.

use std::hint;
use std::thread;
use std::time::Duration;

pub(super) use crate::system::{now_ns, thread_cpu_ns, wake_in_time};

/// Below this a sleep wakes too late to keep a gap, so the thread spins.
pub(super) const SPIN_NS: u64 = 100_000;
/// The longest a burning thread takes to notice that it should stop.
const BURN_MAX_NS: u64 = 1_000_000;
/// The longest a sleeping thread takes to notice that it should stop.
pub(super) const SLEEP_MAX_NS: u64 = 50_000_000;

/// Waits until `until_ns` or until `stopped` says so, the last `spin_ns` of it on the CPU.
pub(super) fn pause(until_ns: u64, spin_ns: u64, stopped: impl Fn() -> bool) {
    while !stopped() {
        let left_ns = until_ns.saturating_sub(now_ns());
        match left_ns {
            0 => return,
            left_ns if left_ns <= spin_ns => hint::spin_loop(),
            _ => thread::sleep(Duration::from_nanos((left_ns - spin_ns).min(SLEEP_MAX_NS))),
        }
    }
}

/// Burns CPU until this thread's CPU clock shows `until_cpu_ns` or until `stopped` says so.
pub(super) fn burn(until_cpu_ns: u64, stopped: impl Fn() -> bool) {
    while !stopped() {
        // Reading the CPU clock is a system call, the other is not and never runs slower.
        let left_ns = until_cpu_ns.saturating_sub(thread_cpu_ns()).min(BURN_MAX_NS);
        let until_ns = now_ns() + left_ns;
        while now_ns() < until_ns {
            hint::spin_loop();
        }
        if left_ns == 0 {
            return;
        }
    }
}

/// The latency the replay would report for an operation that takes no time: the median of two
/// readings of the clock in a row.
pub(super) fn floor_ns() -> u64 {
    let mut pairs: Vec<u64> = (0..1001)
        .map(|_| {
            let start_ns = now_ns();
            now_ns() - start_ns
        })
        .collect();
    pairs.sort_unstable();
    pairs[pairs.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_lasts_at_least_as_long_as_asked() {
        for gap_ns in [0, 1_000, 90_000, 150_000, 3_000_000] {
            let until_ns = now_ns() + gap_ns;
            pause(until_ns, SPIN_NS, || false);
            assert!(now_ns() >= until_ns);
        }
    }

    #[test]
    fn a_pause_ends_when_stopped() {
        pause(u64::MAX, SPIN_NS, || true);
        burn(u64::MAX, || true);
    }

    #[test]
    fn burning_takes_the_cpu_time_asked_for() {
        let (cpu_ns, start_ns) = (thread_cpu_ns(), now_ns());
        burn(cpu_ns + 3_000_000, || false);
        assert!(thread_cpu_ns() >= cpu_ns + 3_000_000);
        assert!(now_ns() >= start_ns + 2_900_000);
    }
}
