//! How long recorded threads would take on a storage: CPU, I/O, other waits, waits for each other.
//!
//! Each thread goes through its rows in order: it burns CPU on one of the cores, then waits, for so
//! long, for what another thread has yet to do, or for the storage, whose schedule is asked at that
//! moment. Events are simulated one after the other.

mod cached_reads;
mod cycle;
mod lane;
mod page_cache;
mod quota;
mod rows;
mod target;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

pub use cached_reads::{CachedReads, Moved};
use lane::{Lane, Next};
pub use page_cache::PageCacheRoom;
use quota::Budget;
pub use quota::Quota;
pub use rows::{Io, Row, Rows, Wait};
pub use target::Memory;
use target::Target;

use crate::storage::{Model, Waits};

/// How long a thread keeps a core while others want it; Linux gives a few ms.
const QUANTUM_NS: u64 = 3_000_000;
/// In the place of a lane: a new period of the quota begins.
const NEW_PERIOD: usize = usize::MAX;

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
    /// Of that, what the storage took: 0 where a page cache answered. Empty without one.
    pub storage_ns: Vec<f64>,
    /// Time of the operations on the storage by its cause.
    pub waits: Waits,
    /// Time in which threads that wanted a core waited for the next period of the quota.
    pub throttled_ns: u64,
}

/// What threads run on: so many cores, and how much of them they may have.
#[derive(Clone, Copy, Debug)]
pub struct Cpus {
    pub cores: usize,
    pub quota: Option<Quota>,
}

/// Runs `rows`, of each thread in order, on `cpus`, with their I/O on a storage of `model`.
///
/// Before it there may be a page cache. What is answered as fast as `memory` keeps its core meanwhile.
pub fn run<R: Rows + ?Sized>(
    rows: &R,
    cpus: Cpus,
    model: Model,
    memory: Memory,
    page_cache: Option<PageCacheRoom>,
) -> Outcome {
    let target = Target::new(model, memory, page_cache, rows);
    let mut simulation = Simulation::new(rows, cpus, target);
    simulation.run();
    Outcome { waits: simulation.target.waits(), ..simulation.outcome }
}

struct Simulation<'a, R: Rows + ?Sized> {
    rows: &'a R,
    lanes: Vec<Lane>,
    now_ns: u64,
    /// When each lane goes on that has something to do; the number keeps equal times in order. An
    /// entry that is not what its lane has as `due` is of a stretch that was shortened.
    due: BinaryHeap<Reverse<(u64, u64, usize)>>,
    numbered: u64,
    free_cores: usize,
    /// Lanes on a core for longer than a quantum, as nobody waited for it when they began.
    unbroken: Vec<usize>,
    /// Lanes that want a core.
    ready: VecDeque<usize>,
    budget: Budget,
    /// Whether lanes that want a core wait for the next period.
    throttled: bool,
    cycle: Cycle,
    /// By row that waits: whether what it waits for has happened.
    happened: Vec<bool>,
    temp_under_way: u64,
    temp_since_ns: u64,
    target: Target,
    outcome: Outcome,
}

/// Looks for a state that comes back.
struct Cycle {
    /// So many quanta and periods in a row are simulated first: most rows end before.
    first: u64,
    /// Quanta and periods since anything else happened.
    events: u64,
    kept: Option<Kept>,
}

/// A state, and what there was of each sum by then.
struct Kept {
    state: State,
    now_ns: u64,
    owed_ns: u64,
    throttled_ns: u64,
    /// By lane, CPU time of its row.
    done_ns: Vec<u64>,
}

/// What decides how a simulation goes on, with times as seen from its present.
#[derive(PartialEq)]
struct State {
    /// What is left of the quota's period, and when that ends.
    period: (u64, i64),
    temp_ns: u64,
    /// Lanes that want a core, in their order.
    ready: Vec<usize>,
    /// When stretches on a core end and the next period begins, the first first.
    due: Vec<Due>,
}

/// When, which lane, how long its stretch is, and how long it will have held its core, up to a quantum.
type Due = (u64, usize, u64, u64);

impl Default for Cycle {
    fn default() -> Cycle {
        Cycle { first: 32, events: 0, kept: None }
    }
}

impl Cycle {
    /// Something else has happened: no state from before comes back.
    fn ends(&mut self) {
        (self.events, self.kept) = (0, None);
    }
}

