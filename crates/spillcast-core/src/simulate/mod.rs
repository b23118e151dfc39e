//! Simulates recorded threads on a storage: CPU, I/O, other waits, waits for each other.
//!
//! A discrete-event simulation. Each thread runs its rows in order: it burns CPU on one of the
//! cores, then waits for a given time, for another thread, or for an operation on the storage.

mod cached_reads;
mod cycle;
mod page_cache;
mod quota;
mod rows;
mod target;
mod thread;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

pub use cached_reads::CachedReads;
pub use page_cache::PageCacheLimits;
use quota::Budget;
pub use quota::Quota;
pub use rows::{Io, Row, Rows, Wait};
pub use target::Memory;
use target::Target;
use thread::{Next, Thread};

use crate::storage::{Model, Waits};

/// How long a thread keeps a core while other threads are ready; a few ms on Linux.
const QUANTUM_NS: u64 = 3_000_000;
/// The thread number of the event that starts a period of the quota.
const NEW_PERIOD: usize = usize::MAX;

/// The result of a simulation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Time from the start until the last thread has ended its last row.
    pub elapsed_ns: u64,
    /// Sum of the waits for temp I/O.
    pub temp_ns: u64,
    /// Time during which at least one temp operation was in flight.
    pub temp_busy_ns: u64,
    /// Waits that were ended because all threads waited for each other: the rows contradict.
    pub forced: u64,
    /// By row, the time that it waited for its I/O; 0 for rows without I/O.
    pub io_ns: Vec<f64>,
    /// The storage's part of `io_ns`; 0 if the page cache served it. Empty without a page cache.
    pub storage_ns: Vec<f64>,
    /// Time of the operations on the storage, by cause.
    pub waits: Waits,
    /// Time during which ready threads waited for the next period of the quota.
    pub throttled_ns: u64,
}

/// The cores that threads run on, and the limit of CPU time.
#[derive(Clone, Copy, Debug)]
pub struct Cpus {
    pub cores: usize,
    pub quota: Option<Quota>,
}

/// Simulates `rows`, in order for each thread, on `cpus` and a storage of `model`.
///
/// A thread keeps its core during an operation that takes no longer than `memory`. A `page_cache`
/// serves reads and absorbs writes before the storage.
pub fn run<R: Rows + ?Sized>(
    rows: &R,
    cpus: Cpus,
    model: Model,
    memory: Memory,
    page_cache: Option<PageCacheLimits>,
) -> Outcome {
    let target = Target::new(model, memory, page_cache, rows);
    let mut simulation = Simulation::new(rows, cpus, target);
    simulation.run();
    Outcome { waits: simulation.target.waits(), ..simulation.outcome }
}

struct Simulation<'a, R: Rows + ?Sized> {
    rows: &'a R,
    threads: Vec<Thread>,
    now_ns: u64,
    /// Pending events: time, number and thread. The number orders events of equal times. An event
    /// that is not its thread's `due` belongs to a stretch that was shortened.
    events: BinaryHeap<Reverse<(u64, u64, usize)>>,
    last_event: u64,
    free_cores: usize,
    /// Threads in a stretch longer than a quantum: no other thread was ready when it began.
    long_stretches: Vec<usize>,
    /// Ready threads, first come first served.
    ready: VecDeque<usize>,
    budget: Budget,
    /// Whether ready threads wait for the next period.
    throttled: bool,
    cycle: Cycle,
    /// By row that waits for another thread, whether it was signalled.
    signalled: Vec<bool>,
    temp_in_flight: u64,
    temp_since_ns: u64,
    target: Target,
    outcome: Outcome,
}

/// Detects a state that recurs.
struct Cycle {
    /// Consecutive quanta and periods before the search starts: most rows end earlier.
    events_min: u64,
    /// Consecutive quanta and periods without another event.
    events: u64,
    earlier: Option<Snapshot>,
}

/// A state, and the sums up to then.
struct Snapshot {
    state: State,
    now_ns: u64,
    owed_ns: u64,
    throttled_ns: u64,
    /// By thread, CPU time burned in its current row.
    done_ns: Vec<u64>,
}

