//! Simulates an application with its temp files on another storage.
//!
//! Stages start as in the log: after their parents and their job, with the driver's delay. Jobs and
//! SQL executions start after all that had ended before them in the log. A task is a phase for each
//! kind of file that it writes, and each phase reads what the one before it wrote: its spill, a
//! file for each partition, its part of the shuffle. The time of a task beyond its simulated I/O on
//! the recorded storage is work, which does not depend on the storage.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

use rustc_hash::{FxHashMap, FxHashSet};

use super::application::{Application, Task};
use super::node::{File, Node, NodeStorage, Phase, Read};
use super::order::{Order, Point};

/// Events between two calls of `should_continue`, which take some hundredths of a second.
const EVENTS_PER_CHECK: u32 = 1 << 10;
/// The share of a task's work that is done before its spill is read back.
const BEFORE_SPILL: f64 = 0.5;

/// The result of a simulation; times in seconds since the application started.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub elapsed_s: f64,
    /// By stage of the application.
    pub stages: Vec<StageOutcome>,
    /// Start and end, by execution and by job of the application.
    pub executions: Vec<(f64, f64)>,
    pub jobs: Vec<(f64, f64)>,
    /// By task: time waiting for reads and for writes.
    pub(crate) waits_s: Vec<(f64, f64)>,
}

/// The start and end of a stage, and sums over its tasks.
#[derive(Clone, Copy, Debug, Default)]
pub struct StageOutcome {
    pub begin_s: f64,
    pub end_s: f64,
    pub work_s: f64,
    pub read_wait_s: f64,
    pub write_wait_s: f64,
}

/// By task, the time that does not depend on storage: its duration less its waits, which are
/// simulated with the least work on the storage it ran on. A device that is always busy agrees with
/// work of any length, so the log bounds both: the time is at least `least_work_s`, and the wait is
/// at least the excess of shuffle writes over the CPU time and pauses of the whole task.
///
/// The waits are not simulated again with this work: if the device was always busy, any work
/// explains the log, and each round would turn the model's error into more work.
///
/// None if `should_continue` ended the simulation.
pub fn work_s(
    application: &Application,
    storage: &NodeStorage,
    should_continue: &mut dyn FnMut() -> bool,
) -> Option<Vec<f64>> {
    let least_s = least_work_s(application, None);
    let waits_s = simulate(application, storage, &least_s, should_continue)?.waits_s;
    let tasks = application.tasks.iter().zip(waits_s).zip(least_s);
    let work_s = tasks.map(|((task, (read_s, write_s)), least_s)| {
        let mut wait_s = read_s + write_s;
        if storage.write_bytes_per_s.is_finite() {
            let writes_s = task.metrics.shuffle_write_ns as f64 / 1e9;
            wait_s = wait_s.max(writes_s - busy_s(task));
        }
        (took_s(task) - wait_s).max(least_s)
    });
    Some(work_s.collect())
}

/// CPU time and JVM pauses.
fn busy_s(task: &Task) -> f64 {
    task.metrics.cpu_ns as f64 / 1e9 + task.metrics.gc_ms as f64 / 1e3
}

/// By task, the time that does not depend on storage, given its waits for storage: at least
/// `least_work_s`.
pub fn work_beside_s(application: &Application, waits_s: &[f64]) -> Vec<f64> {
    let tasks = application.tasks.iter().zip(waits_s).zip(least_work_s(application, None));
    tasks.map(|((task, wait_s), least_s)| (took_s(task) - wait_s).max(least_s)).collect()
}

