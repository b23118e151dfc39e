//! No more threads of a replay burn CPU at once than there are cores.
//!
//! Else a thread whose operation has ended would stand behind others that only spin.

use std::sync::{Condvar, Mutex};
use std::thread::available_parallelism;

/// How long a thread burns while others wait; Linux gives a few ms as well.
const QUANTUM_NS: u64 = 3_000_000;

pub(super) struct Cores {
    free: Mutex<usize>,
    any: Condvar,
}

impl Cores {
    /// None where all threads find one.
    pub(super) fn shared_by(threads: usize) -> Option<Cores> {
        let cores = available_parallelism().map_or(threads, usize::from);
        (threads > cores).then(|| Cores { free: Mutex::new(cores), any: Condvar::new() })
    }

    /// Burns in turns with the others: `burn` until a CPU time that it is given, from `since_ns` on.
    pub(super) fn burn(&self, since_ns: u64, until_ns: u64, mut burn: impl FnMut(u64)) {
        let mut from_ns = since_ns;
        while from_ns < until_ns {
            from_ns = (from_ns + QUANTUM_NS).min(until_ns);
            let mut free = self.free.lock().expect("no holder panics");
            while *free == 0 {
                free = self.any.wait(free).expect("no holder panics");
            }
            *free -= 1;
            drop(free);
            burn(from_ns);
            *self.free.lock().expect("no holder panics") += 1;
            self.any.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn as_many_burn_at_once_as_there_are_cores() {
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
