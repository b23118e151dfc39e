//! Threads and processes that come and go, and threads that are there and do nothing.

use std::collections::VecDeque;
use std::io;
use std::time::Instant;

use rustix::process::{Pid, WaitOptions, waitpid};

use crate::Members;
use crate::account::{Account, median_ns};
use crate::io::{Pace, a_few, create};
use crate::options::Options;

/// How many threads may be at work at a time.
const AT_ONCE: usize = 32;
const STACK_BYTES: usize = 64 << 10;

/// Starts `count` threads that each read and write a little and end; tells how long a start takes,
/// from before the clone to the first instruction.
pub fn threads(options: &Options, account: &Account) -> io::Result<Members> {
    let file = create(&options.dir.join("threads.dat"))?;
    let mut pace = Pace::new(options);
    let mut starts_ns = Vec::new();
    std::thread::scope(|scope| {
        let mut running = VecDeque::new();
        for worker in 0..options.count {
            pace.wait();
            let (file, before) = (&file, Instant::now());
            running.push_back(scope.spawn(move || {
                let start_ns = before.elapsed().as_nanos() as u64;
                a_few(file, worker, account).map(|()| start_ns)
            }));
            if running.len() >= AT_ONCE || worker + 1 == options.count {
                let ended = if worker + 1 == options.count { running.len() } else { 1 };
                for thread in running.drain(..ended) {
                    starts_ns.push(thread.join().expect("no thread panics")?);
                }
            }
        }
        io::Result::Ok(())
    })?;
    let start_max_ns = starts_ns.iter().max().copied().unwrap_or(0);
    Ok(vec![
        ("start_median_ns", median_ns(&mut starts_ns).into()),
        ("start_max_ns", start_max_ns.into()),
    ])
}

/// Forks `count` children, one after the other, that each read and write a little and end.
pub fn forked(options: &Options, account: &Account) -> io::Result<Members> {
    let file = create(&options.dir.join("forked.dat"))?;
    let mut pace = Pace::new(options);
    for worker in 0..options.count {
        pace.wait();
        wait(fork(|| a_few(&file, worker, account))?)?;
    }
    Ok(Members::new())
}

/// Holds `count` threads that sleep, this one included, until a line comes in on stdin.
pub fn idle(options: &Options, _account: &Account) -> io::Result<Members> {
    for _ in 1..options.count {
        let sleeper = std::thread::Builder::new().stack_size(STACK_BYTES);
        sleeper.spawn(|| {
            loop {
                std::thread::park();
            }
        })?;
    }
    crate::at_gate()?;
    Ok(Members::new())
}

/// Runs `work` in a child, which ends with it; its process id.
pub fn fork(work: impl FnOnce() -> io::Result<()>) -> io::Result<i32> {
    // SAFETY: no other thread runs here when a child is made, so no lock is held that it needs.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let status = i32::from(work().is_err());
            // SAFETY: ends the child without what the parent has yet to write.
            unsafe { libc::_exit(status) }
        }
        child => Ok(child),
    }
}

/// Waits for a child, which must have succeeded.
pub fn wait(child: i32) -> io::Result<()> {
    match waitpid(Pid::from_raw(child), WaitOptions::empty())? {
        Some((_, status)) if status.exit_status() == Some(0) => Ok(()),
        _ => Err(io::Error::other("a child failed")),
    }
}
