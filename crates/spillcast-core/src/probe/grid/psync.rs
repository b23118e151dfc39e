//! An engine of blocking calls: as many threads as operations are under way.

use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::cell::{Slice, SliceError};
use crate::histogram::Histogram;
use crate::probe::arena::{self, Arena};
use crate::probe::clock;
use crate::probe::group::Running;
use crate::wait::Op;

/// Runs a slice; its threads have ended when this returns.
pub(super) fn run(
    slice: &Slice,
    arena: &mut Arena,
    running: &mut Running,
) -> Result<(), SliceError> {
    let next = AtomicU64::new(0);
    thread::scope(|scope| {
        let mut threads = Vec::new();
        let mut outcome = Ok(());
        for memory in arena.slices(slice.cell.depth as usize) {
            let body = || lane(slice, &next, memory);
            let name = "spillcast-probe".to_owned();
            match thread::Builder::new().name(name).spawn_scoped(scope, body) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    next.store(u64::MAX / 2, Ordering::Relaxed);
                    outcome = Err(SliceError::doing("starting a thread", error));
                    break;
                }
            }
        }
        for thread in threads {
            match thread.join().expect("a probing thread does not panic") {
                Ok(histogram) => running.merge(&histogram, slice.cell.bytes.into()),
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        outcome
    })
}

/// One thread's operations, the next of all each time.
fn lane(
    slice: &Slice,
    next: &AtomicU64,
    mut memory: arena::Slice,
) -> Result<Histogram, SliceError> {
    let mut histogram = Histogram::default();
    loop {
        let operation = next.fetch_add(1, Ordering::Relaxed);
        let buffer = memory.buffer(slice.cell.bytes as usize);
        let offset = slice.offsets.at(operation);
        let start_ns = clock::now_ns();
        if !slice.goes_on(operation, start_ns) {
            return Ok(histogram);
        }
        let done = match slice.cell.op {
            Op::Write => slice.file.write_all_at(buffer, offset),
            _ => slice.file.read_exact_at(buffer, offset),
        };
        let elapsed_ns = clock::now_ns() - start_ns;
        if let Err(error) = done {
            // The others end too.
            next.store(u64::MAX / 2, Ordering::Relaxed);
            return Err(SliceError::new(&slice.cell, offset, error));
        }
        if slice.counts(operation) {
            histogram.record(elapsed_ns);
        }
    }
}
