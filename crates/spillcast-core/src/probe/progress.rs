//! The progress of a run, which another thread can read and cancel.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::clock;
use super::error::ProbeError;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Replayed or skipped steps.
    pub steps_done: u64,
    pub steps_total: u64,
    /// Bytes transferred by the steps, without prefilled ones.
    pub bytes: u64,
    /// Time since the first step; zero while the replay prepares.
    pub elapsed: Duration,
}

#[derive(Default)]
pub(super) struct Counters {
    steps: AtomicU64,
    bytes: AtomicU64,
    /// CLOCK_MONOTONIC; 0 before the start.
    started_ns: AtomicU64,
    stopped_ns: AtomicU64,
    cancelled: AtomicBool,
}

impl Counters {
    /// Ends the run before its next operation; a run that starts later ends at once.
    pub(super) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Fails with `Cancelled` once the run is cancelled.
    pub(super) fn check(&self) -> Result<(), ProbeError> {
        if self.is_cancelled() { Err(ProbeError::Cancelled) } else { Ok(()) }
    }

    /// Resets the counters; returns the time of the start.
    pub(super) fn start(&self) -> u64 {
        let now_ns = clock::now_ns();
        for (counter, value) in
            [(&self.steps, 0), (&self.bytes, 0), (&self.stopped_ns, 0), (&self.started_ns, now_ns)]
        {
            counter.store(value, Ordering::Relaxed);
        }
        now_ns
    }

    /// Ends the run; returns its duration in nanoseconds.
    pub(super) fn stop(&self) -> u64 {
        self.stopped_ns.store(clock::now_ns(), Ordering::Relaxed);
        self.elapsed_ns()
    }

    /// Counts one replayed step.
    pub(super) fn add(&self, bytes: u64) {
        self.steps.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn skip(&self, steps: u64) {
        self.steps.fetch_add(steps, Ordering::Relaxed);
    }

    pub(super) fn read(&self, steps_total: u64) -> Progress {
        Progress {
            steps_done: self.steps.load(Ordering::Relaxed),
            steps_total,
            bytes: self.bytes.load(Ordering::Relaxed),
            elapsed: Duration::from_nanos(self.elapsed_ns()),
        }
    }

    fn elapsed_ns(&self) -> u64 {
        let started_ns = self.started_ns.load(Ordering::Relaxed);
        let stopped_ns = self.stopped_ns.load(Ordering::Relaxed);
        match (started_ns, stopped_ns) {
            (0, _) => 0,
            (_, 0) => clock::now_ns().saturating_sub(started_ns),
            _ => stopped_ns.saturating_sub(started_ns),
        }
    }
}
