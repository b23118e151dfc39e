//! The clock of the replay: reading it, waiting and burning CPU by it, and the cost of reading it.

use std::hint;
use std::sync::{Condvar, Mutex};
use std::thread::{self, available_parallelism};
use std::time::Duration;

use crate::lock::lock;

pub(super) use crate::system::{now_ns, thread_cpu_ns, wake_in_time};

/// Shorter sleeps wake too late to keep a gap, so the thread spins.
pub(super) const SPIN_NS: u64 = 100_000;
/// The longest time until a burning thread notices that it should stop.
const BURN_MAX_NS: u64 = 1_000_000;
/// The longest time until a sleeping thread notices that it should stop.
pub(super) const SLEEP_MAX_NS: u64 = 50_000_000;

/// Waits until `until_ns` or until `stopped` returns true, for the last `spin_ns` on the CPU.
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

/// Burns CPU until this thread's CPU clock shows `until_cpu_ns` or until `stopped` returns true.
pub(super) fn burn(until_cpu_ns: u64, stopped: impl Fn() -> bool) {
    while !stopped() {
        // Reading the CPU clock is a system call; the other clock needs none and runs no slower.
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

/// The latency that the replay would report for an operation that takes no time: the median
/// difference of two consecutive readings of the clock.
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

/// How long a thread burns while others wait; a few ms, as on Linux.
const QUANTUM_NS: u64 = 3_000_000;

/// Limits the threads of a replay that burn CPU at a time to the number of cores: otherwise a
/// thread whose operation has ended would queue behind threads that only spin.
pub(super) struct Cores {
    free: Mutex<usize>,
    any: Condvar,
}

impl Cores {
    /// None if there is a core for every thread.
    pub(super) fn shared_by(threads: usize) -> Option<Cores> {
        let cores = available_parallelism().map_or(threads, usize::from);
        (threads > cores).then(|| Cores { free: Mutex::new(cores), any: Condvar::new() })
    }

    /// Burns CPU in turns with other threads: calls `burn` with a CPU time to burn up to, starting
    /// at `since_ns`.
    pub(super) fn burn(&self, since_ns: u64, until_ns: u64, mut burn: impl FnMut(u64)) {
        let mut from_ns = since_ns;
        while from_ns < until_ns {
            from_ns = (from_ns + QUANTUM_NS).min(until_ns);
            let mut free = lock(&self.free);
            while *free == 0 {
                free = self.any.wait(free).expect("no holder panics");
            }
            *free -= 1;
            drop(free);
            burn(from_ns);
            *lock(&self.free) += 1;
            self.any.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_pause_lasts_at_least_the_requested_time() {
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
    fn burning_takes_the_requested_cpu_time() {
        let (cpu_ns, start_ns) = (thread_cpu_ns(), now_ns());
        burn(cpu_ns + 3_000_000, || false);
        assert!(thread_cpu_ns() >= cpu_ns + 3_000_000);
        assert!(now_ns() >= start_ns + 2_900_000);
    }

    #[test]
    fn only_as_many_threads_burn_at_once_as_there_are_cores() {
        let cores = Cores { free: Mutex::new(2), any: Condvar::new() };
        let (now, most, turns) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..5 {
                scope.spawn(|| {
                    cores.burn(7, 7 + 4 * QUANTUM_NS, |_| {
                        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        std::thread::sleep(std::time::Duration::from_millis(1));
                        now.fetch_sub(1, Ordering::SeqCst);
                        turns.fetch_add(1, Ordering::SeqCst);
                    });
                });
            }
        });
        assert_eq!((most.into_inner(), turns.into_inner()), (2, 20));
    }
}
