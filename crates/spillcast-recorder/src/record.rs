//! `record`: a command or a process under observation, and the folder that tells of it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rustix::time::{ClockId, clock_gettime};
use spillcast_core::capture::Status;
use spillcast_recording::cgroups::CGROUPS;
use spillcast_recording::file_sizes::{inputs_of, open_files, temp_of};
use spillcast_recording::limits::{CpuWatch, PeakMemory, SocketWatch, tightest_group};
use spillcast_recording::proc::{DoneBefore, high_water_bytes};
use spillcast_recording::{Bounds, Second, Writer};

use crate::arguments::{Arguments, help};
use crate::begin::{self, Observed, PRELOAD};
use crate::failure::{Failure, Outcome};
use crate::folder::{self, Folder};
use crate::json::{Document, Value, json};
use crate::meta::{self, Own};
use crate::{machine, signals};

const TICK: Duration = Duration::from_millis(250);

struct Asked {
    output: PathBuf,
    force: bool,
    capture: String,
    temp: Vec<PathBuf>,
    duration: Option<Duration>,
    slices: Option<usize>,
    pid: Option<i32>,
    command: Vec<OsString>,
    json: bool,
}

/// Records; the status to end with.
pub fn run(words: &[OsString]) -> Outcome<u8> {
    let asked = Asked::read(words)?;
    if !Path::new("/proc/self/fd").exists() {
        let hint = "mount it: mount -t proc proc /proc";
        return Err(Failure::usage("there is no /proc, so no process can be observed", hint));
    }
    folder::check(&asked.output, asked.force)?;
    let before = Before {
        done: asked.pid.and_then(DoneBefore::of),
        files: asked.pid.map(open_files).unwrap_or_default(),
    };
    signals::watch();
    let mut observed = match asked.pid {
        Some(pid) => begin::process(pid, &asked.capture, &asked.temp)?,
        None => begin::command(&asked.command, &asked.capture, &asked.temp)?,
    };
    if let Some(notice) = &observed.notice {
        eprintln!("spillcast-recorder: {notice}");
    }
    let kept = Run::begin(&asked, &observed)
        .and_then(|run| run.follow(&asked, &mut observed)?.finish(&asked, &observed, before));
    stay(&mut observed);
    let status = observed.target.exit_status.filter(|_| observed.target.ours).unwrap_or(0);
    let told = match &kept {
        Ok(_) => "what was recorded is kept",
        Err(_) => "there is no recording of it",
    };
    if status != 0 {
        eprintln!("spillcast-recorder: the command ended with status {status}; {told}");
    }
    // Ctrl-C is how a recording is ended; others are told what ended it, as a shell has it.
    let signal = kept?.filter(|&number| number != libc::SIGINT);
    let status = signal.map_or(status, |number| -number);
    Ok(if status < 0 { 128 - status } else { status } as u8)
}

impl Asked {
    fn read(words: &[OsString]) -> Outcome<Asked> {
        let valued = ["--output", "--capture", "--temp", "--duration", "--slices", "--pid"];
        let found = Arguments::read("record", words, &valued, &["--force", "--json"])?;
        let pid = found.number("--pid")?;
        if pid.is_some() != found.command.is_empty() || !found.words.is_empty() {
            return Err(Failure::usage("record needs one of --pid PID or -- COMMAND", help()));
        }
        let folder = |path: &std::ffi::OsStr| {
            let missing = || format!("--temp {}: there is no such directory", path.display());
            fs::canonicalize(path).map_err(|_| Failure::usage(missing(), ""))
        };
        Ok(Asked {
            output: match found.value("--output") {
                Some(path) => path.into(),
                None => folder::unused_name("run.spill".as_ref()),
            },
            force: found.has("--force"),
            capture: found.value("--capture").unwrap_or("auto".as_ref()).to_string_lossy().into(),
            temp: found.values("--temp").map(folder).collect::<Outcome<_>>()?,
            duration: found.time("--duration")?,
            slices: found.number("--slices")?,
            pid,
            json: found.has("--json"),
            command: found.command,
        })
    }

