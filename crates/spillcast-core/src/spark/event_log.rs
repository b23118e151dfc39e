//! Event logs of Spark 2 to 4 -> an application. Irrelevant events are not parsed.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read};
use std::ops::RangeInclusive;

use rustc_hash::{FxHashMap, FxHashSet};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::application::{Application, Execution, Executor, Job, Metrics, Stage, Task};

/// A longer line is not an event: the largest events contain the plan of a query.
const LINE_BYTES_MAX: u64 = 256 << 20;
const BUFFER_BYTES: usize = 1 << 18;
/// The properties that are kept; a name that ends with a dot is a prefix.
const PROPERTIES: &[&str] = &[
    "spark.app.name",
    "spark.celeborn.",
    "spark.cores.max",
    "spark.databricks.clusterUsageTags.sparkVersion",
    "spark.driver.memory",
    "spark.dynamicAllocation.enabled",
    "spark.executor.cores",
    "spark.executor.instances",
    "spark.executor.memory",
    "spark.io.compression.codec",
    "spark.kubernetes.executor.volumes.emptyDir.",
    "spark.kubernetes.local.dirs.tmpfs",
    "spark.local.dir",
    "spark.master",
    "spark.memory.fraction",
    "spark.memory.offHeap.enabled",
    "spark.memory.offHeap.size",
    "spark.plugins",
    "spark.scheduler.mode",
    "spark.shuffle.compress",
    "spark.shuffle.manager",
    "spark.shuffle.push.enabled",
    "spark.shuffle.sort.bypassMergeThreshold",
    "spark.shuffle.sort.io.plugin.class",
    "spark.shuffle.spill.compress",
    "spark.sql.adaptive.enabled",
    "spark.sql.shuffle.partitions",
    "spark.task.cpus",
];
/// 300 years: no duration is longer, and no time in a log is farther from 1970.
const TIME_MAX_MS: i64 = 300 * 365 * 86_400_000;
/// No task spills or shuffles more than 1 PiB, or less than nothing.
const TASK_BYTES: RangeInclusive<i64> = 0..=1 << 50;
/// Maximum length of a description; the rest is cut.
const DESCRIPTION_CHARS: usize = 2000;
/// Engines that replace Spark's own operators, by the prefixes of their plan nodes' names.
const PLAN_NODES: &[(&[u8], &str)] = &[
    (b"\"nodeName\":\"Gpu", "RAPIDS"),
    (b"\"nodeName\":\"Photon", "Photon"),
    (b"\"nodeName\":\"Velox", "Gluten"),
    (b"\"nodeName\":\"Comet", "Comet"),
];

/// The storage level of an RDD whose cached blocks are always stored on disk.
const ON_DISK: &[u8] = b"\"Use Disk\":true,\"Use Memory\":false";

/// Reads the application of one log, whose parts are in order. An error describes the damage of a
/// part, or names a line with an impossible time; a log that is cut is read up to the cut.
pub fn read_event_logs<'a>(
    parts: impl IntoIterator<Item = io::Result<Box<dyn Read + Send + 'a>>>,
    mut progress: impl FnMut(u64) -> bool,
) -> io::Result<Application> {
    let mut log = Log::default();
    let mut line = Vec::new();
    for (number, part) in (1..).zip(parts) {
        let mut part = BufReader::with_capacity(BUFFER_BYTES, part?);
        for line_number in 1u64.. {
            line.clear();
            match Read::take(&mut part, LINE_BYTES_MAX).read_until(b'\n', &mut line) {
                Ok(0) => break,
                Ok(bytes) if !progress(bytes as u64) => {
                    return Err(io::ErrorKind::Interrupted.into());
                }
                Ok(_) => log.line(&line).map_err(|problem| {
                    let text = format!("line {line_number} of part {number}: {problem}");
                    io::Error::new(io::ErrorKind::InvalidData, text)
                })?,
                Err(error) if is_cut(&error) => break,
                Err(error) => return Err(error),
            }
        }
    }
    Ok(log.ended())
}