/// By task, the time that was certainly not a wait for storage: CPU time, JVM pauses, and, if the
/// task neither spilled nor read local blocks, its time outside shuffle writes and fetches.
///
/// On a known storage, a task's wait is at most the time of all its I/O on the device, with nothing
/// in the page cache, while every slot of the node transfers as much.
pub fn least_work_s(application: &Application, storage: Option<&NodeStorage>) -> Vec<f64> {
    let all_io_s = storage.map(|storage| all_io_s(application, storage));
    let least_s = application.tasks.iter().enumerate().map(|(at, task)| {
        let metrics = &task.metrics;
        let untimed = metrics.spill_bytes > 0 || metrics.shuffle_read_local_bytes > 0;
        let timed_s = metrics.shuffle_write_ns as f64 / 1e9 + metrics.fetch_wait_ms as f64 / 1e3;
        let mut waits_s = if untimed { took_s(task) } else { timed_s };
        if let Some(all_io_s) = &all_io_s {
            waits_s = waits_s.min(all_io_s[at]);
        }
        busy_s(task).max(took_s(task) - waits_s).min(took_s(task))
    });
    least_s.collect()
}

/// By task, the device time of all its I/O, with nothing in the page cache, while every slot of its
/// node transfers as much.
fn all_io_s(application: &Application, storage: &NodeStorage) -> Vec<f64> {
    let by_partition = by_partition(application);
    let slots = slots_of_nodes(application);
    let bytes_per_s = storage.read_bytes_per_s.min(storage.write_bytes_per_s);
    let io_s = application.tasks.iter().map(|Task { stage, executor, metrics, .. }| {
        let writes = if by_partition[*stage as usize] { 2.0 } else { 1.0 };
        let moved = 2.0 * metrics.spill_bytes as f64
            + writes * metrics.shuffle_write_bytes as f64
            + metrics.shuffle_read_bytes() as f64;
        f64::from(slots[*executor as usize]) * moved / bytes_per_s
    });
    io_s.collect()
}

/// By executor, the slots of all executors on its node.
fn slots_of_nodes(application: &Application) -> Vec<u32> {
    let mut of_host: BTreeMap<&str, u32> = BTreeMap::new();
    for executor in &application.executors {
        *of_host.entry(&executor.host).or_default() += application.slots(executor);
    }
    application.executors.iter().map(|executor| of_host[executor.host.as_str()]).collect()
}

fn took_s(task: &Task) -> f64 {
    (task.finished_ms - task.launched_ms) as f64 / 1e3
}

/// Simulates the application with its temp files on `storage` and the given work of each task.
/// Returns None if `should_continue`, which is called now and then, ended it.
pub fn simulate(
    application: &Application,
    storage: &NodeStorage,
    work_s: &[f64],
    should_continue: &mut dyn FnMut() -> bool,
) -> Option<Outcome> {
    Cluster::new(application, storage, work_s).run(should_continue)
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A node's rates change, unless they have been updated since.
    Node {
        node: usize,
        version: u64,
    },
    Point(Point),
}

struct Cluster<'a> {
    application: &'a Application,
    work_s: &'a [f64],
    order: Order,
    nodes: Vec<Node>,
    versions: Vec<u64>,
    node_of_executor: Vec<usize>,
    is_present: Vec<bool>,
    free_slots: Vec<u32>,
    /// Executors with free slots, those with the most last.
    by_free_slots: BTreeSet<(u32, Reverse<usize>)>,
    /// Tasks that wait for a slot, in order, by job and stage.
    queues: BTreeMap<(usize, u32), VecDeque<u32>>,
    tasks_of_stage: Vec<Vec<u32>>,
    tasks_left: Vec<usize>,
    executor_of_task: Vec<u32>,
    /// By stage, whether its tasks write a file for each partition and then join the files.
    by_partition: Vec<bool>,
    /// By stage, how many times its shuffle is read.
    times_read: Vec<f64>,
    /// Keyed by the bits of the time (s), which sort like the time because it is never negative.
    events: BinaryHeap<Reverse<(u64, Event)>>,
    outcome: Outcome,
}

