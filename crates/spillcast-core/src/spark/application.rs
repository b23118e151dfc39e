//! An application as recorded in its event log: executors, jobs, stages and tasks.

use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// One application. Times are on the driver's clock, in ms since 1970.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Application {
    pub id: String,
    pub started_ms: Option<i64>,
    /// None while the application runs, and if the log was cut.
    pub ended_ms: Option<i64>,
    /// The last time in the log.
    pub last_ms: i64,
    /// Properties about the scheduling of tasks, the place of temp files and the engine.
    pub properties: BTreeMap<String, String>,
    /// Engines other than Spark's own, from the names of plan nodes.
    pub plan_engines: BTreeSet<String>,
    /// Whether a stage reads or creates cached blocks that are stored only on disk.
    pub caches_on_disk: bool,
    pub executors: Vec<Executor>,
    pub executions: Vec<Execution>,
    pub jobs: Vec<Job>,
    pub stages: Vec<Stage>,
    #[serde(skip)]
    pub tasks: Vec<Task>,
    /// Lines that are not events, such as the incomplete last line of a log still being written.
    pub damaged_lines: u64,
    /// The id of another application in the same parts.
    pub other_id: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Executor {
    pub id: String,
    pub host: String,
    pub cores: u32,
    /// Whether `cores` is inferred from the most concurrent tasks, because the log lacks it.
    pub inferred: bool,
    pub added_ms: i64,
    pub removed_ms: Option<i64>,
}

/// An SQL query, or another action on data frames.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Execution {
    pub id: i64,
    /// The SQL text, or the place in the program that called an action.
    pub(crate) description: String,
    pub started_ms: i64,
    pub ended_ms: Option<i64>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Job {
    pub id: i64,
    /// The SQL execution of the job.
    pub execution: Option<i64>,
    pub submitted_ms: i64,
    pub completed_ms: Option<i64>,
    /// The ids of its stages, including stages whose output an earlier job has already produced.
    pub stage_ids: Vec<i64>,
}

/// An attempt of a stage that ran tasks, and sums over these tasks.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Stage {
    pub id: i64,
    pub attempt: i64,
    pub name: String,
    /// The ids of the stages whose shuffles this stage reads.
    pub parents: Vec<i64>,
    pub job: Option<i64>,
    pub submitted_ms: Option<i64>,
    pub completed_ms: Option<i64>,
    pub task_count: u64,
    /// The stage ended with at least this many tasks; None if the log lacks it or it failed.
    pub stated_tasks: Option<u64>,
    /// Sum of task times from launch to end.
    pub task_ms: i64,
    #[serde(flatten)]
    pub sums: Metrics,
}

/// One attempt of a task.
#[derive(Clone, Debug, Default)]
pub struct Task {
    /// Index among the stages of the application.
    pub stage: u32,
    /// Index among the executors of the application.
    pub executor: u32,
    pub launched_ms: i64,
    /// When the driver learnt of the end; the slot became free a little earlier.
    pub finished_ms: i64,
    /// Time on the executor.
    pub executor_ms: i64,
    /// Peak memory of sorts, joins and aggregates; 0 if the log lacks it.
    pub peak_memory_bytes: i64,
    /// Size in memory of spilled data.
    pub spilled_memory_bytes: i64,
    pub metrics: Metrics,
}

/// What an executor counted for tasks. Bytes of shuffles are compressed sizes.
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
}

impl Metrics {
    pub fn add(&mut self, other: &Metrics) {
        self.run_ms = self.run_ms.saturating_add(other.run_ms);
        self.cpu_ns = self.cpu_ns.saturating_add(other.cpu_ns);
        self.gc_ms = self.gc_ms.saturating_add(other.gc_ms);
        self.spill_bytes = self.spill_bytes.saturating_add(other.spill_bytes);
        self.shuffle_write_bytes =
            self.shuffle_write_bytes.saturating_add(other.shuffle_write_bytes);
        self.shuffle_write_ns = self.shuffle_write_ns.saturating_add(other.shuffle_write_ns);
        self.shuffle_read_local_bytes =
            self.shuffle_read_local_bytes.saturating_add(other.shuffle_read_local_bytes);
        self.shuffle_read_remote_bytes =
            self.shuffle_read_remote_bytes.saturating_add(other.shuffle_read_remote_bytes);
        self.fetch_wait_ms = self.fetch_wait_ms.saturating_add(other.fetch_wait_ms);
    }

    pub(crate) fn shuffle_read_bytes(&self) -> i64 {
        self.shuffle_read_local_bytes.saturating_add(self.shuffle_read_remote_bytes)
    }
}

impl Application {
    /// Sums the metrics of the tasks of each stage.
    pub(super) fn sum_tasks(&mut self) {
        for task in &self.tasks {
            let stage = &mut self.stages[task.stage as usize];
            stage.task_count += 1;
            stage.task_ms += task.finished_ms - task.launched_ms;
            stage.sums.add(&task.metrics);
        }
    }

    /// Infers the cores of executors whose start the log lacks, from the most concurrent tasks.
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

    /// Number of tasks that an executor runs at a time.
    pub fn slots(&self, executor: &Executor) -> u32 {
        (executor.cores / self.task_cpus()).max(1)
    }

    /// An executor that ran more concurrent tasks than its cores allow, and their number.
    pub fn overfull_executor(&self) -> Option<(&Executor, u32)> {
        let mut executors = self.executors.iter().zip(self.tasks_at_once());
        executors.find(|(executor, tasks)| *tasks > self.slots(executor))
    }

    /// The most concurrent tasks of each executor.
    fn tasks_at_once(&self) -> Vec<u32> {
        let mut changes: Vec<Vec<(i64, i32)>> = vec![Vec::new(); self.executors.len()];
        for task in &self.tasks {
            // A slot is free again in the millisecond in which its task ends on the executor.
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

    /// Number of tasks that started before their stage, or ended after it.
    pub fn tasks_outside_stages(&self) -> usize {
        let outside = |task: &&Task| {
            let stage = &self.stages[task.stage as usize];
            stage.submitted_ms.is_some_and(|begin_ms| task.launched_ms < begin_ms)
                || stage.completed_ms.is_some_and(|end_ms| task.finished_ms > end_ms)
        };
        self.tasks.iter().filter(outside).count()
    }
}
