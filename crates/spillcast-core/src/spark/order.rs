//! What begins after what: executions, jobs and stages, the driver's time between them, and when
//! executors come and go.

use std::collections::BTreeMap;
use std::mem;

use super::application::Application;

/// A begin or an end, by place in the application.
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

/// How many a point waits for, the latest of these so far, and how long after that it comes.
#[derive(Debug, Default)]
struct Entry {
    waits_for: usize,
    after_s: f64,
    delay_s: f64,
    followers: Vec<Point>,
}

#[derive(Debug)]
pub(super) struct Order {
    begin_ms: i64,
    entries: BTreeMap<Point, Entry>,
    ready: Vec<Point>,
    parents: Vec<Vec<usize>>,
    jobs: Vec<usize>,
    /// From the last point to the end of the application.
    rest_s: f64,
    last_s: f64,
}

/// A span of the log: its begin and end, as points and in ms.
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

    /// The place of a stage's job, by which tasks are given to slots.
    pub fn job_of_stage(&self, stage: usize) -> usize {
        self.jobs[stage]
    }

    /// The points that wait for nothing any more but time, and when they come.
    pub fn take_ready(&mut self) -> Vec<(f64, Point)> {
        let ready = mem::take(&mut self.ready);
        let times = ready.into_iter().map(|point| {
            let entry = &self.entries[&point];
            (entry.after_s + entry.delay_s, point)
        });
        times.collect()
    }

    /// Says that a point has come.
    pub fn reached(&mut self, point: Point, now_s: f64) {
        self.last_s = self.last_s.max(now_s);
        let followers = self.entries.get_mut(&point).map(|entry| mem::take(&mut entry.followers));
        for follower in followers.unwrap_or_default() {
            let entry = self.entries.entry(follower).or_default();
            entry.after_s = entry.after_s.max(now_s);
            entry.waits_for -= 1;
            // The end of a stage is not waited for here: its tasks bring it.
            if entry.waits_for == 0 {
                self.ready.push(follower);
            }
        }
    }

    /// From the begin of the application to its end, once all points have come.
    pub fn elapsed_s(&self) -> f64 {
        self.last_s + self.rest_s
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
            entries: BTreeMap::new(),
            ready: Vec::new(),
            parents: vec![Vec::new(); stages.len()],
            jobs: vec![0; stages.len()],
            rest_s: 0.0,
            last_s: 0.0,
        };
        Builder { application, order }
    }

    fn order(mut self) -> Order {
        let jobs: Vec<Span> = (0..self.application.jobs.len()).map(|at| self.job(at)).collect();
        let executions = 0..self.application.executions.len();
        let executions: Vec<Span> = executions.map(|at| self.execution(at)).collect();
        self.executions_and_jobs(&executions, &jobs);
        for at in 0..self.application.stages.len() {
            self.stage(at);
        }
        for (at, job) in jobs.iter().enumerate() {
            let stages = (0..self.application.stages.len()).filter(|&it| self.order.jobs[it] == at);
            let stages: Vec<Span> = stages.map(|stage| self.stage_span(stage)).collect();
            self.end_after(*job, &stages);
        }
        let ended_ms = self.application.ended_ms.unwrap_or(self.application.last_ms);
        self.executors(&executions, &jobs);
        let last_ms = jobs.iter().chain(&executions).map(|span| span.end_ms).max();
        self.order.rest_s = seconds(ended_ms - last_ms.unwrap_or(self.order.begin_ms)).max(0.0);
        // The ends of stages come with their last tasks.
        let comes = |point: &Point, entry: &Entry| {
            entry.waits_for == 0 && !matches!(point, Point::StageEnd(_))
        };
        let ready = self.order.entries.iter().filter(|(point, entry)| comes(point, entry));
        self.order.ready = ready.map(|(&point, _)| point).collect();
        self.order
    }

    /// Executions and jobs without one begin in turn; so do the jobs within each execution.
    fn executions_and_jobs(&mut self, executions: &[Span], jobs: &[Span]) {
        let place = |id: i64| self.application.executions.iter().position(|other| other.id == id);
        let mut top = executions.to_vec();
        let mut within: Vec<Vec<Span>> = vec![Vec::new(); executions.len()];
        for (job, span) in self.application.jobs.iter().zip(jobs) {
            match job.execution.and_then(place) {
                Some(at) => within[at].push(*span),
                None => top.push(*span),
            }
        }
        self.in_turn(None, top);
        for (execution, spans) in executions.iter().zip(within) {
            self.end_after(*execution, &spans);
            self.in_turn(Some(*execution), spans);
        }
    }

    fn execution(&self, at: usize) -> Span {
        let execution = &self.application.executions[at];
        Span {
            begin: Point::ExecutionBegin(at),
            end: Point::ExecutionEnd(at),
            begin_ms: execution.started_ms,
            end_ms: execution.ended_ms.unwrap_or(self.application.last_ms),
        }
    }

    fn job(&self, at: usize) -> Span {
        let job = &self.application.jobs[at];
        Span {
            begin: Point::JobBegin(at),
            end: Point::JobEnd(at),
            begin_ms: job.submitted_ms,
            end_ms: job.completed_ms.unwrap_or(self.application.last_ms),
        }
    }

    fn stage_span(&self, at: usize) -> Span {
        let stage = &self.application.stages[at];
        Span {
            begin: Point::StageBegin(at),
            end: Point::StageEnd(at),
            begin_ms: stage.submitted_ms.unwrap_or(self.order.begin_ms),
            end_ms: stage.completed_ms.unwrap_or(self.application.last_ms),
        }
    }

    /// Executors come and go so long after the last point before that in the log as they did.
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

    /// A stage begins after its job and its parents: those that ran.
    fn stage(&mut self, at: usize) {
        let stage = &self.application.stages[at];
        let stages = &self.application.stages;
        let parents = (0..stages.len()).filter(|&other| {
            let earlier_attempt =
                stages[other].id == stage.id && stages[other].attempt < stage.attempt;
            stage.parents.contains(&stages[other].id) || earlier_attempt
        });
        let parents: Vec<usize> = parents.collect();
        let mut after: Vec<(Point, i64)> = parents
            .iter()
            .map(|&parent| self.stage_span(parent))
            .map(|span| (span.end, span.end_ms))
            .collect();
        let job = self.application.jobs.iter().position(|job| Some(job.id) == stage.job);
        if let Some(job) = job {
            let span = self.job(job);
            after.push((span.begin, span.begin_ms));
        }
        self.order.jobs[at] = job.unwrap_or(usize::MAX);
        let span = self.stage_span(at);
        self.wait_for(span.begin, span.begin_ms, &after);
        self.order.parents[at] = parents;
    }

    /// Each span begins after all that had ended before it did, and after the begin of `first`.
    fn in_turn(&mut self, first: Option<Span>, mut spans: Vec<Span>) {
        spans.sort_by_key(|span| span.begin_ms);
        for span in &spans {
            let ended = spans.iter().filter(|other| other.end_ms <= span.begin_ms);
            // What had ended before another of them began, that other one waits for.
            let newest_begin = ended.clone().map(|other| other.begin_ms).max();
            let direct =
                ended.filter(|other| newest_begin.is_none_or(|begin| other.end_ms > begin));
            let mut after: Vec<(Point, i64)> =
                direct.map(|other| (other.end, other.end_ms)).collect();
            after.extend(first.map(|first| (first.begin, first.begin_ms)));
            self.wait_for(span.begin, span.begin_ms, &after);
        }
    }

    /// A span ends after its parts.
    fn end_after(&mut self, span: Span, parts: &[Span]) {
        let mut after = vec![(span.begin, span.begin_ms)];
        after.extend(parts.iter().map(|part| (part.end, part.end_ms)));
        self.wait_for(span.end, span.end_ms, &after);
    }

    fn wait_for(&mut self, point: Point, time_ms: i64, after: &[(Point, i64)]) {
        let latest_ms = after.iter().map(|(_, ms)| *ms).max().unwrap_or(self.order.begin_ms);
        let entry = self.order.entries.entry(point).or_default();
        entry.delay_s = seconds(time_ms - latest_ms).max(0.0);
        entry.waits_for = after.len();
        for (other, _) in after {
            self.order.entries.entry(*other).or_default().followers.push(point);
        }
    }
}

fn seconds(ms: i64) -> f64 {
    ms as f64 / 1e3
}
