//! Computes when operations end: each waits for limits and a server, then takes a drawn latency.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Mutex;

use super::draws::Draws;
use super::model::{Model, Operation};
use crate::wait::Op;

/// More servers than this are no limit: that many operations are never in flight at once.
const SERVERS_MAX: usize = 1 << 16;

/// Determines when operations complete.
pub(crate) struct Schedule {
    model: Model,
    draws: Draws,
    /// Whether operations depend on earlier ones. If not, there is no state to lock.
    has_state: bool,
    knows_depth: bool,
    /// Times count from here, so that fractions of a nanosecond stay exact.
    origin_ns: u64,
    state: Mutex<State>,
}

/// Times of the operations of a schedule by cause, which add up to the time of all operations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Waits {
    /// By limit, waits for its bucket. An operation counts for the limit that delays it most.
    pub limited_ns: Vec<f64>,
    /// By limit, the cost of the delayed operations themselves, if the limit has no burst.
    pub served_ns: Vec<f64>,
    /// Waits for a server.
    pub queued_ns: f64,
    /// Latency of the storage itself.
    pub latency_ns: f64,
}

struct State {
    /// When each server becomes free; empty without a limit of servers.
    free_ns: Vec<f64>,
    /// By limit, when everything taken from its bucket is refilled.
    refilled_ns: Vec<f64>,
    waits: Waits,
    /// Ends of the operations in flight, the earliest first; empty if latency has no depth.
    ends_ns: BinaryHeap<Reverse<u64>>,
}

impl Schedule {
    /// For any operations, with random latencies; times count from `origin_ns`.
    pub fn new(model: Model, origin_ns: u64) -> Schedule {
        Schedule::with(model, origin_ns, Draws::random())
    }

    /// For these operations, in any order, with latencies spread evenly over them, from time 0 on.
    pub fn of(model: Model, operations: impl Iterator<Item = (Op, u64)>) -> Schedule {
        Schedule::with(model, 0, Draws::even(operations))
    }

    fn with(model: Model, origin_ns: u64, draws: Draws) -> Schedule {
        let servers = model.servers.filter(|&servers| servers <= SERVERS_MAX);
        let knows_depth = model.knows_depth();
        let state = State {
            free_ns: vec![0.0; servers.map_or(0, |servers| servers.max(1))],
            refilled_ns: vec![f64::NEG_INFINITY; model.limits.len()],
            waits: Waits {
                limited_ns: vec![0.0; model.limits.len()],
                served_ns: vec![0.0; model.limits.len()],
                ..Waits::default()
            },
            ends_ns: BinaryHeap::new(),
        };
        let has_state = knows_depth || servers.is_some() || !model.limits.is_empty();
        Schedule { model, draws, has_state, knows_depth, origin_ns, state: Mutex::new(state) }
    }

    /// Time from the arrival of an operation at `arrival_ns` to its completion.
    pub fn elapsed_ns(&self, arrival_ns: u64, operation: Operation) -> f64 {
        let quantile = self.draws.next(operation);
        if !self.has_state {
            return self.model.latency_ns(operation, 1, quantile);
        }
        let now_ns = arrival_ns.saturating_sub(self.origin_ns) as f64;
        let mut state = self.state.lock().expect("nothing panics with the lock held");
        let depth = if self.knows_depth { state.depth(now_ns as u64) } else { 1 };
        let latency_ns = self.model.latency_ns(operation, depth, quantile);
        let mut ready_ns = now_ns + state.wait_for_limits(&self.model, now_ns, operation);
        let limited_until_ns = ready_ns;
        // The server that is free first takes the operation.
        let server = state.free_ns.iter_mut().min_by(|a, b| a.total_cmp(b));
        if let Some(free_ns) = server {
            ready_ns = ready_ns.max(*free_ns);
            *free_ns = ready_ns + latency_ns;
        }
        state.waits.queued_ns += ready_ns - limited_until_ns;
        state.waits.latency_ns += latency_ns;
        if self.knows_depth {
            state.ends_ns.push(Reverse((ready_ns + latency_ns) as u64));
        }
        ready_ns + latency_ns - now_ns
    }