impl<'a> Cluster<'a> {
    fn new(application: &'a Application, storage: &NodeStorage, work_s: &'a [f64]) -> Cluster<'a> {
        let mut hosts: Vec<&str> = Vec::new();
        let node_of_executor = application.executors.iter().map(|executor| {
            hosts.iter().position(|&host| host == executor.host).unwrap_or_else(|| {
                hosts.push(&executor.host);
                hosts.len() - 1
            })
        });
        let node_of_executor: Vec<usize> = node_of_executor.collect();
        let mut tasks_of_stage = vec![Vec::new(); application.stages.len()];
        for (at, task) in application.tasks.iter().enumerate() {
            tasks_of_stage[task.stage as usize].push(at as u32);
        }
        let tasks = application.tasks.len();
        let order = Order::of(application);
        Cluster {
            application,
            work_s,
            times_read: times_read(application, &order),
            order,
            nodes: hosts.iter().map(|_| Node::new(*storage)).collect(),
            versions: vec![0; hosts.len()],
            node_of_executor,
            is_present: vec![false; application.executors.len()],
            free_slots: vec![0; application.executors.len()],
            by_free_slots: BTreeSet::new(),
            queues: BTreeMap::new(),
            tasks_left: tasks_of_stage.iter().map(Vec::len).collect(),
            tasks_of_stage,
            executor_of_task: vec![0; tasks],
            by_partition: by_partition(application),
            events: BinaryHeap::new(),
            outcome: Outcome {
                stages: vec![StageOutcome::default(); application.stages.len()],
                executions: vec![(0.0, 0.0); application.executions.len()],
                jobs: vec![(0.0, 0.0); application.jobs.len()],
                waits_s: vec![(0.0, 0.0); tasks],
                ..Outcome::default()
            },
        }
    }

    fn run(mut self, should_continue: &mut dyn FnMut() -> bool) -> Option<Outcome> {
        self.schedule(0.0);
        let (mut last_s, mut events) = (0.0, 0);
        loop {
            while let Some(Reverse((bits, event))) = self.events.pop() {
                let now_s = f64::from_bits(bits);
                events += 1;
                if events % EVENTS_PER_CHECK == 0 && !should_continue() {
                    return None;
                }
                last_s = now_s;
                match event {
                    Event::Node { node, version } => {
                        if version == self.versions[node] {
                            self.advance(node, now_s);
                            self.dispatch(now_s);
                        }
                    }
                    Event::Point(point) => self.reach(point, now_s),
                }
            }
            // If tasks took longer than in the log, executors may be removed before the last tasks.
            let absent: Vec<usize> =
                (0..self.is_present.len()).filter(|&at| !self.is_present[at]).collect();
            if self.queues.is_empty() || absent.is_empty() {
                self.outcome.elapsed_s = self.order.elapsed_s();
                return Some(self.outcome);
            }
            absent.into_iter().for_each(|at| self.reach(Point::ExecutorAdded(at), last_s));
        }
    }

    fn set_free_slots(&mut self, executor: usize, free: u32) {
        self.by_free_slots.remove(&(self.free_slots[executor], Reverse(executor)));
        self.free_slots[executor] = free;
        if free > 0 {
            self.by_free_slots.insert((free, Reverse(executor)));
        }
    }

    /// Queues the points that are ready.
    fn schedule(&mut self, now_s: f64) {
        for (at_s, point) in self.order.take_ready() {
            self.events.push(Reverse((at_s.max(now_s).to_bits(), Event::Point(point))));
        }
    }

    fn reach(&mut self, point: Point, now_s: f64) {
        match point {
            Point::ExecutionBegin(at) => self.outcome.executions[at].0 = now_s,
            Point::ExecutionEnd(at) => self.outcome.executions[at].1 = now_s,
            Point::JobBegin(at) => self.outcome.jobs[at].0 = now_s,
            Point::JobEnd(at) => self.outcome.jobs[at].1 = now_s,
            Point::StageBegin(at) => {
                self.outcome.stages[at].begin_s = now_s;
                let tasks: VecDeque<u32> = self.tasks_of_stage[at].iter().copied().collect();
                if tasks.is_empty() {
                    return self.reach(Point::StageEnd(at), now_s);
                }
                self.queues.insert((self.order.job_of_stage(at), at as u32), tasks);
            }
            Point::StageEnd(at) => self.outcome.stages[at].end_s = now_s,
            Point::ExecutorAdded(at) => {
                self.is_present[at] = true;
                self.set_free_slots(at, self.application.slots(&self.application.executors[at]));
                return self.dispatch(now_s);
            }
            // Its running tasks still run to completion.
            Point::ExecutorRemoved(at) => {
                self.is_present[at] = false;
                return self.set_free_slots(at, 0);
            }
        }
        self.order.reached(point, now_s);
        self.schedule(now_s);
        if matches!(point, Point::StageBegin(_)) {
            self.dispatch(now_s);
        }
    }

    /// Starts waiting tasks, earliest job and stage first, each on the executor with the most free
    /// slots.
    fn dispatch(&mut self, now_s: f64) {
        let mut changed = vec![false; self.nodes.len()];
        while let Some(mut queue) = self.queues.first_entry() {
            let Some(&(free, Reverse(executor))) = self.by_free_slots.last() else { break };
            let task = queue.get_mut().pop_front();
            if queue.get().is_empty() {
                queue.remove();
            }
            let Some(task) = task else { continue };
            self.set_free_slots(executor, free - 1);
            self.executor_of_task[task as usize] = executor as u32;
            let node = self.node_of_executor[executor];
            if !changed[node] {
                changed[node] = true;
                self.settle(node, now_s);
            }
            let phase = self.phase_after(task, None);
            self.nodes[node].start(phase);
        }
        for (node, changed) in changed.into_iter().enumerate() {
            if changed {
                self.update(node);
            }
        }
    }

    /// Advances a node to the present before a phase starts on it.
    fn settle(&mut self, node: usize, now_s: f64) {
        let ended = self.nodes[node].advance(now_s);
        for phase in ended {
            self.phase_ended(phase, node, now_s);
        }
    }

    fn advance(&mut self, node: usize, now_s: f64) {
        self.settle(node, now_s);
        self.update(node);
    }

    fn update(&mut self, node: usize) {
        self.nodes[node].update();
        self.versions[node] += 1;
        let next_s = self.nodes[node].next_s();
        if next_s.is_finite() {
            let event = Event::Node { node, version: self.versions[node] };
            self.events.push(Reverse((next_s.to_bits(), event)));
        }
    }

    /// The phase of a task after the one that wrote `written`, or its first phase.
    fn phase_after(&self, task: u32, written: Option<File>) -> Phase {
        let Task { stage, metrics, .. } = &self.application.tasks[task as usize];
        let (spilled, shuffled) = (metrics.spill_bytes as f64, metrics.shuffle_write_bytes as f64);
        let by_partition = self.by_partition[*stage as usize] && shuffled > 0.0;
        let done = match written {
            None => 0.0,
            Some(File::Spill(_)) => BEFORE_SPILL,
            Some(_) => 1.0,
        };
        let (file, until, written_bytes) = match written {
            None if spilled > 0.0 => (File::Spill(task), BEFORE_SPILL, spilled),
            None | Some(File::Spill(_)) if by_partition => (File::Partitions(task), 1.0, shuffled),
            _ => (File::Shuffle(*stage), 1.0, shuffled),
        };
        let read_back = |file, bytes| vec![Read { file, bytes, times_read: 1.0 }];
        let reads = match written {
            None => self.inputs(task),
            Some(File::Spill(_)) => read_back(File::Spill(task), spilled),
            Some(file) => read_back(file, shuffled),
        };
        Phase {
            task,
            stage: *stage,
            work_s: (until - done) * self.work_s[task as usize],
            reads,
            written_bytes,
            file,
            left: 1.0,
            read_wait_s: 0.0,
            write_wait_s: 0.0,
        }
    }

    /// What a task reads from shuffles. All of it counts on the task's own node: each node reads
    /// from the others as much as they read from it.
    fn inputs(&self, task: u32) -> Vec<Read> {
        let Task { stage, metrics, .. } = &self.application.tasks[task as usize];
        let parents = self.order.parents(*stage as usize);
        let bytes = metrics.shuffle_read_bytes() as f64;
        let written = |stage: usize| self.application.stages[stage].sums.shuffle_write_bytes as f64;
        let all: f64 = parents.iter().map(|&parent| written(parent)).sum();
        if bytes == 0.0 || all == 0.0 {
            return Vec::new();
        }
        let reads = parents.iter().map(|&parent| Read {
            file: File::Shuffle(parent as u32),
            bytes: bytes * written(parent) / all,
            times_read: self.times_read[parent],
        });
        reads.collect()
    }

    fn phase_ended(&mut self, phase: Phase, node: usize, now_s: f64) {
        let task = phase.task;
        let stage = self.application.tasks[task as usize].stage as usize;
        let waits = &mut self.outcome.waits_s[task as usize];
        waits.0 += phase.read_wait_s;
        waits.1 += phase.write_wait_s;
        let sums = &mut self.outcome.stages[stage];
        sums.work_s += phase.work_s;
        sums.read_wait_s += phase.read_wait_s;
        sums.write_wait_s += phase.write_wait_s;
        let next = match phase.file {
            File::Spill(_) => Some(self.phase_after(task, Some(phase.file))),
            File::Partitions(_) => {
                self.nodes[node].remove(File::Spill(task), task);
                Some(self.phase_after(task, Some(phase.file)))
            }
            File::Shuffle(_) => {
                self.nodes[node].remove(File::Spill(task), task);
                self.nodes[node].remove(File::Partitions(task), task);
                self.nodes[node].removal(task, stage as u32)
            }
            File::Removed(_) | File::Consumed(_) => None,
        };
        if let Some(next) = next {
            return self.nodes[node].start(next);
        }
        let executor = self.executor_of_task[task as usize] as usize;
        if self.is_present[executor] {
            self.set_free_slots(executor, self.free_slots[executor] + 1);
        }
        self.tasks_left[stage] -= 1;
        if self.tasks_left[stage] == 0 {
            self.reach(Point::StageEnd(stage), now_s);
        }
    }
}

