//! `record`: the command line of the recorder, for a command or a process.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use spillcast_core::capture::cost::{self, Cost, Program};
use spillcast_core::capture::{CallKind, SOURCES, Status};
use spillcast_recording::failure::{Failure, Outcome, reason};
use spillcast_recording::folder::unused_name;
use spillcast_recording::json::{Document, json};
use spillcast_recording::meta::Options;
use spillcast_recording::sources::{AUTO, PRELOAD};
use spillcast_recording::target::{Target, c_strings, environment, program};
use spillcast_recording::{Bounds, Observed, Output, Recorder};

use crate::arguments::{Arguments, HELP};
use crate::library::Library;
use crate::signals;
use crate::{print_data, print_message};

const TICK: Duration = Duration::from_millis(250);
const PROGRAM: &str = "spillcast-recorder";
/// The verb of the child process that measures the cost of a capture.
pub const COST_VERB: &str = "cost-child";

struct Request {
    output: PathBuf,
    options: Options,
    pid: Option<i32>,
    command: Vec<OsString>,
    json: bool,
}

/// Records; returns the exit status.
pub fn run(words: &[OsString]) -> Outcome<u8> {
    signals::ignore_size_limit();
    let request = Request::read(words)?;
    let Options { slices, share, force, .. } = request.options;
    let mut recorder = Recorder::new(request.options.clone(), PROGRAM)?;
    let mut output = Output::new(&request.output, Bounds::of(slices), share, force)?;
    signals::watch();
    // The command may load the library as long as it runs.
    let (mut target, _library) = begin(&mut recorder, &request)?;
    if let Some(notice) = recorder.notice().filter(|notice| notice.ends_with("instead")) {
        print_message(notice);
    }
    let signal = follow(&mut recorder, &mut output, &mut target);
    let kept = finish(&mut recorder, output, &target, &request);
    stay(&mut target);
    let status = target.exit_status.unwrap_or(0);
    if status != 0 {
        let kept = match &kept {
            Ok(()) => "what was recorded is kept",
            Err(_) => "there is no recording of it",
        };
        print_message(format_args!("the command ended with status {status}; {kept}"));
    }
    kept?;
    // Ctrl-C ends a recording normally; after another signal the status names it, as in a shell.
    let signal = signal.filter(|&number| number != libc::SIGINT);
    let status = signal.map_or(status, |number| -number);
    Ok(if status < 0 { 128 - status } else { status } as u8)
}

impl Request {
    fn read(words: &[OsString]) -> Outcome<Request> {
        let valued = ["--output", "--capture", "--temp", "--duration", "--slices", "--pid"];
        let given = Arguments::read("record", words, &valued, &["--force", "--json"])?;
        let pid = given.number("--pid")?;
        if pid.is_some() != given.command.is_empty() || !given.words.is_empty() {
            return Err(Failure::usage("record needs one of --pid PID or -- COMMAND", HELP));
        }
        let temp_dirs = given.values("--temp").map(PathBuf::from);
        let capture = given.value("--capture").unwrap_or(AUTO.as_ref());
        Ok(Request {
            output: match given.value("--output") {
                Some(path) => path.into(),
                None => unused_name("run.spill".as_ref()),
            },
            options: Options {
                temp_dirs: temp_dirs.map(|path| path.canonicalize().unwrap_or(path)).collect(),
                capture: capture.to_string_lossy().into(),
                duration_s: given.time("--duration")?.map(|limit| limit.as_secs_f64()),
                slices: given.number("--slices")?,
                share: false,
                force: given.has("--force"),
            },
            pid,
            json: given.has("--json"),
            command: given.command,
        })
    }
}

/// Starts the command, or attaches to the process.
fn begin(recorder: &mut Recorder, request: &Request) -> Outcome<(Target, Option<Library>)> {
    let how = Observed { was_running: request.pid.is_some(), ..Observed::default() };
    if let Some(pid) = request.pid {
        let target = Target::process(pid.into())?;
        let none = Failure::usage("a running process cannot load the library", "");
        recorder.prepare(Some(pid), None, CallKind::ALL.to_vec(), Err(none))?;
        recorder.observe(pid, how)?;
        return Ok((target, None));
    }
    let path = program(&request.command[0])?;
    let library = Library::fitting(&path);
    let preload = match &library {
        Ok(library) => Ok(library.value()),
        Err(error) => Err(Failure::usage(
            format!("cannot observe a command by preload: {}", reason(error)),
            "try another --capture",
        )),
    };
    let mut variables = recorder.prepare(None, None, CallKind::ALL.to_vec(), preload)?;
    loop {
        let mut target = Target::command(&request.command, environment(&variables))?;
        match recorder.observe(target.pid, how.clone())? {
            Some(again) => variables = again,
            None => {
                target.release()?;
                return Ok((target, library.ok()));
            }
        }
    }
}