    /// Times of the operations so far by cause; 0 if operations do not depend on earlier ones.
    pub fn waits(&self) -> Waits {
        self.state.lock().expect("nothing panics with the lock held").waits.clone()
    }
}

impl State {
    /// Number of operations in flight, including one that arrives now.
    fn depth(&mut self, now_ns: u64) -> u32 {
        while self.ends_ns.peek().is_some_and(|&Reverse(end_ns)| end_ns <= now_ns) {
            self.ends_ns.pop();
        }
        self.ends_ns.len() as u32 + 1
    }

    /// Takes the cost of an operation from all limits; returns how long it waits for them.
    fn wait_for_limits(&mut self, model: &Model, now_ns: f64, operation: Operation) -> f64 {
        // The longest wait, its limit, and how much of it is the cost of the operation itself.
        let (mut wait_ns, mut slowest, mut served_ns) = (0.0, None, 0.0);
        for (at, (limit, refilled_ns)) in model.limits.iter().zip(&mut self.refilled_ns).enumerate()
        {
            let cost_ns = limit.cost_ns(operation);
            *refilled_ns = refilled_ns.max(now_ns - limit.burst_ns) + cost_ns;
            if *refilled_ns - now_ns > wait_ns {
                (wait_ns, slowest) = (*refilled_ns - now_ns, Some(at));
                served_ns = if limit.burst_ns > 0.0 { 0.0 } else { cost_ns };
            }
        }
        if let Some(slowest) = slowest {
            self.waits.limited_ns[slowest] += wait_ns - served_ns;
            self.waits.served_ns[slowest] += served_ns;
        }
        wait_ns
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::{Curve, Curves, Distribution, Latencies, Limit};
    use super::*;
    use crate::wait::Op;

    const READ: Operation = Operation { op: Op::Read, sequential: false, bytes: 4096 };

    fn schedule(latency_ns: u64, servers: Option<usize>, limits: Vec<Limit>) -> Schedule {
        Schedule::new(Model { servers, limits, ..Model::fixed(latency_ns, latency_ns) }, 1_000)
    }

    #[test]
    fn without_servers_nothing_queues() {
        let model = Model::fixed(100, 300);
        let schedule = Schedule::new(model, 1_000);
        for _ in 0..3 {
            assert_eq!(schedule.elapsed_ns(1_000, READ), 100.0);
            assert_eq!(schedule.elapsed_ns(1_000, Operation { op: Op::Write, ..READ }), 300.0);
        }
    }

    #[test]
    fn any_number_of_servers_takes_no_memory() {
        let schedule = schedule(100, Some(usize::MAX), vec![]);
        assert_eq!([0, 0].map(|at| schedule.elapsed_ns(1_000 + at, READ)), [100.0; 2]);
    }

    #[test]
    fn servers_take_operations_in_the_order_of_arrival() {
        let schedule = schedule(100, Some(2), vec![]);
        let arrivals = [0, 0, 10, 10, 500];
        let ends = arrivals.map(|at| at as f64 + schedule.elapsed_ns(1_000 + at, READ));
        assert_eq!(ends, [100.0, 100.0, 200.0, 200.0, 600.0]);
    }

    /// 1000 operations per second, of which `burst` start at once.
    fn operations_limit(burst: f64) -> Limit {
        Limit { read_random_ns: 1e6, burst_ns: burst * 1e6, ..Limit::default() }
    }

    #[test]
    fn a_full_bucket_passes_its_burst_and_then_one_operation_per_cost() {
        let schedule = schedule(50, None, vec![operations_limit(500.0)]);
        let elapsed: Vec<f64> = (0..1000).map(|_| schedule.elapsed_ns(1_000, READ)).collect();
        assert!(elapsed[..500].iter().all(|&ns| ns == 50.0));
        for (i, &ns) in elapsed.iter().enumerate().skip(500) {
            assert_eq!(ns, (i - 499) as f64 * 1e6 + 50.0);
        }
        // After the time to refill the burst and the debt, the bucket is full, and not fuller.
        let later_ns = 1_000 + 500_000_000 + 500_000_000 + 7_000_000_000;
        let again: Vec<f64> = (0..501).map(|_| schedule.elapsed_ns(later_ns, READ)).collect();
        assert!(again[..500].iter().all(|&ns| ns == 50.0));
        assert_eq!(again[500], 1e6 + 50.0);
    }

    #[test]
    fn without_a_burst_every_operation_waits_for_its_own_cost() {
        // 4096 bytes at 2 ns per byte, as on a bus.
        let bus = Limit { read_ns_per_byte: 2.0, ..Limit::default() };
        let schedule = schedule(100, None, vec![bus]);
        assert_eq!(schedule.elapsed_ns(1_000, READ), 8192.0 + 100.0);
        assert_eq!(schedule.elapsed_ns(1_000, READ), 2.0 * 8192.0 + 100.0);
        assert_eq!(schedule.elapsed_ns(1_000 + 1_000_000, READ), 8192.0 + 100.0);
    }

    #[test]
    fn the_slowest_limit_counts_before_a_server_is_occupied() {
        let bus = Limit { read_ns_per_byte: 1.0, ..Limit::default() };
        let schedule = schedule(100, Some(1), vec![operations_limit(0.0), bus]);
        assert_eq!(schedule.elapsed_ns(1_000, READ), 1e6 + 100.0);
        assert_eq!(schedule.elapsed_ns(1_000, READ), 2e6 + 100.0);
    }

    #[test]
    fn a_histogram_is_resampled() {
        let buckets: Vec<(f64, u64)> = vec![(100.0, 700), (200.0, 250), (900.0, 50)];
        let at_once = Curve::new(vec![(4096, Distribution::new(&buckets))]);
        let random = Curves::new(vec![(1, at_once)]);
        let read = Latencies { random, ..Latencies::default() };
        let schedule = Schedule::new(Model { read, ..Model::default() }, 0);
        let drawn: Vec<f64> = (0..100_000).map(|_| schedule.elapsed_ns(0, READ)).collect();
        for (latency_ns, count) in buckets {
            let share = drawn.iter().filter(|&&ns| ns == latency_ns).count() as f64 / 1e5;
            // Three standard errors of a share of 0.25 among 100,000.
            assert!((share - count as f64 / 1000.0).abs() < 0.005, "{latency_ns}: {share}");
        }
        let sequential = Operation { sequential: true, ..READ };
        assert_eq!(schedule.elapsed_ns(0, sequential), 0.0);
    }

    #[test]
    fn latency_grows_with_the_operations_in_flight() {
        let random = Curves::new(vec![(1, Curve::fixed(100)), (2, Curve::fixed(150))]);
        let read = Latencies { random, ..Latencies::default() };
        let schedule = Schedule::new(Model { read, ..Model::default() }, 0);
        let elapsed = [0, 0, 99, 100, 1_000].map(|at| schedule.elapsed_ns(at, READ).round());
        // At 99 two are in flight, at 100 the first has ended, at 1,000 all have.
        let three = (100.0 * 3f64.powf(1.5f64.ln() / 2f64.ln())).round();
        assert_eq!(elapsed, [100.0, 150.0, three, three, 100.0]);
    }

    #[test]
    fn waits_by_cause_add_up_to_the_time_of_all_operations() {
        let limits = vec![operations_limit(0.0), operations_limit(2.0)];
        let schedule = schedule(4_000_000, Some(1), limits);
        let elapsed: f64 = (0..3).map(|_| schedule.elapsed_ns(1_000, READ)).sum();
        let waits = schedule.waits();
        assert_eq!(waits.limited_ns, [1e6 + 2e6, 0.0]);
        assert_eq!(waits.served_ns, [3e6, 0.0]);
        // Each is ready 1 ms after the one before, and served 4 ms after it.
        assert_eq!((waits.queued_ns, waits.latency_ns), (3e6 + 6e6, 12e6));
        let parts: f64 = waits.limited_ns.iter().chain(&waits.served_ns).sum();
        assert_eq!(parts + waits.queued_ns + waits.latency_ns, elapsed);
    }
}
