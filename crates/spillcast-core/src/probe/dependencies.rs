//! Steps that wait for another thread to reach a point, and the signals between them.

use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::futex::{self, Flags, Timespec};

use super::Step;
use super::clock::{SLEEP_MAX_NS, now_ns};

/// The signal is sent at the end of the step, not within its CPU time.
const AT_STEP_END: u64 = u64::MAX;

pub(super) struct Dependencies {
    /// By step, 1 once it no longer needs to wait.
    released: Vec<AtomicU32>,
    /// By thread, in the order of its steps.
    signals: Vec<Vec<Signal>>,
}

/// A signal from one thread to another at one point of a step.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Signal {
    step: usize,
    /// CPU time that the thread has burned in the step.
    cpu_ns: u64,
    waiter: usize,
}

impl Dependencies {
    /// `queues` has the indexes of each thread's steps.
    pub(super) fn new(steps: &[Step], queues: &[Vec<usize>]) -> Dependencies {
        let mut following = vec![None; steps.len()];
        for pair in queues.iter().flat_map(|queue| queue.windows(2)) {
            following[pair[0]] = Some(pair[1]);
        }
        let mut signals = vec![Vec::new(); queues.len()];
        for (waiter, step) in steps.iter().enumerate() {
            let Some(after) = step.after.map(|after| after as usize) else { continue };
            signals[steps[after].thread as usize].push(match following[after] {
                Some(next) if step.after_cpu_ns > 0 => {
                    let cpu_ns = step.after_cpu_ns.min(steps[next].cpu_ns);
                    Signal { step: next, cpu_ns, waiter }
                }
                _ => Signal { step: after, cpu_ns: AT_STEP_END, waiter },
            });
        }
        signals.iter_mut().for_each(|signals| signals.sort_unstable());
        Dependencies { released: steps.iter().map(|_| AtomicU32::new(0)).collect(), signals }
    }

    /// The signals that a thread has to send.
    pub(super) fn signaller(&self, thread: usize) -> Signaller<'_> {
        Signaller { dependencies: self, left: &self.signals[thread] }
    }

    /// Sleeps until `step` is released, or until `over` returns true.
    pub(super) fn wait(&self, step: usize, until_ns: u64, over: impl Fn() -> bool) {
        let released = &self.released[step];
        while released.load(Ordering::Acquire) == 0 && !over() {
            let sleep_ns = until_ns.saturating_sub(now_ns()).min(SLEEP_MAX_NS);
            let timeout = Timespec { tv_sec: 0, tv_nsec: sleep_ns as i64 };
            // The kernel sleeps only while the value is 0.
            let _ = futex::wait(released, Flags::PRIVATE, 0, Some(&timeout));
        }
    }

    fn signal(&self, waiter: usize) {
        let released = &self.released[waiter];
        released.store(1, Ordering::Release);
        let _ = futex::wake(released, Flags::PRIVATE, 1);
    }
}

/// The signals that a thread has not sent yet.
pub(super) struct Signaller<'a> {
    dependencies: &'a Dependencies,
    left: &'a [Signal],
}

impl Signaller<'_> {
    /// CPU time of `step` to burn before the next signal; None without one.
    pub(super) fn next_cpu_ns(&self, step: usize) -> Option<u64> {
        let next = self.left.first().filter(|next| next.step == step)?;
        (next.cpu_ns != AT_STEP_END).then_some(next.cpu_ns)
    }

    /// Sends the next signal.
    pub(super) fn signal(&mut self) {
        if let Some((next, left)) = self.left.split_first() {
            self.left = left;
            self.dependencies.signal(next.waiter);
        }
    }

    /// Sends all signals of `step`, which has ended or will be skipped.
    pub(super) fn end(&mut self, step: usize) {
        while self.left.first().is_some_and(|next| next.step <= step) {
            self.signal();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(thread: u32, cpu_ns: u64, after: Option<u32>, after_cpu_ns: u64) -> Step {
        Step { thread, cpu_ns, after, after_cpu_ns, ..Step::default() }
    }

    #[test]
    fn a_signal_is_sent_within_work_or_at_the_end_of_a_step() {
        let steps = [
            step(0, 0, None, 0),
            step(1, 0, Some(0), 30),
            step(0, 100, None, 0),
            step(1, 0, Some(2), 50),
            step(1, 0, Some(0), 0),
            step(1, 0, Some(0), 500),
        ];
        let queues = [vec![0, 2], vec![1, 3, 4, 5]];
        let dependencies = Dependencies::new(&steps, &queues);
        let is_announced = |step: usize| dependencies.released[step].load(Ordering::Relaxed) == 1;
        let mut signaller = dependencies.signaller(0);
        assert_eq!(signaller.next_cpu_ns(0), None);
        signaller.end(0);
        assert!(is_announced(4) && !is_announced(1));
        assert_eq!(signaller.next_cpu_ns(2), Some(30));
        signaller.signal();
        assert!(is_announced(1));
        // No later than when the thread has burned all CPU time of the step.
        assert_eq!(signaller.next_cpu_ns(2), Some(100));
        signaller.signal();
        assert!(is_announced(5) && !is_announced(3));
        assert_eq!(signaller.next_cpu_ns(2), None);
        signaller.end(2);
        assert!(is_announced(3));
        dependencies.wait(3, u64::MAX, || false);
        dependencies.wait(0, u64::MAX, || true);
    }
}
