//! How long recorded threads would take on a storage: CPU, I/O, other waits, waits for each other.
//!
//! Each thread goes through its rows in order: it burns CPU on one of the cores, then waits, for so
//! long, for what another thread has yet to do, or for the storage, whose schedule is asked at that
//! moment. Events are simulated one after the other.

mod lane;
mod target;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use lane::{Lane, Next};
use target::Target;
pub use target::{Io, Memory};

use crate::storage::Model;

/// How long a thread keeps a core while others want it; Linux gives a few ms.
const QUANTUM_NS: u64 = 3_000_000;

/// One step of a thread: CPU, and then a wait.
#[derive(Clone, Copy, Debug, Default)]
pub struct Row {
    pub thread: u32,
    pub cpu_ns: u64,
    pub wait: Wait,
    /// Temp I/O, which is counted.
    pub temp: bool,
}

/// What a row ends with.
#[derive(Clone, Copy, Debug)]
pub enum Wait {
    /// So long, off the core: a storage, a timer.
    For(u64),
    /// So long, on the core: a copy from memory.
    OnCore(u64),
    /// Until the thread of row `row` has ended that row and then burned `cpu_ns`.
    Until { row: usize, cpu_ns: u64 },
    /// As long as the storage takes.
    Io(Io),
}

impl Default for Wait {
    fn default() -> Wait {
        Wait::For(0)
    }
}

/// What a simulation came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Until the last thread has done its last row.
    pub elapsed_ns: u64,
    /// Sum of the temp waits.
    pub temp_ns: u64,
    /// Time in which at least one temp operation was under way.
    pub temp_busy_ns: u64,
    /// Waits that were ended because no thread could go on: rows that contradict each other.
    pub forced: u64,
    /// By row that waits for the storage, how long; 0 for others.
    pub io_ns: Vec<f64>,
    /// By limit of the storage, what operations waited for it.
    pub limited_ns: Vec<f64>,
}

/// Runs `rows`, of each thread in order, on so many cores, with their I/O on a storage of `model`.
///
/// What the storage answers as fast as `memory` keeps its core meanwhile.
pub fn run(rows: &[Row], cores: usize, model: Model, memory: Memory) -> Outcome {
    let target = Target::new(model, memory, rows);
    let mut simulation = Simulation::new(rows, cores.max(1), target);
    simulation.run();
    Outcome { limited_ns: simulation.target.limited_ns(), ..simulation.outcome }
}

struct Simulation<'a> {
    rows: &'a [Row],
    lanes: Vec<Lane>,
    now_ns: u64,
    /// When each lane goes on that has something to do; the number keeps equal times in order.
    due: BinaryHeap<Reverse<(u64, u64, usize)>>,
    numbered: u64,
    free_cores: usize,
    /// Lanes that want a core.
    ready: VecDeque<usize>,
    /// By row that waits: whether what it waits for has happened.
    happened: Vec<bool>,
    temp_under_way: u64,
    temp_since_ns: u64,
    target: Target,
    outcome: Outcome,
}