/// Everything that decides how a simulation continues. Times are relative to its present.
#[derive(PartialEq)]
struct State {
    /// CPU time left in the quota's period, and the end of the period.
    period: (u64, i64),
    temp_ns: u64,
    /// Ready threads, in order.
    ready: Vec<usize>,
    /// Ends of stretches on a core, and the start of the next period, by time.
    due: Vec<Due>,
}

#[derive(PartialEq)]
struct Due {
    in_ns: u64,
    thread: usize,
    stretch_ns: u64,
    /// Time for which the thread will have held its core, capped at a quantum.
    held_ns: u64,
}

impl Default for Cycle {
    fn default() -> Cycle {
        Cycle { events_min: 32, events: 0, earlier: None }
    }
}

impl Cycle {
    /// Forgets the earlier state: another event has happened, so it cannot recur.
    fn reset(&mut self) {
        (self.events, self.earlier) = (0, None);
    }
}

impl<'a, R: Rows + ?Sized> Simulation<'a, R> {
    fn new(rows: &'a R, cpus: Cpus, target: Target) -> Simulation<'a, R> {
        let through_cache = if target.has_page_cache() { rows.count() } else { 0 };
        Simulation {
            rows,
            threads: thread::threads(rows),
            now_ns: 0,
            events: BinaryHeap::new(),
            last_event: 0,
            long_stretches: Vec::new(),
            free_cores: cpus.cores.max(1),
            ready: VecDeque::new(),
            budget: Budget::new(cpus.quota),
            throttled: false,
            cycle: Cycle::default(),
            signalled: vec![false; rows.count()],
            temp_in_flight: 0,
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
        for thread in 0..self.threads.len() {
            self.advance(thread);
        }
        loop {
            while let Some(Reverse((at_ns, number, thread))) = self.events.pop() {
                if thread == NEW_PERIOD {
                    self.now_ns = at_ns;
                    self.throttled = false;
                    self.dispatch();
                    self.skip_cycles();
                } else if self.threads[thread].due == (at_ns, number) {
                    self.now_ns = at_ns;
                    self.stretch_ended(thread);
                }
            }
            let stuck = self.threads.iter().filter_map(Thread::waiting_row).min();
            let Some(row) = stuck else { break };
            self.outcome.forced += 1;
            self.signal(row);
        }
        self.outcome.elapsed_ns = self.now_ns;
    }

    /// Starts the thread's next stretch: CPU up to a signal or the end of a quantum, or a wait.
    fn advance(&mut self, thread: usize) {
        loop {
            for row in self.threads[thread].signals_due() {
                self.signal(row);
            }
            match self.threads[thread].next(self.rows, &self.signalled) {
                Next::Core { ns } => return self.compute(thread, ns),
                Next::Wait { ns, temp } => {
                    self.budget.left_ns(self.now_ns);
                    self.budget.take(self.threads[thread].call_ns(ns));
                    self.leave_core(thread);
                    self.temp_begins(temp);
                    return self.schedule(thread, ns);
                }
                Next::Io { row, io } => {
                    let taken = self.target.issue(self.now_ns, io);
                    self.outcome.io_ns[row] = taken.ns;
                    if let Some(storage_ns) = self.outcome.storage_ns.get_mut(row) {
                        *storage_ns = taken.storage_ns;
                    }
                    self.threads[thread].io_begins(taken.ns.round() as u64, taken.on_core);
                }
                Next::Signal => return self.leave_core(thread),
                Next::Row => continue,
                Next::Ended => return self.leave_core(thread),
            }
        }
    }

    fn compute(&mut self, thread: usize, ns: u64) {
        let quantum_over = !self.ready.is_empty() && self.threads[thread].held_ns >= QUANTUM_NS;
        if self.threads[thread].on_core && !quantum_over && self.budget.left_ns(self.now_ns) > 0 {
            return self.take_stretch(thread, ns);
        }
        self.ready.push_back(thread);
        self.leave_core(thread);
        self.dispatch();
    }

    /// Gives free cores to ready threads while the quota lasts.
    fn dispatch(&mut self) {
        while self.free_cores > 0 && !self.ready.is_empty() {
            if self.budget.left_ns(self.now_ns) == 0 {
                return self.throttle();
            }
            let thread = self.ready.pop_front().expect("one is ready");
            let Next::Core { ns } = self.threads[thread].next(self.rows, &self.signalled) else {
                unreachable!("a thread that wants a core has CPU time to burn");
            };
            self.take_core(thread, ns);
        }
        if !self.ready.is_empty() {
            self.shorten_long_stretches();
        }
    }

    /// Ends long stretches at the next multiple of a quantum, because other threads are ready.
    fn shorten_long_stretches(&mut self) {
        for thread in std::mem::take(&mut self.long_stretches) {
            let (ends_ns, number) = self.threads[thread].due;
            let began_ns = ends_ns - self.threads[thread].stretch_ns();
            let quanta = (self.now_ns - began_ns).div_ceil(QUANTUM_NS).max(1);
            let stretch_ns = quanta * QUANTUM_NS;
            if began_ns + stretch_ns < ends_ns {
                self.threads[thread].shorten_stretch(stretch_ns);
                self.threads[thread].due = (began_ns + stretch_ns, number);
                self.events.push(Reverse((began_ns + stretch_ns, number, thread)));
            }
        }
    }

    /// Gives no thread a core until the next period.
    fn throttle(&mut self) {
        if !std::mem::replace(&mut self.throttled, true) {
            let wait_ns = self.budget.until_ns() - self.now_ns;
            self.outcome.throttled_ns += wait_ns;
            self.schedule(NEW_PERIOD, wait_ns);
        }
    }

    fn take_core(&mut self, thread: usize, ns: u64) {
        self.free_cores -= 1;
        self.threads[thread].on_core = true;
        self.threads[thread].held_ns = 0;
        self.take_stretch(thread, ns);
    }

    fn take_stretch(&mut self, thread: usize, ns: u64) {
        let shared = self.budget.limited() || !self.ready.is_empty();
        let most_ns = if shared { QUANTUM_NS } else { u64::MAX };
        let most_ns = most_ns.min(self.budget.left_ns(self.now_ns));
        let (stretch_ns, temp) = self.threads[thread].take_stretch(ns.min(most_ns));
        if stretch_ns > QUANTUM_NS {
            self.long_stretches.push(thread);
        }
        self.budget.take(stretch_ns);
        self.temp_begins(temp);
        self.schedule(thread, stretch_ns);
    }

    fn leave_core(&mut self, thread: usize) {
        if std::mem::replace(&mut self.threads[thread].on_core, false) {
            self.free_cores += 1;
            self.dispatch();
        }
    }

    fn stretch_ended(&mut self, thread: usize) {
        self.long_stretches.retain(|&other| other != thread);
        let ended_temp = self.threads[thread].stretch_ended();
        self.temp_ends(ended_temp);
        let computes = self.threads[thread].left_ns() > 0;
        self.advance(thread);
        if computes {
            self.skip_cycles();
        } else {
            self.cycle.reset();
        }
    }

    /// Signals `row`, whose condition is met; a thread that waits in it continues.
    fn signal(&mut self, row: usize) {
        self.signalled[row] = true;
        let thread = self.rows.row(row).thread as usize;
        if self.threads[thread].waiting_row() == Some(row) {
            self.threads[thread].wait_over();
            self.schedule(thread, 0);
        }
    }

    fn schedule(&mut self, thread: usize, ns: u64) {
        self.last_event += 1;
        if thread != NEW_PERIOD {
            self.threads[thread].due = (self.now_ns + ns, self.last_event);
        }
        self.events.push(Reverse((self.now_ns + ns, self.last_event, thread)));
    }

    fn temp_begins(&mut self, ns: Option<u64>) {
        let Some(ns) = ns else { return };
        self.outcome.temp_ns += ns;
        if self.temp_in_flight == 0 {
            self.temp_since_ns = self.now_ns;
        }
        self.temp_in_flight += 1;
    }

    fn temp_ends(&mut self, temp: bool) {
        if temp {
            self.temp_in_flight -= 1;
            if self.temp_in_flight == 0 {
                self.outcome.temp_busy_ns += self.now_ns - self.temp_since_ns;
            }
        }
    }
}

#[cfg(test)]
mod tests;
