//! Threads and processes that start and end, and idle threads.

use std::collections::VecDeque;
use std::io;
use std::time::Instant;

use crate::account::{Account, Members, median_ns};
use crate::io::{Pace, a_few, create, fork, wait};
use crate::options::{Options, at_gate};

/// Maximum number of concurrent threads.
const AT_ONCE: usize = 32;
const STACK_BYTES: usize = 64 << 10;

/// Starts `count` threads that each read and write a little and end; returns how long a start
/// takes, from before the clone to the first instruction.
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

/// Forks `count` children in sequence that each read and write a little and end.
pub fn forked(options: &Options, account: &Account) -> io::Result<Members> {
    let file = create(&options.dir.join("forked.dat"))?;
    let mut pace = Pace::new(options);
    for worker in 0..options.count {
        pace.wait();
        wait(fork(|| a_few(&file, worker, account))?)?;
    }
    Ok(Members::new())
}

/// Holds `count` sleeping threads, including this one, until a line arrives on stdin.
pub fn idle(options: &Options, _account: &Account) -> io::Result<Members> {
    for _ in 1..options.count {
        let sleeper = std::thread::Builder::new().stack_size(STACK_BYTES);
        sleeper.spawn(|| {
            loop {
                std::thread::park();
            }
        })?;
    }
    at_gate()?;
    Ok(Members::new())
}