/// Records until the process or the time ends, or a signal arrives, which is returned.
fn follow(recorder: &mut Recorder, output: &mut Output, target: &mut Target) -> Option<i32> {
    loop {
        let ended = target.wait(TICK);
        let (over, rows) = recorder.tick(ended);
        output.add_batch(&rows);
        if over {
            return None;
        }
        match signals::take() {
            Some(number) if target.ours => signals::pass_on(number, target),
            Some(number) => return Some(number),
            None => (),
        }
    }
}

fn finish(
    recorder: &mut Recorder,
    mut output: Output,
    target: &Target,
    request: &Request,
) -> Outcome<()> {
    recorder.end_capture(false);
    output.add_batch(&recorder.collect());
    recorder.check_connected()?;
    // Only now, when it no longer disturbs observed processes.
    recorder.measure_caches();
    let cost = cost_of(recorder.method());
    let elapsed_s = recorder.elapsed(target.exit_status.is_some()).as_secs_f64();
    let process = (program_of(request), target.exit_status);
    let meta = json!(recorder.account(elapsed_s, None, cost, process));
    let connected = meta["server_connection"] == true;
    if meta["capture"]["unobserved_processes"].as_u64().is_some_and(|count| count > 0) {
        let which = unobserved_by(recorder.method());
        print_message(format_args!("processes were not observed, {which}"));
    }
    let Value::Object(meta) = meta else { unreachable!("a struct is an object") };
    output.finish_rows(0)?;
    recorder.stacks().iter().for_each(|stacks| output.add_stacks(stacks));
    let (path, meta) = output.publish(meta, None)?;
    if let Some(because) = meta.get("raw").and_then(|raw| raw["because"].as_str()) {
        print_message(format_args!("not all single waits could be kept: {because}"));
    }
    let status = recorder.status();
    if status.counts.temp_reads + status.counts.temp_writes == 0 {
        let failed = target.exit_status.is_some_and(|status| status != 0);
        print_message(unspilled(request, &status, connected, failed));
    }
    if request.json {
        let mut all = json!({ "path": path.to_string_lossy() });
        if let (Value::Object(all), Value::Object(keys)) = (&mut all, meta) {
            all.extend(keys);
        }
        return print_data(all.text());
    }
    let counts = &status.counts;
    print_data(format_args!(
        "{}: {} reads and {} writes of temp files, {} bytes in {:.3} s; {}: {} lost",
        path.display(),
        counts.temp_reads,
        counts.temp_writes,
        counts.temp_bytes,
        counts.temp_ns as f64 / 1e9,
        recorder.method(),
        status.observed.lost
    ))
}

/// The processes that a source cannot observe, and how to observe them.
fn unobserved_by(source: &str) -> &'static str {
    match source {
        PRELOAD => {
            "of another user, static or of 32 bits: record as root with --capture bpf or perf"
        }
        "perf" => "of another user: record as root; or of 32 bits, which no source observes",
        _ => "of 32 bits, which no source observes",
    }
}

/// The cost of a source to the observed processes; None if it cannot be measured.
fn cost_of(source: &str) -> Option<Cost> {
    // A static program does not load a library.
    if source == PRELOAD {
        return None;
    }
    let (_, open) = SOURCES.iter().find(|(name, _)| *name == source)?;
    let ours = env::current_exe().ok()?;
    let environment = environment(&Vec::new());
    let arguments = c_strings([ours.into_os_string(), COST_VERB.into()]);
    let program = Program { arguments, observed: environment.clone(), bare: environment };
    cost::measure(|| open(CallKind::ALL), &program).ok()
}

/// The meaning of a recording without temp I/O.
fn unspilled(request: &Request, status: &Status, server_connection: bool, failed: bool) -> String {
    if let Some(&left) = status.running.first() {
        let remedy = match request.pid {
            Some(pid) if pid == left => "record it for longer".to_owned(),
            _ => format!("record it with --pid {left}"),
        };
        return format!("no temp I/O was seen, and process {left} still runs: {remedy}");
    }
    if server_connection {
        return "no temp I/O was seen; if it is only the client of a server, record the server's \
                process: --pid PID"
            .to_owned();
    }
    match request.options.temp_dirs.first() {
        Some(path) => {
            format!("did not spill under {}: is --temp the right directory?", path.display())
        }
        None => {
            let consequence = match failed {
                true => " before it failed",
                false => ": temp storage does not matter to it",
            };
            format!("did not spill{consequence} (keeps temp files elsewhere? --temp DIR)")
        }
    }
}

/// Waits for a command to end; passes received signals on to it.
pub fn stay(target: &mut Target) {
    while target.ours && !target.wait(TICK) {
        if let Some(number) = signals::take() {
            signals::pass_on(number, target);
        }
    }
}

/// The program without its arguments, which may contain secrets that only spillcast can remove.
fn program_of(request: &Request) -> Option<Vec<String>> {
    let line = request.pid.map(|pid| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default());
    let program = match line {
        Some(line) => String::from_utf8_lossy(line.split(|&byte| byte == 0).next()?).into_owned(),
        None => request.command.first()?.to_string_lossy().into_owned(),
    };
    (!program.is_empty()).then(|| vec![program])
}
