//! Rounds of lanes that only compute, and periods of their quota, passed many at once.
//!
//! While no lane ends its CPU time and no wait ends, quanta end and periods begin, and nothing else
//! happens. Once a simulation is then in a state that it was in before, it repeats the time between
//! the two, until a lane has too little CPU time left or a wait ends. The outcome is the one of a
//! simulation event by event, to the nanosecond.

use std::cmp::Reverse;

use super::lane::Lane;
use super::rows::Rows;
use super::{Kept, NEW_PERIOD, QUANTUM_NS, Simulation, State};

impl<R: Rows + ?Sized> Simulation<'_, R> {
    /// A quantum has ended or a period begun, and nothing else: passes what repeats itself.
    pub fn pass_cycles(&mut self) {
        self.cycle.events += 1;
        if self.cycle.events < self.cycle.first || !self.unbroken.is_empty() {
            return;
        }
        let times = self.cycle.kept.as_ref().map_or(0, |kept| self.times(kept));
        if times > 0 {
            self.pass(times);
        } else if self.cycle.events.is_power_of_two() {
            // States are kept for ever longer, at last for longer than any cycle (Brent).
            self.cycle.kept = Some(Kept {
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
        let seen = |(at_ns, _, number): (u64, u64, usize)| {
            let (stretch_ns, held_ns) = self
                .lanes
                .get(number)
                .map_or((0, 0), |lane| (lane.stretch_ns(), lane.held_ns.min(QUANTUM_NS)));
            (at_ns - self.now_ns, number, stretch_ns, held_ns)
        };
        let (left_ns, ends_ns, _) = self.budget.state(self.now_ns);
        State {
            period: (left_ns, ends_ns),
            temp_ns: self.outcome.temp_ns,
            ready: self.ready.iter().copied().collect(),
            due: due.into_iter().map(seen).collect(),
        }
    }

    fn owed_ns(&self) -> u64 {
        self.budget.state(self.now_ns).2
    }

    /// Events to come: when, their number, and the lane.
    fn pending(&self) -> impl Iterator<Item = (u64, u64, usize)> {
        let is_due = |&(at_ns, number, lane): &(u64, u64, usize)| {
            lane == NEW_PERIOD || self.lanes[lane].due == (at_ns, number)
        };
        self.due.iter().map(|&Reverse(event)| event).filter(is_due)
    }

    /// Whether an event is of what may come back: a quantum or a period, and no wait.
    fn computes(&self, lane: usize) -> bool {
        lane == NEW_PERIOD || self.lanes[lane].on_core
    }

    /// How many times the time since `kept` repeats itself from now on, with nothing else happening.
    fn times(&self, kept: &Kept) -> u64 {
        let is_front = self.ready.front() == kept.state.ready.first();
        if !is_front || self.outcome.temp_ns != kept.state.temp_ns || self.state() != kept.state {
            return 0;
        }
        let length_ns = self.now_ns - kept.now_ns;
        let before = |end: u64, each: u64| end.saturating_sub(1) / each;
        let until_wait = self
            .pending()
            .filter(|&(.., lane)| !self.computes(lane))
            .map(|(at_ns, ..)| before(at_ns - self.now_ns, length_ns));
        let until_end = self.lanes.iter().zip(&kept.done_ns).filter_map(|(lane, done_ns)| {
            let each_ns = lane.done_ns() - done_ns;
            let left_ns = lane.left_ns().saturating_sub(each_ns + QUANTUM_NS);
            (each_ns > 0).then(|| before(left_ns, each_ns))
        });
        let paid_ns = kept.owed_ns.saturating_sub(self.owed_ns());
        let until_paid = (paid_ns > 0).then(|| before(self.owed_ns(), paid_ns));
        // What lies that far ahead is beyond all clocks.
        let most = (u64::MAX / 4).saturating_sub(self.now_ns) / length_ns;
        until_wait.chain(until_end).chain(until_paid).min().unwrap_or(0).min(most)
    }

    /// Passes the time since what is kept so many times more.
    fn pass(&mut self, times: u64) {
        let Some(kept) = self.cycle.kept.take() else { return };
        let ahead_ns = times * (self.now_ns - kept.now_ns);
        let mut events: Vec<_> = self.pending().collect();
        for (at_ns, number, lane) in &mut events {
            if self.computes(*lane) {
                *at_ns += ahead_ns;
                if let Some(lane) = self.lanes.get_mut(*lane) {
                    lane.due = (*at_ns, *number);
                }
            }
        }
        self.due = events.into_iter().map(Reverse).collect();
        for (lane, done_ns) in self.lanes.iter_mut().zip(&kept.done_ns) {
            lane.burn(times * (lane.done_ns() - done_ns));
        }
        self.outcome.throttled_ns += times * (self.outcome.throttled_ns - kept.throttled_ns);
        self.budget.pass(ahead_ns, times * kept.owed_ns.saturating_sub(self.owed_ns()));
        self.now_ns += ahead_ns;
        self.cycle.ends();
    }
}