impl<'a, R: Rows + ?Sized> Simulation<'a, R> {
    fn new(rows: &'a R, cpus: Cpus, target: Target) -> Simulation<'a, R> {
        let through_cache = if target.has_page_cache() { rows.count() } else { 0 };
        Simulation {
            rows,
            lanes: lane::lanes(rows),
            now_ns: 0,
            due: BinaryHeap::new(),
            numbered: 0,
            unbroken: Vec::new(),
            free_cores: cpus.cores.max(1),
            ready: VecDeque::new(),
            budget: Budget::new(cpus.quota),
            throttled: false,
            cycle: Cycle::default(),
            happened: vec![false; rows.count()],
            temp_under_way: 0,
            temp_since_ns: 0,
            target,
            outcome: Outcome {
                io_ns: vec![0.0; rows.count()],
                storage_ns: vec![0.0; through_cache],
                ..Outcome::default()
            },
        }
    }

    fn run(&mut self) {
        for lane in 0..self.lanes.len() {
            self.go_on(lane);
        }
        loop {
            while let Some(Reverse((at_ns, number, lane))) = self.due.pop() {
                if lane == NEW_PERIOD {
                    self.now_ns = at_ns;
                    self.throttled = false;
                    self.hand_out();
                    self.pass_cycles();
                } else if self.lanes[lane].due == (at_ns, number) {
                    self.now_ns = at_ns;
                    self.stretch_ended(lane);
                }
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
                    self.budget.left_ns(self.now_ns);
                    self.budget.take(self.lanes[lane].call_ns(ns));
                    self.leave_core(lane);
                    self.temp_begins(temp);
                    return self.schedule(lane, ns);
                }
                Next::Io { row, io } => {
                    let taken = self.target.takes(self.now_ns, io);
                    self.outcome.io_ns[row] = taken.ns;
                    if let Some(storage_ns) = self.outcome.storage_ns.get_mut(row) {
                        *storage_ns = taken.storage_ns;
                    }
                    self.lanes[lane].io_begins(taken.ns.round() as u64, taken.on_core);
                }
                Next::Signal => return self.leave_core(lane),
                Next::Row => continue,
                Next::Ended => return self.leave_core(lane),
            }
        }
    }

    fn on_core(&mut self, lane: usize, ns: u64) {
        let over = !self.ready.is_empty() && self.lanes[lane].held_ns >= QUANTUM_NS;
        if self.lanes[lane].on_core && !over && self.budget.left_ns(self.now_ns) > 0 {
            return self.take_stretch(lane, ns);
        }
        self.ready.push_back(lane);
        self.leave_core(lane);
        self.hand_out();
    }

    /// Free cores to the lanes that want one, first come first served, while the quota lasts.
    fn hand_out(&mut self) {
        while self.free_cores > 0 && !self.ready.is_empty() {
            if self.budget.left_ns(self.now_ns) == 0 {
                return self.throttle();
            }
            let lane = self.ready.pop_front().expect("one is ready");
            let Next::Core { ns } = self.lanes[lane].next(self.rows, &self.happened) else {
                unreachable!("a lane that wants a core has CPU time to burn");
            };
            self.take_core(lane, ns);
        }
        if !self.ready.is_empty() {
            self.break_stretches();
        }
    }

    /// Lanes that have a core to themselves share it from the end of their quantum on.
    fn break_stretches(&mut self) {
        for lane in std::mem::take(&mut self.unbroken) {
            let (ends_ns, number) = self.lanes[lane].due;
            let began_ns = ends_ns - self.lanes[lane].stretch_ns();
            let quanta = (self.now_ns - began_ns).div_ceil(QUANTUM_NS).max(1);
            let stretch_ns = quanta * QUANTUM_NS;
            if began_ns + stretch_ns < ends_ns {
                self.lanes[lane].shorten_stretch(stretch_ns);
                self.lanes[lane].due = (began_ns + stretch_ns, number);
                self.due.push(Reverse((began_ns + stretch_ns, number, lane)));
            }
        }
    }

    /// Nobody gets a core before the next period.
    fn throttle(&mut self) {
        if !std::mem::replace(&mut self.throttled, true) {
            let wait_ns = self.budget.until_ns() - self.now_ns;
            self.outcome.throttled_ns += wait_ns;
            self.schedule(NEW_PERIOD, wait_ns);
        }
    }

    fn take_core(&mut self, lane: usize, ns: u64) {
        self.free_cores -= 1;
        self.lanes[lane].on_core = true;
        self.lanes[lane].held_ns = 0;
        self.take_stretch(lane, ns);
    }

    fn take_stretch(&mut self, lane: usize, ns: u64) {
        let shared = self.budget.limited() || !self.ready.is_empty();
        let most_ns = if shared { QUANTUM_NS } else { u64::MAX };
        let most_ns = most_ns.min(self.budget.left_ns(self.now_ns));
        let (stretch_ns, temp) = self.lanes[lane].take_stretch(ns.min(most_ns));
        if stretch_ns > QUANTUM_NS {
            self.unbroken.push(lane);
        }
        self.budget.take(stretch_ns);
        self.temp_begins(temp);
        self.schedule(lane, stretch_ns);
    }

    fn leave_core(&mut self, lane: usize) {
        if std::mem::replace(&mut self.lanes[lane].on_core, false) {
            self.free_cores += 1;
            self.hand_out();
        }
    }

    fn stretch_ended(&mut self, lane: usize) {
        self.unbroken.retain(|&unbroken| unbroken != lane);
        let ended_temp = self.lanes[lane].stretch_ended();
        self.temp_ends(ended_temp);
        let computes = self.lanes[lane].left_ns() > 0;
        self.go_on(lane);
        if computes {
            self.pass_cycles();
        } else {
            self.cycle.ends();
        }
    }

    /// What `row` waits for is done; its thread goes on if it is there already.
    fn happens(&mut self, row: usize) {
        self.happened[row] = true;
        let lane = self.rows.row(row).thread as usize;
        if self.lanes[lane].waiting_row() == Some(row) {
            self.lanes[lane].wait_over();
            self.schedule(lane, 0);
        }
    }

    fn schedule(&mut self, lane: usize, ns: u64) {
        self.numbered += 1;
        if lane != NEW_PERIOD {
            self.lanes[lane].due = (self.now_ns + ns, self.numbered);
        }
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