/// By stage, whether its shuffle has so few partitions that Spark first writes a file for each.
fn by_partition(application: &Application) -> Vec<bool> {
    let number = |name: &str| -> Option<u64> { application.properties.get(name)?.parse().ok() };
    let threshold = number("spark.shuffle.sort.bypassMergeThreshold").unwrap_or(200);
    let partitions = number("spark.sql.adaptive.coalescePartitions.initialPartitionNum")
        .or_else(|| number("spark.sql.shuffle.partitions"))
        .unwrap_or(200);
    let mut readers: FxHashMap<i64, u64> = FxHashMap::default();
    for stage in &application.stages {
        for &parent in &stage.parents {
            let tasks = readers.entry(parent).or_default();
            *tasks = stage.task_count.max(*tasks);
        }
    }
    let sql_jobs = application.jobs.iter().filter(|job| job.execution.is_some());
    let sql_jobs: FxHashSet<i64> = sql_jobs.map(|job| job.id).collect();
    let stages = application.stages.iter().map(|stage| {
        let of_sql = stage.job.is_some_and(|id| sql_jobs.contains(&id));
        // With AQE a task may read several partitions, so there are at least as many as tasks.
        let tasks = readers.get(&stage.id).copied().unwrap_or(0);
        let partitions = if of_sql { partitions } else { 0 }.max(tasks);
        // 0 if no stage reads it and its number of partitions is unknown.
        (1..=threshold).contains(&partitions)
    });
    stages.collect()
}

/// By stage, how many times its shuffle is read: more than once if an exchange is reused.
fn times_read(application: &Application, order: &Order) -> Vec<f64> {
    let written = |stage: usize| application.stages[stage].sums.shuffle_write_bytes as f64;
    let mut read = vec![0.0; application.stages.len()];
    for (at, stage) in application.stages.iter().enumerate() {
        let all: f64 = order.parents(at).iter().map(|&parent| written(parent)).sum();
        for &parent in order.parents(at) {
            read[parent] += stage.sums.shuffle_read_bytes() as f64 * written(parent) / all.max(1.0);
        }
    }
    let times = read.iter().enumerate().map(|(at, read)| (read / written(at).max(1.0)).round());
    times.map(|times| times.max(1.0)).collect()
}
