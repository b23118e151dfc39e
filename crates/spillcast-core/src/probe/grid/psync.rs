//! An engine of blocking calls: one thread per operation in flight.

use std::os::unix::fs::FileExt;
use std::sync::RwLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::cell::{Slice, SliceError};
use crate::histogram::Histogram;
use crate::probe::arena::{self, Arena};
use crate::probe::clock;
use crate::probe::group::Running;
use crate::wait::Op;

/// The number of an operation that no slice reaches.
const ENDED: u64 = u64::MAX / 2;

/// Runs a slice; its threads have ended on return.
pub(super) fn run(
    slice: &Slice,
    arena: &mut Arena,
    running: &mut Running,
) -> Result<(), SliceError> {
    let next = AtomicU64::new(0);
    // Held until all threads exist, so that they start together.
    let gate = RwLock::new(());
    thread::scope(|scope| {
        let closed = gate.write();
        let mut threads = Vec::new();
        let mut outcome = Ok(());
        for memory in arena.slices(slice.cell.depth as usize) {
            let body = || {
                drop(gate.read());
                worker(slice, &next, memory)
            };
            let name = "spillcast-probe".to_owned();
            match thread::Builder::new().name(name).spawn_scoped(scope, body) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    next.store(ENDED, Ordering::Relaxed);
                    let doing = "starting a thread".to_owned();
                    outcome = Err(SliceError { doing, source: error });
                    break;
                }
            }
        }
        drop(closed);
        let (mut first_ns, mut last_ns) = (u64::MAX, 0);
        for thread in threads {
            match thread.join().expect("a probing thread does not panic") {
                Ok(worker) => {
                    running.merge(&worker.histogram, slice.cell.bytes.into());
                    first_ns = first_ns.min(worker.first_ns);
                    last_ns = last_ns.max(worker.last_ns);
                }
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        // When the last operation started, `depth` were in flight and all that count had ended.
        running.pass(last_ns.saturating_sub(first_ns));
        outcome
    })
}

/// The measurements of one thread.
struct Worker {
    histogram: Histogram,
    /// Start of the thread's first operation and of its last.
    first_ns: u64,
    last_ns: u64,
}

/// The operations of one thread, which always takes the next one of the slice.
fn worker(slice: &Slice, next: &AtomicU64, mut memory: arena::Slice) -> Result<Worker, SliceError> {
    let mut worker = Worker { histogram: Histogram::default(), first_ns: u64::MAX, last_ns: 0 };
    loop {
        let operation = next.fetch_add(1, Ordering::Relaxed);
        let buffer = memory.buffer(slice.cell.bytes as usize);
        let offset = slice.offsets.at(operation);
        let start_ns = clock::now_ns();
        if !slice.goes_on(operation, start_ns) {
            return Ok(worker);
        }
        worker.first_ns = worker.first_ns.min(start_ns);
        worker.last_ns = start_ns;
        let done = match slice.cell.op {
            Op::Write => slice.file.write_all_at(buffer, offset),
            _ => slice.file.read_exact_at(buffer, offset),
        };
        let elapsed_ns = clock::now_ns() - start_ns;
        if let Err(error) = done {
            next.store(ENDED, Ordering::Relaxed);
            return Err(SliceError::new(&slice.cell, offset, error));
        }
        if slice.counts(operation) {
            worker.histogram.record(elapsed_ns);
        }
    }
}
