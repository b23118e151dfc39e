//! One recording while it is observed: captures, and accounts for its cost.
//!
//! Call [`Recorder::new`], [`Recorder::prepare`], [`Recorder::observe`], [`Recorder::tick`] until
//! over, [`Recorder::account`]. The caller waits for the target's end, and passes the rows on.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use spillcast_core::capture::cost::Cost;
use spillcast_core::capture::{self, Batch, CallKind, Capture, Joined, NamedStacks, Status};
use spillcast_core::cold_cache;
use spillcast_core::proc::high_water_bytes;
use spillcast_core::system::{now_ns, process_cpu_ns};

use crate::cgroups::CGROUPS;
use crate::earlier_work::EarlierWork;
use crate::failure::Kind::{CaptureUnavailable, PathMissing};
use crate::failure::{Failure, Outcome};
use crate::file_sizes::{SizedFile, open_files};
use crate::limits::{CpuWatch, MemoryStalls, PeakMemory, SocketWatch, memory_groups, tightest};
use crate::machine::{Machine, iso};
use crate::meta::{
    CaptureAccount, EndedBy, Engine, KeptWaits, Memory, Meta, Options, OtherIo, SCHEMA,
    SeenAccount, Temp, ToolCost, seconds, spilled,
};
use crate::sources::{Begun, Choice, Environment, PRELOAD, Wanted, unconnected};

/// One recording in progress.
pub struct Recorder {
    pub options: Options,
    /// The name of the recording program.
    program: &'static str,
    choice: Option<Choice>,
    /// The reason why there is no capture.
    absent_because: Option<String>,
    capture: Option<Capture>,
    observed: Observed,
    pid: i32,
    /// CLOCK_MONOTONIC at the start of the recording.
    pub origin_ns: u64,
    before: Option<EarlierWork>,
    temp_before: Vec<SizedFile>,
    machine: Option<Machine>,
    /// Limit, and bytes held at the start, of the memory cgroup with the least room.
    memory_group: Option<(u64, u64)>,
    memory: Option<PeakMemory>,
    stalls: Option<MemoryStalls>,
    cpu: Option<CpuWatch>,
    sockets: Option<SocketWatch>,
    started_at: Timestamp,
    started: Instant,
    elapsed: Duration,
    ended_by: EndedBy,
    cpu_before_ns: u64,
}

#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The engine's directories of temp files, used if the user gives none.
    pub temp_dirs: Vec<PathBuf>,
    /// Whether temp files are never accessed through io_uring.
    pub only_calls: bool,
    /// Whether memory and sockets are ignored, because polling takes time for each process.
    pub many_processes: bool,
    pub was_running: bool,
}

impl Recorder {
    /// Fails if a directory cannot be used, or no process can be observed.
    pub fn new(options: Options, program: &'static str) -> Outcome<Recorder> {
        // In a PID namespace without a /proc of its own, its ids mean other processes.
        let shown = fs::read_link("/proc/self");
        if shown.ok() != Some(std::process::id().to_string().into()) {
            let message = match Path::new("/proc/1").exists() {
                true => "/proc is that of another PID namespace, so no process can be observed",
                false => "there is no /proc, so no process can be observed",
            };
            let hint = "mount it: mount -t proc proc /proc";
            return Err(Failure::of(CaptureUnavailable, message, hint));
        }
        if let Some(path) = options.temp_dirs.iter().find(|path| !path.is_dir()) {
            let message = format!("--temp {}: there is no such directory", path.display());
            return Err(Failure::of(PathMissing, message, ""));
        }
        Ok(Recorder {
            options,
            program,
            choice: None,
            absent_because: None,
            capture: None,
            observed: Observed::default(),
            pid: 0,
            origin_ns: now_ns(),
            before: None,
            temp_before: Vec::new(),
            machine: None,
            memory_group: None,
            memory: None,
            stalls: None,
            cpu: None,
            sockets: None,
            started_at: Timestamp::now(),
            started: Instant::now(),
            elapsed: Duration::ZERO,
            ended_by: EndedBy::Interrupt,
            cpu_before_ns: process_cpu_ns(),
        })
    }

    /// Chooses the capture source; returns the variables that a command needs in its environment.
    ///
    /// `pid` is a process that is already running; `label` is its name in errors.
    pub fn prepare(
        &mut self,
        pid: Option<i32>,
        label: Option<&str>,
        calls: Vec<CallKind>,
        preload: Outcome<String>,
    ) -> Outcome<Environment> {
        let (capture, program) = (self.options.capture.as_str(), self.program);
        let choice = Choice::new(Wanted { capture, pid, label, calls, preload, program })?;
        let environment = choice.environment()?;
        self.choice = Some(choice);
        Ok(environment)
    }