/// Whether a compressed stream was cut: zstd has no error kind for this.
fn is_cut(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::UnexpectedEof || error.to_string() == "incomplete frame"
}

#[derive(Default)]
struct Log {
    application: Application,
    /// The longest duration, or time from 1970 to an event.
    longest_ms: i64,
    /// A number of bytes that no task can have.
    impossible_bytes: Option<i64>,
    stages: FxHashMap<(i64, i64), u32>,
    executors: HashMap<String, u32>,
    jobs: FxHashMap<i64, usize>,
    executions: FxHashMap<i64, usize>,
    job_of_stage: FxHashMap<i64, i64>,
    /// Ids of tasks, which recur in a log that contains a part twice.
    tasks: FxHashSet<i64>,
}

impl Log {
    /// Reads an event, or counts a damaged one. An error describes an impossible one.
    fn line(&mut self, line: &[u8]) -> Result<(), String> {
        let line = line.trim_ascii();
        if line.is_empty() {
            return Ok(());
        }
        let read = match name_of(line) {
            Some(name) => self.event(name, line),
            None => parsed::<Named>(line).and_then(|named| self.event(&named.event, line)),
        };
        if read.is_none() {
            self.application.damaged_lines += 1;
        }
        if self.longest_ms > TIME_MAX_MS {
            return Err(format!("a time of {} ms, more than 300 years", self.longest_ms));
        }
        self.impossible_bytes.map_or(Ok(()), |bytes| {
            Err(format!("a task with {bytes} bytes, which is not between 0 and 1 PiB"))
        })
    }

    /// Returns None for a damaged event; events of other kinds are ignored.
    fn event(&mut self, name: &str, line: &[u8]) -> Option<()> {
        match name.rsplit('.').next().unwrap_or(name) {
            "SparkListenerTaskEnd" => self.task_ended(parsed(line)?),
            "SparkListenerStageSubmitted" | "SparkListenerStageCompleted" => {
                self.stage(parsed(line)?);
                let on_disk = memchr::memmem::find(line, ON_DISK).is_some();
                self.application.caches_on_disk |= on_disk;
            }
            "SparkListenerJobStart" => self.job_started(parsed(line)?),
            "SparkListenerJobEnd" => self.job_ended(&parsed(line)?),
            "SparkListenerSQLExecutionStart" => {
                self.execution_started(parsed(line)?);
                self.plan(line);
            }
            "SparkListenerSQLAdaptiveExecutionUpdate" => self.plan(line),
            "SparkListenerSQLExecutionEnd" => self.execution_ended(&parsed(line)?),
            "SparkListenerExecutorAdded" => self.executor_added(parsed(line)?),
            "SparkListenerExecutorRemoved" => self.executor_removed(&parsed(line)?),
            "SparkListenerEnvironmentUpdate" => self.environment(parsed(line)?),
            "SparkListenerApplicationStart" => self.application_started(parsed(line)?),
            "SparkListenerApplicationEnd" => {
                let ended: Timed = parsed(line)?;
                self.application.ended_ms = Some(ended.timestamp_ms);
                self.seen(ended.timestamp_ms);
            }
            _ => {}
        }
        Some(())
    }

    fn measured(&mut self, ms: i64) {
        self.longest_ms = self.longest_ms.max(ms.saturating_abs());
    }

    fn seen(&mut self, time_ms: i64) {
        self.measured(time_ms);
        self.application.last_ms = self.application.last_ms.max(time_ms);
    }

    fn application_started(&mut self, started: ApplicationStart) {
        let id = started.id.unwrap_or_default();
        if let Some(started_ms) = self.application.started_ms {
            if self.application.id != id {
                self.application.other_id = Some(id);
            } else if started_ms != started.timestamp_ms {
                self.application.other_id = Some(format!("{id} (another attempt)"));
            }
            return;
        }
        self.application.id = id;
        self.application.started_ms = Some(started.timestamp_ms);
        self.seen(started.timestamp_ms);
    }

