//! Precise sleep until a deadline, or until the end of the mount wakes all sleepers.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::futex::{Flags, Timespec, wait_bitset, wake_bitset};

use crate::system::now_ns;

const ANY: NonZeroU32 = NonZeroU32::MAX;

#[derive(Default)]
pub(crate) struct Sleep {
    /// Not 0 once `end` was called.
    over: AtomicU32,
}

impl Sleep {
    /// Sleeps until the CLOCK_MONOTONIC time `deadline_ns`; returns at once if it has passed.
    pub fn until(&self, deadline_ns: u64) {
        let deadline = Timespec {
            tv_sec: (deadline_ns / 1_000_000_000) as i64,
            tv_nsec: (deadline_ns % 1_000_000_000) as i64,
        };
        while now_ns() < deadline_ns && self.over.load(Ordering::Acquire) == 0 {
            // wait_bitset takes an absolute deadline, by default on CLOCK_MONOTONIC.
            let _ = wait_bitset(&self.over, Flags::PRIVATE, 0, Some(&deadline), ANY);
        }
    }

    /// Wakes all sleepers; later sleeps return at once.
    pub fn end(&self) {
        self.over.store(1, Ordering::Release);
        let _ = wake_bitset(&self.over, Flags::PRIVATE, i32::MAX as u32, ANY);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_sleeper_wakes_at_its_deadline_or_at_the_end() {
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