    /// Observes a process and its descendants; nothing that it did before is in the recording.
    ///
    /// Returns variables if the command must be started again with them.
    pub fn observe(&mut self, pid: i32, how: Observed) -> Outcome<Option<Environment>> {
        let given = [&self.options.temp_dirs, &how.temp_dirs];
        let dirs = given.iter().find(|dirs| !dirs.is_empty()).map_or(&[][..], |dirs| dirs);
        let absolute = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
        let dirs: Vec<PathBuf> = dirs.iter().map(absolute).collect();
        let choice = self.choice.as_mut().expect("the recorder was prepared");
        let capture = match choice.begin(pid, &dirs)? {
            Begun::Capture(capture) => capture,
            Begun::StartAgain(environment) => return Ok(Some(environment)),
        };
        self.origin_ns = capture.origin_ns;
        self.capture = Some(capture);
        self.machine = Some(Machine::describe());
        if how.was_running {
            self.before = EarlierWork::of(pid);
        }
        self.temp_before = SizedFile::list(open_files(pid));
        self.memory_group = tightest(&memory_groups(pid, Path::new(CGROUPS)));
        self.cpu = Some(CpuWatch::new(pid, Path::new(CGROUPS)));
        self.stalls = Some(MemoryStalls::new(pid, Path::new(CGROUPS)));
        if !how.many_processes {
            self.memory = Some(PeakMemory::new(pid, self.method() == PRELOAD));
            self.sockets = Some(SocketWatch::new(pid));
        }
        self.observed = how;
        self.begin(pid);
        Ok(None)
    }

    /// Starts a recording without a capture, for the given reason.
    pub fn observe_nothing(&mut self, pid: i32, because: String) {
        (self.choice, self.absent_because) = (None, Some(because));
        self.origin_ns = now_ns();
        self.begin(pid);
    }

    fn begin(&mut self, pid: i32) {
        self.pid = pid;
        (self.started_at, self.started) = (Timestamp::now(), Instant::now());
    }

    /// Records what the process, which is already running, has done until now.
    pub fn keep_earlier_work(&mut self) {
        self.before = EarlierWork::of(self.pid);
    }

