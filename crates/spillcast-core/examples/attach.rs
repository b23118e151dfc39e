//! Observes a process or a command with one source; prints the time taken and what was observed.
//!
//! `attach SOURCE DIR --pid PID` attaches and immediately detaches; `attach SOURCE DIR -- COMMAND`
//! observes the command until it ends. Prints one line of JSON with the calls on files below DIR.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitOptions, waitpid};
use serde_json::{Map, Value, json};
use spillcast_core::capture::{Batch, CallKind, Capture, HeldCommand, SOURCES, Source, TempRules};
use spillcast_core::wait::Op;

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match observed(&arguments) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("attach: {error}");
            ExitCode::from(2)
        }
    }
}

/// The target of a capture.
enum Target {
    Running(i32),
    Held(HeldCommand),
}

fn observed(arguments: &[String]) -> Result<String, Failure> {
    let [name, dir, how, rest @ ..] = arguments else {
        return Err("wants SOURCE DIR --pid PID, or SOURCE DIR -- COMMAND".into());
    };
    let known = SOURCES.iter().find(|(known, _)| known == name);
    let (_, open) = known.ok_or_else(|| format!("{name}: there is no such source"))?;
    let begin = Instant::now();
    let source = open(CallKind::ALL)?;
    let open_s = begin.elapsed().as_secs_f64();
    let target = match (how.as_str(), rest) {
        ("--pid", [pid]) => Target::Running(pid.parse()?),
        ("--", [_, ..]) => Target::Held(hold(rest, source.as_ref())?),
        _ => return Err("wants --pid PID or -- COMMAND".into()),
    };
    let (pid, begin) = (target.pid(), Instant::now());
    let mut capture = Capture::start(source, &[pid], TempRules::new(vec![PathBuf::from(dir)]))?;
    let attach_s = begin.elapsed().as_secs_f64();
    let descriptors = std::fs::read_dir("/proc/self/fd")?.count();
    if let Target::Held(held) = target {
        held.release()?;
        wait(pid)?;
    }
    capture.stop();
    let status = capture.status();
    let (files, calls) = seen(&capture.take(), dir);
    let document = json!({
        "source": name,
        "open_s": open_s,
        "attach_s": attach_s,
        "descriptors": descriptors,
        "lost": status.observed.lost,
        "dropped": status.dropped,
        "tracer_cpu_s": Duration::from_nanos(status.tracer_cpu_ns).as_secs_f64(),
        "files": files,
        "calls": calls,
    });
    Ok(document.to_string())
}

impl Target {
    fn pid(&self) -> i32 {
        match self {
            Target::Running(pid) => *pid,
            Target::Held(held) => held.pid,
        }
    }
}

fn hold(command: &[String], source: &dyn Source) -> Result<HeldCommand, Failure> {
    let arguments: Result<Vec<CString>, _> =
        command.iter().map(|word| CString::new(word.as_str())).collect();
    let mut environment = Vec::new();
    for (name, value) in std::env::vars_os() {
        environment.push(CString::new([name.into_vec(), value.into_vec()].join(&b'='))?);
    }
    if let Some((name, value)) = source.environment() {
        environment.push(CString::new(format!("{name}={value}"))?);
    }
    Ok(HeldCommand::start(&arguments?, &environment)?)
}

fn wait(pid: i32) -> Result<(), Failure> {
    match waitpid(Pid::from_raw(pid), WaitOptions::empty())? {
        Some((_, status)) if status.exit_status() == Some(0) => Ok(()),
        status => Err(format!("the command ended with {status:?}").into()),
    }
}

/// Number of files, and reads and writes by name with the sums of their bytes and offsets.
fn seen(batch: &Batch, dir: &str) -> (usize, Map<String, Value>) {
    let mut calls = BTreeMap::<&str, [i64; 3]>::new();
    let mut files = BTreeSet::new();
    let names = batch.waits.names.lock().expect("no holder panics");
    for wait in batch.waits.rows.iter().filter(|wait| wait.op != Op::Null) {
        let Some(file) = wait.file.filter(|&id| names.files.list()[id as usize].starts_with(dir))
        else {
            continue;
        };
        files.insert(file);
        let totals = calls.entry(&*names.events.list()[wait.event as usize]).or_default();
        let moved = [1, wait.bytes.unwrap_or(0), wait.offset.unwrap_or(0)];
        totals.iter_mut().zip(moved).for_each(|(total, number)| *total += number);
    }
    let calls = calls.iter().map(|(name, [count, bytes, offsets])| {
        let call = json!({ "count": count, "bytes": bytes, "offsets": offsets });
        ((*name).to_owned(), call)
    });
    (files.len(), calls.collect())
}
