//! Two threads on one CPU that pass a token, with a context switch each time.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use rustix::thread::futex::{self, Flags};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::account::{self, Account, Members};
use crate::io::{a_few, create};
use crate::options::Options;

/// `count` rounds of two hand-overs by futexes, which are not file I/O. A little file I/O comes
/// first, because a recording without any is not kept. An observer may add context switches.
pub fn switches(options: &Options, account: &Account) -> io::Result<Members> {
    // Open until the end, so that any observer learns its name.
    let file = create(&options.dir.join("switches.dat"))?;
    a_few(&file, 0, account)?;
    stay_on_one_cpu()?;
    let (token, count) = (AtomicU32::new(0), options.count);
    let before = account::switches();
    let begin = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| hand_over(&token, 1, count));
        hand_over(&token, 0, count);
    });
    let loop_s = begin.elapsed().as_secs_f64();
    Ok(vec![
        ("loop_s", loop_s.into()),
        ("handed_over", (2 * count).into()),
        ("switches", (account::switches() - before).into()),
    ])
}

fn hand_over(token: &AtomicU32, turn: u32, count: u64) {
    for _ in 0..count {
        while token.load(Ordering::Acquire) != turn {
            // A wait that ends early is repeated.
            let _ = futex::wait(token, Flags::PRIVATE, 1 - turn, None);
        }
        token.store(1 - turn, Ordering::Release);
        let _ = futex::wake(token, Flags::PRIVATE, 1);
    }
}

/// Threads that start later inherit the affinity.
fn stay_on_one_cpu() -> io::Result<()> {
    let allowed = sched_getaffinity(None)?;
    let mut cpus = CpuSet::new();
    cpus.set((0..CpuSet::MAX_CPU).find(|&cpu| allowed.is_set(cpu)).unwrap_or(0));
    Ok(sched_setaffinity(None, &cpus)?)
}
