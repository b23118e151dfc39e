//! What I/O would take on a model, by a clock that nobody waits for.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::model::{Model, Operation};
use super::schedule::Schedule;
use crate::probe::Step;
use crate::wait::Op;

/// How long each step takes, in ns, where every thread does its steps in their order, each after
/// its pause. Limits, servers and what counts as sequential are those of a mount.
///
/// A step that neither reads nor writes takes nothing; CPU time and waits for others are left out.
pub fn rehearse(model: Model, steps: &[Step]) -> Vec<f64> {
    let schedule = Schedule::new(model, 0);
    let (firsts, next) = threads(steps);
    let mut due: BinaryHeap<Reverse<(u64, usize)>> =
        firsts.into_iter().map(|at| Reverse((steps[at].delay_ns, at))).collect();
    let mut ends: HashMap<(u32, bool), u64> = HashMap::new();
    let mut elapsed_ns = vec![0.0; steps.len()];
    while let Some(Reverse((arrival_ns, at))) = due.pop() {
        let step = &steps[at];
        if step.op != Op::Null {
            let key = (step.file, step.op == Op::Write);
            let end = step.offset + u64::from(step.bytes);
            let sequential = ends.insert(key, end).is_none_or(|before| before == step.offset);
            let operation = Operation { op: step.op, sequential, bytes: step.bytes.into() };
            elapsed_ns[at] = schedule.elapsed_ns(arrival_ns, operation);
        }
        if let Some(after) = next[at] {
            let ended_ns = arrival_ns + elapsed_ns[at].round() as u64;
            due.push(Reverse((ended_ns + steps[after].delay_ns, after)));
        }
    }
    elapsed_ns
}

/// The first step of each thread, and of each step the next one of its thread.
fn threads(steps: &[Step]) -> (Vec<usize>, Vec<Option<usize>>) {
    let mut firsts = Vec::new();
    let mut next = vec![None; steps.len()];
    let mut last: HashMap<u32, usize> = HashMap::new();
    for (at, step) in steps.iter().enumerate() {
        match last.insert(step.thread, at) {
            Some(before) => next[before] = Some(at),
            None => firsts.push(at),
        }
    }
    (firsts, next)
}

#[cfg(test)]
mod tests {
    use super::super::model::{Curve, Distribution, Latencies, Limit};
    use super::*;

    fn step(thread: u32, op: Op, offset: u64, bytes: u32, delay_ns: u64) -> Step {
        Step {
            thread,
            op,
            file: 0,
            offset,
            bytes,
            cpu_ns: 0,
            after: None,
            after_cpu_ns: 0,
            delay_ns,
        }
    }

    #[test]
    fn a_write_cache_takes_writes_until_it_is_full_and_empties_in_pauses() {
        // 4 writes fit; a write takes 100 ns, and 1,000 ns to leave the cache.
        let cache = Limit { write_ns_per_byte: 1.0, burst_ns: 4_000.0, ..Limit::default() };
        let model = Model { limits: vec![cache], ..Model::fixed(100, 100) };
        let writes: Vec<Step> = (0..8)
            .map(|at| step(0, Op::Write, 1000 * at, 1000, if at == 7 { 50_000 } else { 0 }))
            .collect();
        let elapsed = rehearse(model, &writes);
        assert_eq!(elapsed[..4], [100.0; 4]);
        // What was written meanwhile has left, 400 ns of it.
        assert_eq!(elapsed[4], 1_000.0 - 400.0 + 100.0);
        // From then on each waits for the one before it to leave.
        assert_eq!(elapsed[5..7], [1_000.0; 2]);
        assert_eq!(elapsed[7], 100.0);
    }

    #[test]
    fn threads_share_a_server_and_what_follows_is_sequential() {
        let curve = |ns| Curve::new(vec![(0, Distribution::new(&[(ns, 1)]))]);
        let read = Latencies { sequential: curve(10.0), random: curve(1_000.0) };
        let model = Model { read, servers: Some(1), ..Model::default() };
        let steps = [
            step(7, Op::Read, 0, 100, 0),
            step(9, Op::Read, 100, 100, 5),
            step(7, Op::Read, 500, 100, 0),
            step(7, Op::Null, 0, 0, 0),
        ];
        // The server is free at 10, then at 20; the first thread comes back at 10.
        assert_eq!(rehearse(model, &steps), [10.0, 5.0 + 10.0, 10.0 + 1_000.0, 0.0]);
    }
}
