//! When an operation may complete: limits and servers make it wait, then its latency is drawn.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::model::{Model, Operation};
use crate::random::{STEP, mix};

/// Says when operations complete.
pub struct Schedule {
    model: Model,
    random: Random,
    /// Times are counted from here, so that fractions of a nanosecond stay exact.
    origin_ns: u64,
    state: Mutex<State>,
}

struct State {
    /// When each server is free again; empty where nothing queues.
    free_ns: Vec<f64>,
    /// When what was drawn from each limit's bucket is filled again, but for the burst.
    refilled_ns: Vec<f64>,
}

impl Schedule {
    pub fn new(model: Model, origin_ns: u64) -> Schedule {
        let servers = model.servers.map_or(0, |servers| servers.max(1));
        let state = State {
            free_ns: vec![0.0; servers],
            refilled_ns: vec![f64::NEG_INFINITY; model.limits.len()],
        };
        Schedule { model, random: Random::default(), origin_ns, state: Mutex::new(state) }
    }

    /// How long an operation that arrives at `arrival_ns` takes, with what it waits for.
    pub fn elapsed_ns(&self, arrival_ns: u64, operation: Operation) -> f64 {
        let latency_ns = self.model.latency_ns(operation, self.random.next());
        if self.model.servers.is_none() && self.model.limits.is_empty() {
            return latency_ns;
        }
        let now_ns = arrival_ns.saturating_sub(self.origin_ns) as f64;
        let mut state = self.state.lock().expect("nothing panics with the lock held");
        let mut ready_ns = now_ns;
        for (limit, refilled_ns) in self.model.limits.iter().zip(&mut state.refilled_ns) {
            *refilled_ns = refilled_ns.max(now_ns - limit.burst_ns) + limit.cost_ns(operation);
            ready_ns = ready_ns.max(*refilled_ns);
        }
        // A server that is free takes the operation, or else the one that is free first.
        let server = state.free_ns.iter_mut().min_by(|a, b| a.total_cmp(b));
        if let Some(free_ns) = server {
            ready_ns = ready_ns.max(*free_ns);
            *free_ns = ready_ns + latency_ns;
        }
        ready_ns + latency_ns - now_ns
    }
}

/// Uniform numbers for many threads, always the same ones.
#[derive(Default)]
struct Random(AtomicU64);

impl Random {
    /// From 0 up to but not including 1.
    fn next(&self) -> f64 {
        let mixed = mix(self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP));
        (mixed >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::{Curve, Distribution, Latencies, Limit};
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
    fn servers_take_operations_in_the_order_of_arrival() {
        let schedule = schedule(100, Some(2), vec![]);
        let arrivals = [0, 0, 10, 10, 500];
        let ends = arrivals.map(|at| at as f64 + schedule.elapsed_ns(1_000 + at, READ));
        assert_eq!(ends, [100.0, 100.0, 200.0, 200.0, 600.0]);
    }

    /// 1000 operations a second, of which `burst` go at once.
    fn operations_limit(burst: f64) -> Limit {
        Limit { read_random_ns: 1e6, burst_ns: burst * 1e6, ..Limit::default() }
    }

    #[test]
    fn a_full_bucket_lets_its_burst_pass_and_then_one_operation_a_cost() {
        let schedule = schedule(50, None, vec![operations_limit(500.0)]);
        let elapsed: Vec<f64> = (0..1000).map(|_| schedule.elapsed_ns(1_000, READ)).collect();
        assert!(elapsed[..500].iter().all(|&ns| ns == 50.0));
        for (i, &ns) in elapsed.iter().enumerate().skip(500) {
            assert_eq!(ns, (i - 499) as f64 * 1e6 + 50.0);
        }
        // Left alone for the burst's time and what is owed, the bucket is full, and no fuller.
        let later_ns = 1_000 + 500_000_000 + 500_000_000 + 7_000_000_000;
        let again: Vec<f64> = (0..501).map(|_| schedule.elapsed_ns(later_ns, READ)).collect();
        assert!(again[..500].iter().all(|&ns| ns == 50.0));
        assert_eq!(again[500], 1e6 + 50.0);
    }

    #[test]
    fn without_a_burst_every_operation_waits_for_its_own_cost() {
        // 4096 bytes at 2 ns a byte, as on a bus.
        let bus = Limit { read_ns_per_byte: 2.0, ..Limit::default() };
        let schedule = schedule(100, None, vec![bus]);
        assert_eq!(schedule.elapsed_ns(1_000, READ), 8192.0 + 100.0);
        assert_eq!(schedule.elapsed_ns(1_000, READ), 2.0 * 8192.0 + 100.0);
        assert_eq!(schedule.elapsed_ns(1_000 + 1_000_000, READ), 8192.0 + 100.0);
    }

    #[test]
    fn the_slowest_limit_counts_and_a_server_is_taken_only_then() {
        let bus = Limit { read_ns_per_byte: 1.0, ..Limit::default() };
        let schedule = schedule(100, Some(1), vec![operations_limit(0.0), bus]);
        assert_eq!(schedule.elapsed_ns(1_000, READ), 1e6 + 100.0);
        assert_eq!(schedule.elapsed_ns(1_000, READ), 2e6 + 100.0);
    }

    #[test]
    fn a_histogram_is_resampled() {
        let buckets: Vec<(f64, u64)> = vec![(100.0, 700), (200.0, 250), (900.0, 50)];
        let random = Curve::new(vec![(4096, Distribution::new(&buckets))]);
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
}