impl<'a> Simulation<'a> {
    fn new(rows: &'a [Row], cores: usize, target: Target) -> Simulation<'a> {
        Simulation {
            rows,
            lanes: lane::lanes(rows),
            now_ns: 0,
            due: BinaryHeap::new(),
            numbered: 0,
            free_cores: cores,
            ready: VecDeque::new(),
            happened: vec![false; rows.len()],
            temp_under_way: 0,
            temp_since_ns: 0,
            target,
            outcome: Outcome { io_ns: vec![0.0; rows.len()], ..Outcome::default() },
        }
    }

    fn run(&mut self) {
        for lane in 0..self.lanes.len() {
            self.go_on(lane);
        }
        loop {
            while let Some(Reverse((at_ns, _, lane))) = self.due.pop() {
                self.now_ns = at_ns;
                self.stretch_ended(lane);
            }
            let stuck = self.lanes.iter().filter_map(Lane::waiting_row).min();
            let Some(row) = stuck else { break };
            self.outcome.forced += 1;
            self.happens(row);
        }
        self.outcome.elapsed_ns = self.now_ns;
    }

    /// A lane takes its next stretch: CPU up to a signal or the end of its share, or a wait.
    fn go_on(&mut self, lane: usize) {
        loop {
            for row in self.lanes[lane].signals_due() {
                self.happens(row);
            }
            match self.lanes[lane].next(self.rows, &self.happened) {
                Next::Core { ns } => return self.on_core(lane, ns),
                Next::Wait { ns, temp } => {
                    self.leave_core(lane);
                    self.temp_begins(temp);
                    return self.schedule(lane, ns);
                }
                Next::Io { row, io } => {
                    let (ns, on_core) = self.target.takes(self.now_ns, io);
                    self.outcome.io_ns[row] = ns;
                    self.lanes[lane].io_begins(ns.round() as u64, on_core);
                }
                Next::Signal => return self.leave_core(lane),
                Next::Row => continue,
                Next::Ended => return self.leave_core(lane),
            }
        }
    }

    fn on_core(&mut self, lane: usize, ns: u64) {
        let others_want = !self.ready.is_empty();
        let state = &mut self.lanes[lane];
        if state.on_core && !(others_want && state.held_ns >= QUANTUM_NS) {
            return self.take_stretch(lane, ns);
        }
        if state.on_core {
            self.leave_core(lane);
        }
        if self.free_cores > 0 && self.ready.is_empty() {
            self.take_core(lane, ns);
        } else {
            self.ready.push_back(lane);
        }
    }

    fn take_core(&mut self, lane: usize, ns: u64) {
        self.free_cores -= 1;
        self.lanes[lane].on_core = true;
        self.lanes[lane].held_ns = 0;
        self.take_stretch(lane, ns);
    }

    fn take_stretch(&mut self, lane: usize, ns: u64) {
        let (stretch_ns, temp) = self.lanes[lane].take_stretch(self.rows, ns.min(QUANTUM_NS));
        self.temp_begins(temp);
        self.schedule(lane, stretch_ns);
    }

    fn leave_core(&mut self, lane: usize) {
        if !std::mem::replace(&mut self.lanes[lane].on_core, false) {
            return;
        }
        self.free_cores += 1;
        if let Some(next) = self.ready.pop_front() {
            let Next::Core { ns } = self.lanes[next].next(self.rows, &self.happened) else {
                unreachable!("a lane that wants a core has CPU time to burn");
            };
            self.take_core(next, ns);
        }
    }

    fn stretch_ended(&mut self, lane: usize) {
        let ended_temp = self.lanes[lane].stretch_ended(self.rows);
        self.temp_ends(ended_temp);
        self.go_on(lane);
    }

    /// What `row` waits for is done; its thread goes on if it is there already.
    fn happens(&mut self, row: usize) {
        self.happened[row] = true;
        let lane = self.rows[row].thread as usize;
        if self.lanes[lane].waiting_row() == Some(row) {
            self.lanes[lane].wait_over();
            self.schedule(lane, 0);
        }
    }

    fn schedule(&mut self, lane: usize, ns: u64) {
        self.numbered += 1;
        self.due.push(Reverse((self.now_ns + ns, self.numbered, lane)));
    }

    fn temp_begins(&mut self, ns: Option<u64>) {
        let Some(ns) = ns else { return };
        self.outcome.temp_ns += ns;
        if self.temp_under_way == 0 {
            self.temp_since_ns = self.now_ns;
        }
        self.temp_under_way += 1;
    }

    fn temp_ends(&mut self, temp: bool) {
        if temp {
            self.temp_under_way -= 1;
            if self.temp_under_way == 0 {
                self.outcome.temp_busy_ns += self.now_ns - self.temp_since_ns;
            }
        }
    }
}

#[cfg(test)]
mod tests;
