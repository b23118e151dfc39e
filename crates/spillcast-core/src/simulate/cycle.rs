//! Skips cycles: rounds in which lanes only compute, and periods of their quota.
//!
//! While no lane ends its CPU time and no wait ends, the only events are ends of quanta and begins
//! of periods. Once the simulation is then in an earlier state again, the time between the two
//! repeats until a lane has too little CPU time left or a wait ends. The outcome is that of a
//! simulation event by event, to the nanosecond.

use std::cmp::Reverse;

use super::lane::Lane;
use super::rows::Rows;
use super::{Due, NEW_PERIOD, QUANTUM_NS, Simulation, Snapshot, State};

impl<R: Rows + ?Sized> Simulation<'_, R> {
    /// Skips repetitions, after an event that ended a quantum or began a period.
    pub fn skip_cycles(&mut self) {
        self.cycle.events += 1;
        if self.cycle.events < self.cycle.events_min || !self.long_stretches.is_empty() {
            return;
        }
        let repetitions =
            self.cycle.earlier.as_ref().map_or(0, |earlier| self.repetitions(earlier));
        if repetitions > 0 {
            self.skip(repetitions);
        } else if self.cycle.events.is_power_of_two() {
            // Each state is kept twice as long, at last for longer than any cycle (Brent).
            self.cycle.earlier = Some(Snapshot {
                state: self.state(),
                now_ns: self.now_ns,
                owed_ns: self.owed_ns(),
                throttled_ns: self.outcome.throttled_ns,
                done_ns: self.lanes.iter().map(Lane::done_ns).collect(),
            });
        }
    }

    fn state(&self) -> State {
        let mut due: Vec<_> = self.pending().filter(|&(.., lane)| self.computes(lane)).collect();
        due.sort_unstable();
        let relative = |(at_ns, _, lane): (u64, u64, usize)| {
            let on_core = self.lanes.get(lane);
            let stretch_ns = on_core.map_or(0, Lane::stretch_ns);
            let held_ns = on_core.map_or(0, |lane| lane.held_ns.min(QUANTUM_NS));
            Due { in_ns: at_ns - self.now_ns, lane, stretch_ns, held_ns }
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

    /// Events to come: time, number and lane.
    fn pending(&self) -> impl Iterator<Item = (u64, u64, usize)> {
        let is_due = |&(at_ns, number, lane): &(u64, u64, usize)| {
            lane == NEW_PERIOD || self.lanes[lane].due == (at_ns, number)
        };
        self.events.iter().map(|&Reverse(event)| event).filter(is_due)
    }

    /// Whether the lane's event may recur: it ends a quantum or begins a period, and ends no wait.
    fn computes(&self, lane: usize) -> bool {
        lane == NEW_PERIOD || self.lanes[lane].on_core
    }

    /// How many times the time since `earlier` repeats from now on.
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
            .filter(|&(.., lane)| !self.computes(lane))
            .map(|(at_ns, ..)| before(at_ns - self.now_ns, length_ns));
        let until_end = self.lanes.iter().zip(&earlier.done_ns).filter_map(|(lane, done_ns)| {
            let each_ns = lane.done_ns() - done_ns;
            let left_ns = lane.left_ns().saturating_sub(each_ns + QUANTUM_NS);
            (each_ns > 0).then(|| before(left_ns, each_ns))
        });
        let paid_ns = earlier.owed_ns.saturating_sub(self.owed_ns());
        let until_paid = (paid_ns > 0).then(|| before(self.owed_ns(), paid_ns));
        // No clock reads more than that.
        let most = (u64::MAX / 4).saturating_sub(self.now_ns) / length_ns;
        until_wait.chain(until_end).chain(until_paid).min().unwrap_or(0).min(most)
    }

    /// Skips so many repetitions of the time since the earlier state.
    fn skip(&mut self, repetitions: u64) {
        let Some(earlier) = self.cycle.earlier.take() else { return };
        let ahead_ns = repetitions * (self.now_ns - earlier.now_ns);
        let mut events: Vec<_> = self.pending().collect();
        for (at_ns, number, lane) in &mut events {
            if self.computes(*lane) {
                *at_ns += ahead_ns;
                if let Some(lane) = self.lanes.get_mut(*lane) {
                    lane.due = (*at_ns, *number);
                }
            }
        }
        self.events = events.into_iter().map(Reverse).collect();
        for (lane, done_ns) in self.lanes.iter_mut().zip(&earlier.done_ns) {
            lane.burn(repetitions * (lane.done_ns() - done_ns));
        }
        self.outcome.throttled_ns +=
            repetitions * (self.outcome.throttled_ns - earlier.throttled_ns);
        self.budget.pass(ahead_ns, repetitions * earlier.owed_ns.saturating_sub(self.owed_ns()));
        self.now_ns += ahead_ns;
        self.cycle.reset();
    }
}
