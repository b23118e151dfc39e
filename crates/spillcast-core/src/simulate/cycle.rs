//! Skips cycles: rounds in which threads only compute, and periods of the quota.
//!
//! While no CPU stretch and no wait ends, the only events are ends of quanta and starts of periods.
//! If the simulation then returns to an earlier state, the time between the two states repeats
//! until a thread has too little CPU time left or a wait ends. The outcome equals that of an
//! event-by-event simulation to the nanosecond.

use std::cmp::Reverse;

use super::rows::Rows;
use super::thread::Thread;
use super::{Due, NEW_PERIOD, QUANTUM_NS, Simulation, Snapshot, State};

impl<R: Rows + ?Sized> Simulation<'_, R> {
    /// Skips repetitions after an event that ended a quantum or started a period.
    pub(crate) fn skip_cycles(&mut self) {
        self.cycle.events += 1;
        if self.cycle.events < self.cycle.events_min || !self.long_stretches.is_empty() {
            return;
        }
        let repetitions =
            self.cycle.earlier.as_ref().map_or(0, |earlier| self.repetitions(earlier));
        if repetitions > 0 {
            self.skip(repetitions);
        } else if self.cycle.events.is_power_of_two() {
            // Each state is kept twice as long as the last, so finally longer than a cycle (Brent).
            self.cycle.earlier = Some(Snapshot {
                state: self.state(),
                now_ns: self.now_ns,
                owed_ns: self.owed_ns(),
                throttled_ns: self.outcome.throttled_ns,
                done_ns: self.threads.iter().map(Thread::done_ns).collect(),
            });
        }
    }

    fn state(&self) -> State {
        let mut due: Vec<_> =
            self.pending().filter(|&(.., thread)| self.computes(thread)).collect();
        due.sort_unstable();
        let relative = |(at_ns, _, thread): (u64, u64, usize)| {
            let on_core = self.threads.get(thread);
            let stretch_ns = on_core.map_or(0, Thread::stretch_ns);
            let held_ns = on_core.map_or(0, |thread| thread.held_ns.min(QUANTUM_NS));
            Due { in_ns: at_ns - self.now_ns, thread, stretch_ns, held_ns }
        };
        let (left_ns, ends_ns, _) = self.budget.state(self.now_ns);
        State {
            period: (left_ns, ends_ns),
            temp_ns: self.outcome.temp_ns,
            ready: self.ready.iter().copied().collect(),
            due: due.into_iter().map(relative).collect(),
        }
    }

    fn owed_ns(&self) -> u64 {
        self.budget.state(self.now_ns).2
    }

    /// Pending events: time, number and thread.
    fn pending(&self) -> impl Iterator<Item = (u64, u64, usize)> {
        let is_due = |&(at_ns, number, thread): &(u64, u64, usize)| {
            thread == NEW_PERIOD || self.threads[thread].due == (at_ns, number)
        };
        self.events.iter().map(|&Reverse(event)| event).filter(is_due)
    }

    /// Whether the thread's event may recur: it ends a quantum or starts a period, not ends a wait.
    fn computes(&self, thread: usize) -> bool {
        thread == NEW_PERIOD || self.threads[thread].on_core
    }

    /// Number of times that the time since `earlier` repeats from now on.
    fn repetitions(&self, earlier: &Snapshot) -> u64 {
        // Cheap comparisons first.
        let is_front = self.ready.front() == earlier.state.ready.first();
        let is_same = is_front && self.outcome.temp_ns == earlier.state.temp_ns;
        if !is_same || self.state() != earlier.state {
            return 0;
        }
        let length_ns = self.now_ns - earlier.now_ns;
        let before = |end: u64, each: u64| end.saturating_sub(1) / each;
        let until_wait = self
            .pending()
            .filter(|&(.., thread)| !self.computes(thread))
            .map(|(at_ns, ..)| before(at_ns - self.now_ns, length_ns));
        let until_end =
            self.threads.iter().zip(&earlier.done_ns).filter_map(|(thread, done_ns)| {
                let each_ns = thread.done_ns() - done_ns;
                let left_ns = thread.left_ns().saturating_sub(each_ns + QUANTUM_NS);
                (each_ns > 0).then(|| before(left_ns, each_ns))
            });
        let paid_ns = earlier.owed_ns.saturating_sub(self.owed_ns());
        let until_paid = (paid_ns > 0).then(|| before(self.owed_ns(), paid_ns));
        // An upper limit that keeps the clock from overflowing.
        let most = (u64::MAX / 4).saturating_sub(self.now_ns) / length_ns;
        until_wait.chain(until_end).chain(until_paid).min().unwrap_or(0).min(most)
    }

    /// Skips `repetitions` repetitions of the time since the earlier state.
    fn skip(&mut self, repetitions: u64) {
        let Some(earlier) = self.cycle.earlier.take() else { return };
        let ahead_ns = repetitions * (self.now_ns - earlier.now_ns);
        let mut events: Vec<_> = self.pending().collect();
        for (at_ns, number, thread) in &mut events {
            if self.computes(*thread) {
                *at_ns += ahead_ns;
                if let Some(thread) = self.threads.get_mut(*thread) {
                    thread.due = (*at_ns, *number);
                }
            }
        }
        self.events = events.into_iter().map(Reverse).collect();
        for (thread, done_ns) in self.threads.iter_mut().zip(&earlier.done_ns) {
            thread.burn(repetitions * (thread.done_ns() - done_ns));
        }
        self.outcome.throttled_ns +=
            repetitions * (self.outcome.throttled_ns - earlier.throttled_ns);
        self.budget.pass(ahead_ns, repetitions * earlier.owed_ns.saturating_sub(self.owed_ns()));
        self.now_ns += ahead_ns;
        self.cycle.reset();
    }
}