    fn document(&self) -> Value {
        let temp: Vec<String> =
            self.temp.iter().map(|path| path.to_string_lossy().into()).collect();
        json!({
            "temp_dirs": temp,
            "capture": self.capture.as_str(),
            "duration_s": self.duration.map(|limit| limit.as_secs_f64()),
            "slices": self.slices,
        })
    }
}

/// What a process that ran already had done, and had open.
struct Before {
    done: Option<DoneBefore>,
    files: BTreeMap<String, u64>,
}

/// A recording under way.
struct Run {
    folder: Folder,
    writer: Writer,
    memory: PeakMemory,
    limit_bytes: Option<u64>,
    cpu: CpuWatch,
    sockets: SocketWatch,
    started_at: Timestamp,
    started: Instant,
    elapsed: Duration,
    ended_by: &'static str,
    /// The signal that ended it.
    signal: Option<i32>,
}

impl Run {
    fn begin(asked: &Asked, observed: &Observed) -> Outcome<Run> {
        let pid = observed.target.pid;
        let folder = Folder::new(&asked.output, asked.force)?;
        let writer = Writer::new(folder.partial.clone(), Bounds::of(asked.slices))
            .map_err(|error| Failure::io(asked.output.display(), &error))?;
        Ok(Run {
            folder,
            writer,
            memory: PeakMemory::new(pid),
            limit_bytes: tightest_group(pid).map(|group| group.0),
            cpu: CpuWatch::new(pid, Path::new(CGROUPS)),
            sockets: SocketWatch::new(pid),
            started_at: Timestamp::now(),
            started: Instant::now(),
            elapsed: Duration::ZERO,
            ended_by: "interrupt",
            signal: None,
        })
    }

    /// Writes what comes in until the process or the time ends, or a signal comes.
    fn follow(mut self, asked: &Asked, observed: &mut Observed) -> Outcome<Run> {
        loop {
            let ended = observed.target.wait(TICK);
            self.elapsed = self.started.elapsed();
            self.memory.look();
            self.cpu.look();
            self.sockets.look();
            self.collect(observed);
            if ended {
                self.ended_by = "end";
                break;
            }
            if asked.duration.is_some_and(|limit| self.elapsed >= limit) {
                self.ended_by = "duration";
                break;
            }
            match signals::take() {
                Some(number) if observed.target.ours => {
                    signals::pass_on(number, observed.target.pid)
                }
                Some(number) => {
                    self.signal = Some(number);
                    break;
                }
                None => (),
            }
        }
        observed.capture.stop();
        self.collect(observed);
        Ok(self)
    }

    fn collect(&mut self, observed: &Observed) {
        let batch = observed.capture.take();
        self.writer.add_waits(&batch.waits);
        self.writer.add_seconds(batch.seconds.iter().map(Second::from));
    }

