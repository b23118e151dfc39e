//! The dependencies between executions, jobs and stages, the driver's time between them, and the
//! times at which executors are added and removed.

use std::collections::BTreeMap;
use std::mem;

use rustc_hash::FxHashMap;

use super::application::{Application, Execution, Job, Stage};

/// A start or an end, by index in the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Point {
    ExecutionBegin(usize),
    ExecutionEnd(usize),
    JobBegin(usize),
    JobEnd(usize),
    StageBegin(usize),
    StageEnd(usize),
    ExecutorAdded(usize),
    ExecutorRemoved(usize),
}

#[derive(Debug, Default)]
struct Entry {
    /// Points that must be reached first and have not been.
    unreached: usize,
    /// Time of the latest prerequisite reached so far.
    latest_s: f64,
    /// Time from the last prerequisite to this point.
    delay_s: f64,
    followers: Vec<Point>,
}

#[derive(Debug, Default)]
pub(super) struct Order {
    begin_ms: i64,
    entries: BTreeMap<Point, Entry>,
    ready: Vec<Point>,
    parents: Vec<Vec<usize>>,
    job_of_stage: Vec<usize>,
    /// Time from the last point to the end of the application.
    tail_s: f64,
    last_s: f64,
}

/// A span of the log: its start and end, as points and in ms.
#[derive(Clone, Copy)]
struct Span {
    begin: Point,
    end: Point,
    begin_ms: i64,
    end_ms: i64,
}

impl Order {
    pub fn of(application: &Application) -> Order {
        Builder::new(application).order()
    }

    /// The stages whose shuffles a stage reads.
    pub fn parents(&self, stage: usize) -> &[usize] {
        &self.parents[stage]
    }

    /// The index of a stage's job: slots take the tasks of the first job first.
    pub(crate) fn job_of_stage(&self, stage: usize) -> usize {
        self.job_of_stage[stage]
    }

    /// Returns the points that have become ready since the last call, with their times.
    pub(crate) fn take_ready(&mut self) -> Vec<(f64, Point)> {
        let ready = mem::take(&mut self.ready);
        let times = ready.into_iter().map(|point| {
            let entry = &self.entries[&point];
            (entry.latest_s + entry.delay_s, point)
        });
        times.collect()
    }

    /// Records that a point was reached.
    pub fn reached(&mut self, point: Point, now_s: f64) {
        self.last_s = self.last_s.max(now_s);
        let followers = self.entries.get_mut(&point).map(|entry| mem::take(&mut entry.followers));
        for follower in followers.unwrap_or_default() {
            let entry = self.entries.entry(follower).or_default();
            entry.latest_s = entry.latest_s.max(now_s);
            entry.unreached -= 1;
            if entry.unreached == 0 {
                self.ready.push(follower);
            }
        }
    }

    /// Time from the start of the application to its end; valid once all points were reached.
    pub fn elapsed_s(&self) -> f64 {
        self.last_s + self.tail_s
    }
}

struct Builder<'a> {
    application: &'a Application,
    order: Order,
}

