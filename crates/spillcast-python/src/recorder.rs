//! The recorder of a command or a process, and the sources that it can observe with.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use spillcast_core::capture as core;
use spillcast_recording::failure::{Failure, Kind};
use spillcast_recording::meta::Options;
use spillcast_recording::sources;
use spillcast_recording::{Observed, target};

use crate::capture::{CaptureCost, call_kinds, source_named, status_dict, strings};
use crate::error::{failed, os_error, wrong};
use crate::recording::Rows;

type JoinedProcess = (i32, Option<u64>, u64, Option<(u64, u64, u64)>, u64);

/// A command that does nothing until released, or a process that is already running.
#[pyclass(module = "spillcast._core")]
pub struct Target(target::Target);

#[pymethods]
impl Target {
    /// A command; `environment` holds NAME=value. InputError if it cannot be started.
    #[staticmethod]
    fn command(arguments: Vec<OsString>, environment: Vec<OsString>) -> PyResult<Target> {
        let environment = strings(environment)?;
        Ok(Target(target::Target::command(&arguments, environment).map_err(failed)?))
    }

    /// A running process. InputError if it does not exist.
    #[staticmethod]
    fn process(pid: i64) -> PyResult<Target> {
        Ok(Target(target::Target::process(pid).map_err(failed)?))
    }

    #[getter]
    fn pid(&self) -> i32 {
        self.0.pid
    }

    /// Whether this process started it as a command.
    #[getter]
    fn is_command(&self) -> bool {
        self.0.ours
    }

    /// Status of a command that has ended, negative for a signal.
    #[getter]
    fn exit_status(&self) -> Option<i32> {
        self.0.exit_status
    }

    /// Let the command run. InputError if it cannot be started.
    fn release(&mut self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.release()).map_err(failed)
    }

    /// Send a signal; do nothing if the process has ended.
    fn send_signal(&self, number: i32) {
        self.0.send_signal(number);
    }

    /// End a held command before it has done anything.
    fn abandon(&mut self, py: Python<'_>) {
        py.detach(|| self.0.abandon());
    }

    /// Sleep until the target ends or the timeout expires; True if it has ended.
    fn wait(slf: &Bound<'_, Self>, timeout_s: f64) -> PyResult<bool> {
        let (py, until) = (slf.py(), Instant::now() + Duration::from_secs_f64(timeout_s.max(0.0)));
        loop {
            let left = until.saturating_duration_since(Instant::now());
            // Signal handlers use the target, so it must not be borrowed while they run.
            let ended = {
                let target = &mut slf.borrow_mut().0;
                py.detach(|| target.wait(left))
            };
            py.check_signals()?;
            if ended || Instant::now() >= until {
                return Ok(ended);
            }
        }
    }
}

/// One recording in progress: `prepare`, `observe`, `tick` until over, `account`.
///
/// A sampler's thread attaches processes while another thread collects the rows.
#[pyclass(frozen, module = "spillcast._core")]
pub struct Recorder(Mutex<spillcast_recording::Recorder>);

impl Recorder {
    /// Releases the GIL, because the thread that holds the mutex may be waiting for it.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut spillcast_recording::Recorder) -> T + Send,
    ) -> T {
        py.detach(|| work(&mut self.0.lock().expect("no holder panics")))
    }

    /// The functions that the observed threads ran; None if no stack was sampled.
    pub fn stacks(&self, py: Python<'_>) -> Option<core::NamedStacks> {
        self.with(py, |r| r.stacks())
    }
}

#[pymethods]
impl Recorder {
    /// `options` is a RecordOptions. InputError if a directory of temp files cannot be used.
    #[new]
    fn new(options: &Bound<'_, PyAny>) -> PyResult<Recorder> {
        let options =
            extracted!(Options, options => temp_dirs capture duration_s slices share force);
        let recorder = spillcast_recording::Recorder::new(options, "spillcast");
        Ok(Recorder(Mutex::new(recorder.map_err(failed)?)))
    }

    /// Choose the capture source; returns the variables that a command needs in its environment.
    ///
    /// `pid` is a process that is already running, called `label` in errors. `calls` are the system
    /// calls to observe (None: all); `preload` is the value of LD_PRELOAD. InputError if no source
    /// works.
    fn prepare(
        &self,
        py: Python<'_>,
        pid: Option<i32>,
        label: Option<String>,
        calls: Option<Vec<String>>,
        preload: Option<String>,
    ) -> PyResult<HashMap<String, String>> {
        let calls = call_kinds(calls)?;
        let missing = || {
            Failure::of(Kind::ProgramMissing, "the preload library is missing", "run: make build")
        };
        let preload = preload.ok_or_else(missing);
        let prepared = self.with(py, |r| r.prepare(pid, label.as_deref(), calls, preload));
        Ok(prepared.map_err(failed)?.into_iter().collect())
    }

    /// Observe a process and its descendants. Returns variables if the command must be started
    /// again with them. InputError if observation is refused.
    #[pyo3(signature = (pid, temp_dirs, *, only_calls, many_processes, was_running))]
    fn observe(
        &self,
        py: Python<'_>,
        pid: i32,
        temp_dirs: Vec<PathBuf>,
        only_calls: bool,
        many_processes: bool,
        was_running: bool,
    ) -> PyResult<Option<HashMap<String, String>>> {
        let how = Observed { temp_dirs, only_calls, many_processes, was_running };
        let again = self.with(py, |r| r.observe(pid, how)).map_err(failed)?;
        Ok(again.map(|variables| variables.into_iter().collect()))
    }

