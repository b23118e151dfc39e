//! An application as its event log shows it: executors, jobs, stages and tasks.

use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// One application. Times are of the driver's clock, in ms since 1970.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Application {
    pub id: String,
    pub started_ms: Option<i64>,
    /// None while it runs, and where the log was cut.
    pub ended_ms: Option<i64>,
    /// The last time that the log names.
    pub last_ms: i64,
    /// Those that tell how tasks are scheduled, where temp files lie and which engine runs them.
    pub properties: BTreeMap<String, String>,
    /// Engines beside Spark's own, as the nodes of plans name them.
    pub plan_engines: BTreeSet<String>,
    /// Whether a stage reads or makes cached blocks that are kept on disk alone.
    pub caches_on_disk: bool,
    pub executors: Vec<Executor>,
    pub executions: Vec<Execution>,
    pub jobs: Vec<Job>,
    pub stages: Vec<Stage>,
    #[serde(skip)]
    pub tasks: Vec<Task>,
    /// Lines that are no event, such as the last line of a log that is still written.
    pub damaged_lines: u64,
    /// The id of another application that the parts hold as well.
    pub other_id: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Executor {
    pub id: String,
    pub host: String,
    pub cores: u32,
    /// The log does not hold its cores: they are the most tasks that it ran at once.
    pub inferred: bool,
    pub added_ms: i64,
    pub removed_ms: Option<i64>,
}

/// An SQL query, or another action on data frames.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Execution {
    pub id: i64,
    /// Its SQL text, or where the program called an action.
    pub(crate) description: String,
    pub started_ms: i64,
    pub ended_ms: Option<i64>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Job {
    pub id: i64,
    /// The SQL execution that it is part of.
    pub execution: Option<i64>,
    pub submitted_ms: i64,
    pub completed_ms: Option<i64>,
    /// The ids of its stages, including those whose output an earlier job has made.
    pub stage_ids: Vec<i64>,
}

/// An attempt of a stage that ran tasks, with their sums.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Stage {
    pub id: i64,
    pub attempt: i64,
    pub name: String,
    /// The ids of the stages whose shuffles it reads.
    pub parents: Vec<i64>,
    pub job: Option<i64>,
    pub submitted_ms: Option<i64>,
    pub completed_ms: Option<i64>,
    pub task_count: u64,
    /// As many as it ended with at least; None where the log lacks that, or the stage failed.
    pub stated_tasks: Option<u64>,
    /// Time of its tasks from launch to end.
    pub task_ms: i64,
    #[serde(flatten)]
    pub sums: Metrics,
}

/// One attempt of a task.
#[derive(Clone, Debug, Default)]
pub struct Task {
    /// Its place among the stages of the application.
    pub stage: u32,
    /// Its place among the executors of the application.
    pub executor: u32,
    pub launched_ms: i64,
    /// As the driver learnt of it; the slot was free a little before.
    pub finished_ms: i64,
    /// Time on the executor.
    pub executor_ms: i64,
    /// Memory of its sorts, joins and aggregates at its peak; 0 where the log lacks it.
    pub peak_memory_bytes: i64,
    /// Size in memory of what it spilled.
    pub spilled_memory_bytes: i64,
    pub metrics: Metrics,
}

/// What an executor counted of tasks. Bytes of a shuffle are as compressed.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Metrics {
    pub run_ms: i64,
    pub cpu_ns: i64,
    pub gc_ms: i64,
    pub spill_bytes: i64,
    pub shuffle_write_bytes: i64,
    pub shuffle_write_ns: i64,
    pub shuffle_read_local_bytes: i64,
    pub shuffle_read_remote_bytes: i64,
    pub fetch_wait_ms: i64,
    pub input_bytes: i64,
    pub output_bytes: i64,
}

impl Metrics {
    pub fn add(&mut self, other: &Metrics) {
        self.run_ms += other.run_ms;
        self.cpu_ns += other.cpu_ns;
        self.gc_ms += other.gc_ms;
        self.spill_bytes += other.spill_bytes;
        self.shuffle_write_bytes += other.shuffle_write_bytes;
        self.shuffle_write_ns += other.shuffle_write_ns;
        self.shuffle_read_local_bytes += other.shuffle_read_local_bytes;
        self.shuffle_read_remote_bytes += other.shuffle_read_remote_bytes;
        self.fetch_wait_ms += other.fetch_wait_ms;
        self.input_bytes += other.input_bytes;
        self.output_bytes += other.output_bytes;
    }

    pub(crate) fn shuffle_read_bytes(&self) -> i64 {
        self.shuffle_read_local_bytes + self.shuffle_read_remote_bytes
    }
}

impl Application {
    /// Adds up the tasks of each stage.
    pub(super) fn sum_tasks(&mut self) {
        for task in &self.tasks {
            let stage = &mut self.stages[task.stage as usize];
            stage.task_count += 1;
            stage.task_ms += task.finished_ms - task.launched_ms;
            stage.sums.add(&task.metrics);
        }
    }

    /// Gives executors whose start the log lacks as many cores as the most tasks they ran at once.
    pub(super) fn infer_cores(&mut self) {
        let cpus = self.task_cpus();
        for (at, tasks) in self.tasks_at_once().into_iter().enumerate() {
            let executor = &mut self.executors[at];
            if executor.cores == 0 {
                (executor.cores, executor.inferred) = (tasks.max(1) * cpus, true);
            }
        }
    }

    pub(crate) fn task_cpus(&self) -> u32 {
        let cpus = self.properties.get("spark.task.cpus").and_then(|cpus| cpus.parse().ok());
        cpus.unwrap_or(1).max(1)
    }

    /// Tasks that an executor runs at once.
    pub fn slots(&self, executor: &Executor) -> u32 {
        (executor.cores / self.task_cpus()).max(1)
    }

    /// An executor that ran more tasks at once than its cores allow, and how many.
    pub fn overfull_executor(&self) -> Option<(&Executor, u32)> {
        let mut executors = self.executors.iter().zip(self.tasks_at_once());
        executors.find(|(executor, tasks)| *tasks > self.slots(executor))
    }

    /// The most tasks that each executor ran at once.
    fn tasks_at_once(&self) -> Vec<u32> {
        let mut changes: Vec<Vec<(i64, i32)>> = vec![Vec::new(); self.executors.len()];
        for task in &self.tasks {
            // A slot is free again in the ms in which its task ends there.
            let ended_ms = task.finished_ms.min(task.launched_ms + task.executor_ms);
            changes[task.executor as usize].push((task.launched_ms, 1));
            changes[task.executor as usize].push((ended_ms, -1));
        }
        let most = |mut changes: Vec<(i64, i32)>| {
            changes.sort_unstable();
            let running = changes.iter().scan(0, |running, (_, change)| {
                *running += change;
                Some(*running)
            });
            running.max().unwrap_or(0) as u32
        };
        changes.into_iter().map(most).collect()
    }

    /// Tasks that began before their stage did, or ended after it.
    pub fn tasks_outside_stages(&self) -> usize {
        let outside = |task: &&Task| {
            let stage = &self.stages[task.stage as usize];
            stage.submitted_ms.is_some_and(|begin_ms| task.launched_ms < begin_ms)
                || stage.completed_ms.is_some_and(|end_ms| task.finished_ms > end_ms)
        };
        self.tasks.iter().filter(outside).count()
    }
}