    fn environment(&mut self, environment: Environment) {
        let kept = |name: &str| {
            PROPERTIES
                .iter()
                .any(|kept| name == *kept || kept.ends_with('.') && name.starts_with(kept))
        };
        let properties = environment.properties.into_iter().filter(|(name, _)| kept(name));
        self.application.properties.extend(properties);
    }

    fn executor_added(&mut self, added: ExecutorAdded) {
        let at = self.executor(&added.id, &added.info.host);
        let executor = &mut self.application.executors[at as usize];
        executor.cores = added.info.cores;
        executor.added_ms = added.timestamp_ms;
        self.seen(added.timestamp_ms);
    }

    fn executor_removed(&mut self, removed: &ExecutorRemoved) {
        if let Some(&at) = self.executors.get(&removed.id) {
            self.application.executors[at as usize].removed_ms = Some(removed.timestamp_ms);
        }
    }

    fn executor(&mut self, id: &str, host: &str) -> u32 {
        if let Some(&at) = self.executors.get(id) {
            return at;
        }
        let at = self.application.executors.len() as u32;
        let executor = Executor { id: id.to_owned(), host: host.to_owned(), ..Executor::default() };
        self.application.executors.push(executor);
        self.executors.insert(id.to_owned(), at);
        at
    }

    fn job_started(&mut self, started: JobStart) {
        if self.jobs.contains_key(&started.id) {
            return;
        }
        let properties = started.properties.unwrap_or_default();
        let execution = properties.get("spark.sql.execution.id");
        for &stage in &started.stage_ids {
            self.job_of_stage.insert(stage, started.id);
        }
        self.jobs.insert(started.id, self.application.jobs.len());
        self.application.jobs.push(Job {
            id: started.id,
            execution: execution.and_then(|id| id.parse().ok()),
            submitted_ms: started.submitted_ms,
            stage_ids: started.stage_ids,
            ..Job::default()
        });
        self.seen(started.submitted_ms);
    }

    fn job_ended(&mut self, ended: &JobEnd) {
        if let Some(&at) = self.jobs.get(&ended.id) {
            self.application.jobs[at].completed_ms = Some(ended.completed_ms);
        }
        self.seen(ended.completed_ms);
    }

    fn execution_started(&mut self, started: ExecutionStart) {
        if self.executions.contains_key(&started.id) {
            return;
        }
        self.executions.insert(started.id, self.application.executions.len());
        self.application.executions.push(Execution {
            id: started.id,
            description: cut(started.description.unwrap_or_default()),
            started_ms: started.time_ms,
            ended_ms: None,
        });
        self.seen(started.time_ms);
    }

    fn plan(&mut self, line: &[u8]) {
        for (node, engine) in PLAN_NODES {
            if memchr::memmem::find(line, node).is_some() {
                self.application.plan_engines.insert((*engine).to_owned());
            }
        }
    }

    fn execution_ended(&mut self, ended: &ExecutionEnd) {
        if let Some(&at) = self.executions.get(&ended.id) {
            self.application.executions[at].ended_ms = Some(ended.time_ms);
        }
        self.seen(ended.time_ms);
    }

    fn stage(&mut self, event: StageEvent) {
        let info = event.info;
        let at = self.stage_at(info.id, info.attempt);
        let job = self.job_of_stage.get(&info.id).copied();
        let stage = &mut self.application.stages[at as usize];
        stage.name = cut(info.name);
        stage.parents = info.parents.unwrap_or_default();
        stage.job = job;
        stage.submitted_ms = info.submitted_ms.or(stage.submitted_ms);
        stage.completed_ms = info.completed_ms.or(stage.completed_ms);
        stage.stated_tasks = info.tasks.filter(|_| info.failure.is_none());
        [info.submitted_ms, info.completed_ms].into_iter().flatten().for_each(|ms| self.seen(ms));
    }