impl<'a> Builder<'a> {
    fn new(application: &'a Application) -> Builder<'a> {
        let Application { jobs, stages, .. } = application;
        let first_ms = jobs.iter().map(|job| job.submitted_ms).min().unwrap_or(0);
        let begin_ms = application.started_ms.unwrap_or(first_ms);
        let order = Order {
            begin_ms,
            parents: vec![Vec::new(); stages.len()],
            job_of_stage: vec![usize::MAX; stages.len()],
            ..Order::default()
        };
        Builder { application, order }
    }

    fn order(mut self) -> Order {
        let jobs: Vec<Span> = (0..self.application.jobs.len()).map(|at| self.job(at)).collect();
        let executions = 0..self.application.executions.len();
        let executions: Vec<Span> = executions.map(|at| self.execution(at)).collect();
        self.executions_and_jobs(&executions, &jobs);
        for (job, stages) in jobs.iter().zip(self.stages(&jobs)) {
            self.end_after(*job, &stages);
        }
        let ended_ms = self.application.ended_ms.unwrap_or(self.application.last_ms);
        self.executors(&executions, &jobs);
        let last_ms = jobs.iter().chain(&executions).map(|span| span.end_ms).max();
        self.order.tail_s = seconds(ended_ms - last_ms.unwrap_or(self.order.begin_ms)).max(0.0);
        // A stage ends with its last task.
        let is_ready = |point: &Point, entry: &Entry| {
            entry.unreached == 0 && !matches!(point, Point::StageEnd(_))
        };
        let ready = self.order.entries.iter().filter(|(point, entry)| is_ready(point, entry));
        self.order.ready = ready.map(|(&point, _)| point).collect();
        self.order
    }

    /// Orders the executions together with jobs outside executions, and the jobs of each execution.
    fn executions_and_jobs(&mut self, executions: &[Span], jobs: &[Span]) {
        let by_id = indices(self.application.executions.iter().map(|execution| execution.id));
        let mut top = executions.to_vec();
        let mut within: Vec<Vec<Span>> = vec![Vec::new(); executions.len()];
        for (job, span) in self.application.jobs.iter().zip(jobs) {
            match job.execution.and_then(|id| by_id.get(&id)) {
                Some(&at) => within[at].push(*span),
                None => top.push(*span),
            }
        }
        self.sequence(None, top);
        for (execution, spans) in executions.iter().zip(within) {
            self.end_after(*execution, &spans);
            self.sequence(Some(*execution), spans);
        }
    }

    /// A span that goes on to the end of the log if its end is not in the log.
    fn span(&self, [begin, end]: [Point; 2], begin_ms: i64, end_ms: Option<i64>) -> Span {
        Span { begin, end, begin_ms, end_ms: end_ms.unwrap_or(self.application.last_ms) }
    }

    fn execution(&self, at: usize) -> Span {
        let Execution { started_ms, ended_ms, .. } = self.application.executions[at];
        self.span([Point::ExecutionBegin(at), Point::ExecutionEnd(at)], started_ms, ended_ms)
    }

    fn job(&self, at: usize) -> Span {
        let Job { submitted_ms, completed_ms, .. } = self.application.jobs[at];
        self.span([Point::JobBegin(at), Point::JobEnd(at)], submitted_ms, completed_ms)
    }

    fn stage_span(&self, at: usize) -> Span {
        let Stage { submitted_ms, completed_ms, .. } = self.application.stages[at];
        let begin_ms = submitted_ms.unwrap_or(self.order.begin_ms);
        self.span([Point::StageBegin(at), Point::StageEnd(at)], begin_ms, completed_ms)
    }

    /// Adds and removes executors at the same delay after the last earlier point as in the log.
    fn executors(&mut self, executions: &[Span], jobs: &[Span]) {
        let stages: Vec<Span> =
            (0..self.application.stages.len()).map(|at| self.stage_span(at)).collect();
        let spans = executions.iter().chain(jobs).chain(&stages);
        let mut points: Vec<(i64, Point)> =
            spans.flat_map(|span| [(span.begin_ms, span.begin), (span.end_ms, span.end)]).collect();
        points.sort_unstable();
        for (at, executor) in self.application.executors.iter().enumerate() {
            let changes = [
                (Point::ExecutorAdded(at), Some(executor.added_ms)),
                (Point::ExecutorRemoved(at), executor.removed_ms),
            ];
            for (point, time_ms) in changes {
                let Some(time_ms) = time_ms else { continue };
                let earlier = points.partition_point(|(ms, _)| *ms < time_ms);
                let last = earlier.checked_sub(1).map(|at| (points[at].1, points[at].0));
                self.wait_for(point, time_ms, last.as_slice());
            }
        }
    }

    /// Makes each stage start after its job, its parents and its earlier attempts, if those ran;
    /// returns the stages of each job.
    fn stages(&mut self, jobs: &[Span]) -> Vec<Vec<Span>> {
        let Application { stages, .. } = self.application;
        let job_by_id = indices(self.application.jobs.iter().map(|job| job.id));
        let mut by_id: FxHashMap<i64, Vec<usize>> = FxHashMap::default();
        for (at, stage) in stages.iter().enumerate() {
            by_id.entry(stage.id).or_default().push(at);
        }
        let mut of_jobs = vec![Vec::new(); jobs.len()];
        for (at, stage) in stages.iter().enumerate() {
            let parents = stage.parents.iter().filter_map(|id| by_id.get(id)).flatten();
            let attempts = by_id[&stage.id].iter();
            let earlier = attempts.filter(|&&other| stages[other].attempt < stage.attempt);
            let mut parents: Vec<usize> = parents.chain(earlier).copied().collect();
            parents.sort_unstable();
            parents.dedup();
            let spans = parents.iter().map(|&parent| self.stage_span(parent));
            let mut after: Vec<(Point, i64)> = spans.map(|span| (span.end, span.end_ms)).collect();
            let span = self.stage_span(at);
            if let Some(&job) = stage.job.and_then(|id| job_by_id.get(&id)) {
                after.push((jobs[job].begin, jobs[job].begin_ms));
                self.order.job_of_stage[at] = job;
                of_jobs[job].push(span);
            }
            self.wait_for(span.begin, span.begin_ms, &after);
            self.order.parents[at] = parents;
        }
        of_jobs
    }

    /// Makes each span start after all spans that ended before it, and after the start of `first`.
    fn sequence(&mut self, first: Option<Span>, mut spans: Vec<Span>) {
        spans.sort_by_key(|span| (span.end_ms, span.begin_ms));
        // By span: the latest start among it and the spans that ended before it.
        let latest_begins = spans.iter().scan(i64::MIN, |latest, span| {
            *latest = span.begin_ms.max(*latest);
            Some(*latest)
        });
        let latest_begins: Vec<i64> = latest_begins.collect();
        for (at, span) in spans.iter().enumerate() {
            // A span of 0 ms waits for earlier spans, but not for itself.
            let ended = spans.partition_point(|other| other.end_ms <= span.begin_ms).min(at);
            // A span that had ended before one of these started is already waited for by that one.
            let latest_begin = ended.checked_sub(1).map_or(i64::MIN, |last| latest_begins[last]);
            let indirect = spans.partition_point(|other| other.end_ms < latest_begin);
            let direct = spans[indirect..ended].iter();
            let mut after: Vec<(Point, i64)> =
                direct.map(|other| (other.end, other.end_ms)).collect();
            after.extend(first.map(|first| (first.begin, first.begin_ms)));
            self.wait_for(span.begin, span.begin_ms, &after);
        }
    }

    /// Makes a span end after its parts.
    fn end_after(&mut self, span: Span, parts: &[Span]) {
        let mut after = vec![(span.begin, span.begin_ms)];
        after.extend(parts.iter().map(|part| (part.end, part.end_ms)));
        self.wait_for(span.end, span.end_ms, &after);
    }

    fn wait_for(&mut self, point: Point, time_ms: i64, after: &[(Point, i64)]) {
        let latest_ms = after.iter().map(|(_, ms)| *ms).max().unwrap_or(self.order.begin_ms);
        let entry = self.order.entries.entry(point).or_default();
        entry.delay_s = seconds(time_ms - latest_ms).max(0.0);
        entry.unreached = after.len();
        for (other, _) in after {
            self.order.entries.entry(*other).or_default().followers.push(point);
        }
    }
}

/// The index of each id; the first one of duplicates.
fn indices(ids: impl DoubleEndedIterator<Item = i64> + ExactSizeIterator) -> FxHashMap<i64, usize> {
    ids.enumerate().rev().map(|(at, id)| (id, at)).collect()
}

fn seconds(ms: i64) -> f64 {
    ms as f64 / 1e3
}
