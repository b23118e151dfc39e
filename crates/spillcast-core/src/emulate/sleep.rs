//! Sleeping to the point, until all are woken because it is over.

use std::ptr::null;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::system::now_ns;

#[derive(Default)]
pub struct Sleep {
    /// Not 0 once nobody is to sleep any more.
    over: AtomicU32,
}

impl Sleep {
    /// Sleeps until the CLOCK_MONOTONIC time `deadline_ns`, and not at all where it has passed.
    pub fn until(&self, deadline_ns: u64) {
        let deadline = libc::timespec {
            tv_sec: (deadline_ns / 1_000_000_000) as libc::time_t,
            tv_nsec: (deadline_ns % 1_000_000_000) as libc::c_long,
        };
        while now_ns() < deadline_ns && self.over.load(Ordering::Acquire) == 0 {
            // Bits make the deadline absolute; CLOCK_MONOTONIC is the clock where none is named.
            self.futex(libc::FUTEX_WAIT_BITSET, 0, &deadline);
        }
    }

    /// Wakes all that sleep; nobody sleeps from now on.
    pub fn end(&self) {
        self.over.store(1, Ordering::Release);
        self.futex(libc::FUTEX_WAKE_BITSET, i32::MAX as u32, null());
    }

    fn futex(&self, operation: i32, value: u32, timeout: *const libc::timespec) {
        let operation = operation | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the word lives as long as `self`, and the timeout, if any, until this returns.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.over.as_ptr(),
                operation,
                value,
                timeout,
                null::<u32>(),
                libc::FUTEX_BITSET_MATCH_ANY,
            )
        };
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_sleeper_wakes_at_its_time_or_when_it_is_over() {
        let sleep = Sleep::default();
        let deadline_ns = now_ns() + 3_000_000;
        sleep.until(deadline_ns);
        assert!(now_ns() >= deadline_ns);
        let start = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| sleep.until(now_ns() + 600_000_000_000));
            }
            std::thread::sleep(Duration::from_millis(20));
            sleep.end();
        });
        assert!(start.elapsed() < Duration::from_secs(300));
        sleep.until(now_ns() + 600_000_000_000);
    }
}