    fn stage_at(&mut self, id: i64, attempt: i64) -> u32 {
        let stages = &mut self.application.stages;
        *self.stages.entry((id, attempt)).or_insert_with(|| {
            stages.push(Stage { id, attempt, ..Stage::default() });
            (stages.len() - 1) as u32
        })
    }

    fn task_ended(&mut self, ended: TaskEnd) {
        let (info, metrics) = (ended.info, ended.metrics.unwrap_or_default());
        if info.id.is_some_and(|id| !self.tasks.insert(id)) {
            return;
        }
        let stage = self.stage_at(ended.stage, ended.attempt);
        let executor = self.executor(&info.executor, &info.host);
        let (launched_ms, executor_ms) = (info.launched_ms, metrics.executor_ms());
        let finished_ms = match info.finished_ms {
            // The driver's clock was set back meanwhile; the executor measures durations.
            before if before < launched_ms => launched_ms.saturating_add(executor_ms.max(0)),
            finished_ms => finished_ms,
        };
        self.seen(finished_ms);
        let durations_ms = [metrics.run_ms, metrics.deserialize_ms, metrics.result_ms];
        let times_ms = [launched_ms, info.finished_ms];
        durations_ms.into_iter().chain(times_ms).for_each(|ms| self.measured(ms));
        // PySpark states the memory that a spill freed, which is negative if memory grew meanwhile.
        let spilled_memory_bytes = metrics.spilled_memory_bytes.max(0);
        let spilled = [metrics.spill_bytes, spilled_memory_bytes, metrics.peak_memory_bytes];
        let shuffled = [metrics.write.bytes, metrics.read.local_bytes, metrics.read.remote_bytes];
        let mut bytes = spilled.into_iter().chain(shuffled);
        self.impossible_bytes = bytes.find(|bytes| !TASK_BYTES.contains(bytes));
        self.application.tasks.push(Task {
            stage,
            executor,
            launched_ms,
            finished_ms,
            executor_ms,
            peak_memory_bytes: metrics.peak_memory_bytes,
            spilled_memory_bytes,
            metrics: metrics.sums(),
        });
    }

    fn ended(self) -> Application {
        let mut application = self.application;
        application.tasks.sort_by_key(|task| task.launched_ms);
        application.sum_tasks();
        application.infer_cores();
        application
    }
}

fn cut(text: String) -> String {
    match text.char_indices().nth(DESCRIPTION_CHARS) {
        Some((at, _)) => text[..at].to_owned(),
        None => text,
    }
}

/// The name of an event, from the first key of its line, as Spark writes it.
fn name_of(line: &[u8]) -> Option<&str> {
    let rest = line.strip_prefix(b"{\"Event\":\"")?;
    let end = memchr::memchr(b'"', &rest[..rest.len().min(200)])?;
    // A line without a closing brace was cut.
    (line.last() == Some(&b'}')).then(|| std::str::from_utf8(&rest[..end]).ok())?
}

fn parsed<T: DeserializeOwned>(line: &[u8]) -> Option<T> {
    serde_json::from_slice(line).ok()
}