    /// The name of the capture source; "none" without a capture.
    pub fn method(&self) -> &'static str {
        self.choice.as_ref().map_or("none", |choice| choice.name)
    }

    /// Which source observes, and why no better one does; None if it was requested by name.
    pub fn notice(&self) -> Option<String> {
        self.choice.as_ref().and_then(Choice::notice)
    }

    /// Observes another running process; repeated calls are ignored.
    pub fn attach(&self, pid: i32) -> io::Result<()> {
        self.capture.as_ref().map_or(Ok(()), |capture| capture.attach(pid))
    }

    /// Observes children that `parent` starts from now on and whose command line contains `title`.
    pub fn attach_children(&mut self, parent: i32, title: &str) -> io::Result<()> {
        self.capture.as_mut().map_or(Ok(()), |capture| capture.attach_children(parent, title))
    }

    /// The processes that were attached after the recording began.
    pub fn joined(&self) -> Vec<Joined> {
        self.capture.as_ref().map(Capture::joined).unwrap_or_default()
    }

    pub fn status(&self) -> Status {
        match &self.capture {
            Some(capture) => capture.status(),
            None => Status {
                elapsed_ns: now_ns() - self.origin_ns,
                observed: capture::Observed { connected: true, ..Default::default() },
                ..Status::default()
            },
        }
    }

    /// Returns the new rows; also whether the recording is over, because the target has
    /// `ended` or the time limit is reached.
    pub fn tick(&mut self, ended: bool) -> (bool, Batch) {
        self.elapsed = self.started.elapsed();
        let batch = self.collect();
        let limit_s = self.options.duration_s;
        let over = limit_s.is_some_and(|limit_s| self.elapsed.as_secs_f64() >= limit_s);
        if ended || over {
            self.ended_by = if ended { EndedBy::End } else { EndedBy::Duration };
        }
        (ended || over, batch)
    }

    /// Returns the rows since the last call.
    pub fn collect(&mut self) -> Batch {
        let joined = self.joined();
        if let Some(memory) = &mut self.memory {
            memory.add(joined.iter().map(|process| process.pid));
            memory.look();
        }
        self.cpu.iter_mut().for_each(CpuWatch::look);
        self.stalls.iter_mut().for_each(MemoryStalls::look);
        self.sockets.iter_mut().for_each(SocketWatch::look);
        self.capture.as_ref().map(Capture::take).unwrap_or_default()
    }

    /// Ends the capture; its rows can still be collected. `over`: the run has also ended.
    pub fn end_capture(&mut self, over: bool) {
        if let Some(capture) = &mut self.capture {
            if over {
                capture.end_run();
            }
            capture.stop();
        }
    }

    /// The functions that the observed threads ran; None if no stack was sampled.
    pub fn stacks(&self) -> Option<NamedStacks> {
        self.capture.as_ref().and_then(Capture::stacks)
    }

    /// Fails if the source observed nothing of the run at all.
    pub fn check_connected(&self) -> Outcome<()> {
        if self.status().observed.connected {
            return Ok(());
        }
        let hint = "record it with --capture perf";
        Err(Failure::of(CaptureUnavailable, unconnected(self.method()), hint))
    }

    /// Time from the start to now, or to the end of a target that has `ended`.
    pub fn elapsed(&self, ended: bool) -> Duration {
        if ended { self.elapsed } else { self.started.elapsed() }
    }

    /// Measures the machine's caches, which takes 0.5 s and disturbs no process after the run has
    /// ended.
    pub fn measure_caches(&mut self) {
        if let Some(machine) = self.machine.as_mut().filter(|machine| machine.caches.is_empty()) {
            machine.caches = cold_cache::measure();
        }
    }

    /// meta.json as known so far, for a run of `elapsed_s` that started at `started_ns` on
    /// CLOCK_MONOTONIC.
    pub fn account(
        &self,
        elapsed_s: f64,
        started_ns: Option<u64>,
        cost: Option<Cost>,
        process: (Option<Vec<String>>, Option<i32>),
    ) -> Meta {
        let status = self.status();
        let zero_ns = started_ns.map_or(0, |started_ns| started_ns.saturating_sub(self.origin_ns));
        let since = SignedDuration::from_nanos(i64::try_from(zero_ns).unwrap_or(i64::MAX));
        let method = self.method();
        let is_captured = self.absent_because.is_none();
        let tool = ToolCost {
            cpu_s: seconds(process_cpu_ns() - self.cpu_before_ns),
            memory_bytes: high_water_bytes(std::process::id() as i32),
            capture: cost,
            unobserved_processes: self
                .memory
                .as_ref()
                .map_or(0, |memory| memory.out_of_reach.len()),
        };
        let memory = self.memory.as_ref();
        let group = memory.and_then(PeakMemory::group).or(self.memory_group);
        let (command, exit_status) = process;
        Meta {
            schema: SCHEMA,
            spillcast: env!("CARGO_PKG_VERSION"),
            started_at: iso(self.started_at.checked_add(since).unwrap_or(self.started_at)),
            elapsed_s,
            recorded_s: (status.elapsed_ns as f64 - zero_ns as f64) / 1e9,
            clock: "CLOCK_MONOTONIC",
            ended_by: self.ended_by,
            before: self.before,
            temp_before: self.temp_before.clone(),
            inputs: Vec::new(),
            engine: Engine { name: "process", pid: Some(self.pid), command, exit_status },
            machine: self.machine.clone(),
            memory: Memory {
                limit_bytes: group.map(|group| group.0),
                peak_rss_bytes: memory.and_then(PeakMemory::peak_bytes),
                group_held_bytes: group.map(|group| group.1),
                stalled_s: self.stalls.as_ref().and_then(|stalls| stalls.stalled_s),
            },
            cpu_limits: self.cpu.as_ref().map(|cpu| cpu.limits).unwrap_or_default(),
            cpu_s: status.cpu_ns.map(seconds),
            temp: is_captured.then(|| Temp::of(&status)),
            spilled: spilled(method, &status).filter(|_| is_captured),
            temp_places: Vec::new(),
            temp_kinds: Vec::new(),
            other_io: is_captured.then(|| OtherIo::of(&status)),
            server_connection: self.sockets.as_ref().map(|sockets| sockets.connected),
            capture: match &self.absent_because {
                None => {
                    let only_calls = self.observed.only_calls;
                    let seen = SeenAccount::of(method, &status, tool, only_calls);
                    CaptureAccount::Seen(Box::new(seen))
                }
                Some(because) => {
                    CaptureAccount::Absent { method: "none", absent_because: because.clone() }
                }
            },
            asked: self.options.clone(),
            raw: KeptWaits::default(),
        }
    }
}