    /// Start without a capture, for the given reason.
    fn observe_nothing(&self, py: Python<'_>, pid: i32, because: String) {
        self.with(py, |r| r.observe_nothing(pid, because));
    }

    /// Record what the process, which is already running, has done until now.
    fn keep_earlier_work(&self, py: Python<'_>) {
        self.with(py, |r| r.keep_earlier_work());
    }

    /// The name of the capture source; "none" without a capture.
    #[getter]
    fn method(&self, py: Python<'_>) -> &'static str {
        self.with(py, |r| r.method())
    }

    /// Which source observes, and why no better one does; None if it was requested by name.
    #[getter]
    fn notice(&self, py: Python<'_>) -> Option<String> {
        self.with(py, |r| r.notice())
    }

    /// CLOCK_MONOTONIC at the start of the recording.
    #[getter]
    fn origin_ns(&self, py: Python<'_>) -> u64 {
        self.with(py, |r| r.origin_ns)
    }

    /// Observe another running process; repeated calls are ignored. OSError if that fails.
    fn attach(&self, py: Python<'_>, pid: i32) -> PyResult<()> {
        self.with(py, |r| r.attach(pid)).map_err(os_error)
    }

    /// Observe children that `parent` starts from now on and whose command line contains `title`.
    fn attach_children(&self, py: Python<'_>, parent: i32, title: &str) -> PyResult<()> {
        self.with(py, |r| r.attach_children(parent, title)).map_err(os_error)
    }

    /// Processes attached meanwhile: pid; start and attachment on CLOCK_MONOTONIC; their read
    /// calls, write calls and bytes before that; and the number of temp files that were open.
    fn joined(&self, py: Python<'_>) -> Vec<JoinedProcess> {
        let before = |process: &core::Joined| {
            process.before.map(|b| (b.reads, b.writes, b.read_bytes + b.written_bytes))
        };
        let process =
            |p: &core::Joined| (p.pid, p.started_ns, p.attached_ns, before(p), p.temp_files);
        self.with(py, |r| r.joined()).iter().map(process).collect()
    }

    /// Counts and costs so far.
    fn status<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        status_dict(py, self.with(py, |r| r.status()))
    }

    /// Whether the recording is over, because its target `ended` or the time limit is reached, and
    /// the new rows.
    fn tick(&self, py: Python<'_>, ended: bool) -> (bool, Rows) {
        let (over, batch) = self.with(py, |r| r.tick(ended));
        (over, Rows(batch))
    }

    /// The rows since the last call.
    fn collect(&self, py: Python<'_>) -> Rows {
        Rows(self.with(py, |r| r.collect()))
    }

    /// End the capture; its rows can still be collected. `over`: the run has also ended.
    #[pyo3(signature = (*, over = false))]
    fn end_capture(&self, py: Python<'_>, over: bool) {
        self.with(py, |r| r.end_capture(over));
    }

    /// InputError if the source observed nothing of the run at all.
    fn check_connected(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |r| r.check_connected()).map_err(failed)
    }

    /// Seconds from the start to now, or to the last `tick` of a target that has `ended`.
    fn elapsed_s(&self, py: Python<'_>, ended: bool) -> f64 {
        self.with(py, |r| r.elapsed(ended).as_secs_f64())
    }

    /// Measure the machine's caches once, which takes 0.5 s.
    fn measure_caches(&self, py: Python<'_>) {
        self.with(py, |r| r.measure_caches());
    }

    /// meta.json as known so far, for a run of `elapsed_s` that started at `started_ns`.
    fn account(
        &self,
        py: Python<'_>,
        elapsed_s: f64,
        started_ns: Option<u64>,
        cost: Option<CaptureCost>,
        command: Option<Vec<String>>,
        exit_status: Option<i32>,
    ) -> PyResult<String> {
        let cost = cost.map(CaptureCost::into_core);
        let process = (command, exit_status);
        let meta = self.with(py, |r| r.account(elapsed_s, started_ns, cost, process));
        serde_json::to_string(&meta).map_err(wrong)
    }
}

/// InputError if `capture` is the name of a source that cannot observe `label`, which is running.
#[pyfunction]
pub fn check_attaches(capture: &str, label: &str, hint: String) -> PyResult<()> {
    if capture == sources::AUTO || sources::attaches(capture) {
        return Ok(());
    }
    Err(failed(sources::cannot_attach(capture, label, hint)))
}

/// Make a source ready for its calls (None: all) and release it. OSError if it does not work.
#[pyfunction]
#[pyo3(signature = (name, calls = None))]
pub fn try_source(py: Python<'_>, name: &str, calls: Option<Vec<String>>) -> PyResult<()> {
    let (open, calls) = (source_named(name)?, call_kinds(calls)?);
    py.detach(|| open(&calls)).map(drop).map_err(os_error)
}

/// The meaning of a source's error number: message and remedy.
#[pyfunction]
pub fn source_refusal(name: &str, number: i32) -> (String, Option<String>) {
    let error = std::io::Error::from_raw_os_error(number);
    let failure = sources::refused(&error, "anything", None, name);
    (failure.message, Some(failure.hint).filter(|hint| !hint.is_empty()))
}

/// `machine` of meta.json for this machine, without its caches.
#[pyfunction]
pub fn describe_machine() -> PyResult<String> {
    serde_json::to_string(&spillcast_recording::machine::Machine::describe()).map_err(wrong)
}