    fn finish(self, asked: &Asked, observed: &Observed, before: Before) -> Outcome<Option<i32>> {
        let status = observed.capture.status();
        unconnected(&status, observed)?;
        let own = Own { cpu_s: own_cpu_s(), memory_bytes: high_water_bytes(own_pid()) };
        // Only now, when nobody that was observed is disturbed by it.
        let cost = begin::cost_of(observed.source);
        let name = asked.output.display();
        let kept = self.writer.finish(0).map_err(|error| Failure::io(name, &error))?;
        let engine = json!({
            "name": "process",
            "pid": observed.target.pid,
            "command": program_of(asked),
            "exit_status": observed.target.exit_status,
        });
        let document = json!({
            "schema": "spillcast.recording/1",
            "spillcast": env!("CARGO_PKG_VERSION"),
            "started_at": machine::iso(self.started_at),
            "elapsed_s": self.elapsed.as_secs_f64(),
            "recorded_s": status.elapsed_ns as f64 / 1e9,
            "clock": "CLOCK_MONOTONIC",
            "ended_by": self.ended_by,
        });
        let document = match before.done {
            Some(before) => document.with("before", meta::before(before)),
            None => document,
        };
        let temp_before = temp_of(&before.files, |folder| kept.temp_folders.contains_key(folder));
        let read = kept.other_files.iter().map(|(name, sums)| (name, sums.read_bytes));
        let document = document
            .with("temp_before", meta::files(temp_before))
            .with("inputs", meta::files(inputs_of(read)))
            .with("engine", engine)
            .with("machine", machine::document())
            .with("memory", meta::memory(self.limit_bytes, &self.memory))
            .with("cpu_limits", meta::cpu_limits(self.cpu.limits))
            .with("cpu_s", status.cpu_ns.map(|ns| ns as f64 / 1e9))
            .with("temp", meta::temp(&status))
            .with("spilled", meta::spilled(observed.source, &status))
            .with("temp_places", meta::places(&kept.temp_folders))
            .with("other_io", meta::other_io(&status))
            .with("server_connection", self.sockets.connected)
            .with("capture", meta::capture(observed.source, &status, &own, cost))
            .with("asked", asked.document())
            .with("raw", meta::raw(&kept))
            .with("sums", meta::sums(&kept));
        let path = self.folder.publish(&format!("{}\n", document.text(2)))?;
        if status.counts.temp_reads + status.counts.temp_writes == 0 {
            eprintln!("spillcast-recorder: {}", unspilled(asked, &status, self.sockets.connected));
        }
        tell(asked, &path, &status, observed.source, document);
        Ok(self.signal)
    }
}

fn tell(asked: &Asked, path: &Path, status: &Status, source: &str, document: Value) {
    if asked.json {
        let mut all = json!({ "path": path.to_string_lossy() });
        if let (Value::Object(all), Value::Object(keys)) = (&mut all, document) {
            all.extend(keys);
        }
        println!("{}", all.text(2));
        return;
    }
    let seen = &status.counts;
    println!(
        "{}: {} reads and {} writes of temp files, {} bytes in {:.3} s; {source}: {} lost",
        path.display(),
        seen.temp_reads,
        seen.temp_writes,
        seen.temp_bytes,
        seen.temp_ns as f64 / 1e9,
        status.lost
    );
}

/// A failure where the source saw nothing of the command at all.
fn unconnected(status: &Status, observed: &Observed) -> Outcome<()> {
    if status.connected {
        return Ok(());
    }
    let message = "the preload library was never loaded: the command is static or drops LD_PRELOAD";
    let hint = if observed.source == PRELOAD { "record it with --capture perf" } else { "" };
    Err(Failure::usage(message, hint))
}

/// What no temp I/O means for who asked for the recording.
fn unspilled(asked: &Asked, status: &Status, server_connection: bool) -> String {
    if let Some(left) = status.running.first() {
        let count = status.running.len();
        return format!(
            "no temp I/O was seen; {count} processes still run: record with --pid {left}"
        );
    }
    if server_connection {
        return "no temp I/O was seen; if it is only the client of a server, record the server's \
                process: --pid PID"
            .to_owned();
    }
    match asked.temp.first() {
        Some(path) => {
            format!("did not spill under {}: is --temp the right directory?", path.display())
        }
        None => "did not spill: temp storage does not matter to it (keeps temp files elsewhere? \
                 --temp DIR)"
            .to_owned(),
    }
}

/// Waits for a command to its end; it gets our signals.
fn stay(observed: &mut Observed) {
    while observed.target.ours && !observed.target.wait(TICK) {
        if let Some(number) = signals::take() {
            signals::pass_on(number, observed.target.pid);
        }
    }
}

/// The program alone: arguments may hold secrets, which only the Python side knows to strike out.
fn program_of(asked: &Asked) -> Option<Vec<String>> {
    let line = asked.pid.map(|pid| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default());
    let program = match line {
        Some(line) => String::from_utf8_lossy(line.split(|&byte| byte == 0).next()?).into_owned(),
        None => asked.command.first()?.to_string_lossy().into_owned(),
    };
    (!program.is_empty()).then(|| vec![program])
}

fn own_cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn own_pid() -> i32 {
    std::process::id() as i32
}