/// The fields read from each event: field, type, name in the log, and `default` if a log may lack
/// the field.
macro_rules! events {
    ($($name:ident { $($field:ident: $type:ty = $key:literal $($default:ident)?,)* })*) => {$(
        #[derive(Deserialize, Default)]
        struct $name {
            $(#[serde(rename = $key $(, $default)?)] $field: $type,)*
        }
    )*};
}

events! {
    Named {
        event: String = "Event",
    }
    Timed {
        timestamp_ms: i64 = "Timestamp",
    }
    ApplicationStart {
        id: Option<String> = "App ID",
        timestamp_ms: i64 = "Timestamp",
    }
    Environment {
        properties: HashMap<String, String> = "Spark Properties",
    }
    ExecutorAdded {
        timestamp_ms: i64 = "Timestamp",
        id: String = "Executor ID",
        info: ExecutorInfo = "Executor Info",
    }
    ExecutorInfo {
        host: String = "Host",
        cores: u32 = "Total Cores",
    }
    ExecutorRemoved {
        timestamp_ms: i64 = "Timestamp",
        id: String = "Executor ID",
    }
    JobStart {
        id: i64 = "Job ID",
        submitted_ms: i64 = "Submission Time",
        stage_ids: Vec<i64> = "Stage IDs",
        properties: Option<HashMap<String, String>> = "Properties",
    }
    JobEnd {
        id: i64 = "Job ID",
        completed_ms: i64 = "Completion Time",
    }
    ExecutionStart {
        id: i64 = "executionId",
        description: Option<String> = "description",
        time_ms: i64 = "time",
    }
    ExecutionEnd {
        id: i64 = "executionId",
        time_ms: i64 = "time",
    }
    StageEvent {
        info: StageInfo = "Stage Info",
    }
    StageInfo {
        id: i64 = "Stage ID",
        attempt: i64 = "Stage Attempt ID" default,
        name: String = "Stage Name",
        parents: Option<Vec<i64>> = "Parent IDs",
        submitted_ms: Option<i64> = "Submission Time",
        completed_ms: Option<i64> = "Completion Time",
        tasks: Option<u64> = "Number of Tasks",
        failure: Option<String> = "Failure Reason",
    }
    TaskEnd {
        stage: i64 = "Stage ID",
        attempt: i64 = "Stage Attempt ID" default,
        info: TaskInfo = "Task Info",
        metrics: Option<TaskMetrics> = "Task Metrics",
    }
    TaskInfo {
        id: Option<i64> = "Task ID",
        launched_ms: i64 = "Launch Time",
        finished_ms: i64 = "Finish Time",
        executor: String = "Executor ID",
        host: String = "Host",
    }
    TaskMetrics {
        run_ms: i64 = "Executor Run Time",
        cpu_ns: i64 = "Executor CPU Time" default,
        deserialize_ms: i64 = "Executor Deserialize Time" default,
        result_ms: i64 = "Result Serialization Time" default,
        deserialize_cpu_ns: i64 = "Executor Deserialize CPU Time" default,
        gc_ms: i64 = "JVM GC Time" default,
        peak_memory_bytes: i64 = "Peak Execution Memory" default,
        spilled_memory_bytes: i64 = "Memory Bytes Spilled" default,
        spill_bytes: i64 = "Disk Bytes Spilled" default,
        read: ShuffleRead = "Shuffle Read Metrics" default,
        write: ShuffleWrite = "Shuffle Write Metrics" default,
    }
    ShuffleRead {
        local_bytes: i64 = "Local Bytes Read" default,
        remote_bytes: i64 = "Remote Bytes Read" default,
        fetch_wait_ms: i64 = "Fetch Wait Time" default,
    }
    ShuffleWrite {
        bytes: i64 = "Shuffle Bytes Written" default,
        ns: i64 = "Shuffle Write Time" default,
    }
}

impl TaskMetrics {
    fn executor_ms(&self) -> i64 {
        self.deserialize_ms.saturating_add(self.run_ms).saturating_add(self.result_ms)
    }

    fn sums(self) -> Metrics {
        Metrics {
            run_ms: self.run_ms,
            cpu_ns: self.cpu_ns.saturating_add(self.deserialize_cpu_ns),
            gc_ms: self.gc_ms,
            spill_bytes: self.spill_bytes,
            shuffle_write_bytes: self.write.bytes,
            shuffle_write_ns: self.write.ns,
            shuffle_read_local_bytes: self.read.local_bytes,
            shuffle_read_remote_bytes: self.read.remote_bytes,
            fetch_wait_ms: self.read.fetch_wait_ms,
        }
    }
}
