//! `probe`: how a directory serves a recording's I/O, or a grid of I/O, as a storage.json.

use std::ffi::OsString;
use std::path::Path;
use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use rustix::fs::statvfs;
use rustix::system::uname;
use spillcast_core::probe::grid::{self, Grid};
use spillcast_core::probe::{Options, Outcome as Replayed, Probe, ProbeError, mounted};

use crate::arguments::{Arguments, HELP};
use crate::print_data;
use crate::recording::Recording;
use crate::signals;
use spillcast_recording::failure::{Failure, Outcome};
use spillcast_recording::json::{Document, Value, json};
use spillcast_recording::limits::bound_bytes;
use spillcast_recording::memory_group::MemoryGroup;
use spillcast_recording::{Measured, device_name, machine};

const TIME: Duration = Duration::from_secs(60);
/// Files may take 1 / `FREE_PARTS` of the free space of a storage.
const FREE_PARTS: u64 = 10;
/// Kernel memory beyond the memory that the replay reports.
const SLACK_BYTES: u64 = 4 << 20;
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Measures, and writes the document to `-o` or to stdout.
pub fn run(words: &[OsString]) -> Outcome<u8> {
    let valued = ["--output", "--budget", "--like"];
    let arguments = Arguments::read("probe", words, &valued, &["--psync", "--grid"])?;
    let [directory] = &arguments.words[..] else {
        return Err(Failure::usage("probe needs one directory to measure", HELP));
    };
    let like = arguments.value("--like").map(Path::new);
    if like.is_some() && (arguments.has("--grid") || arguments.has("--psync")) {
        let text = "--like replays the calls that were recorded: leave out --grid and --psync";
        return Err(Failure::usage(text, HELP));
    }
    let directory = Path::new(directory);
    if !directory.is_dir() {
        let text = format!("{}: there is no such directory", directory.display());
        return Err(Failure::usage(text, "create it on the storage you mean"));
    }
    let budget = arguments.time("--budget")?.unwrap_or(TIME);
    // A file system without limits reports 0 blocks.
    let disk = statvfs(directory).ok().filter(|disk| disk.f_blocks > 0);
    let budget_bytes = disk.map(|disk| disk.f_bavail * disk.f_frsize / FREE_PARTS);
    let document = match like {
        Some(path) => replay(directory, path, budget, budget_bytes)?,
        None => cells(directory, budget, budget_bytes, arguments.has("--psync"))?,
    };
    let text = document.text();
    match arguments.value("--output") {
        Some(path) => std::fs::write(path, format!("{text}\n"))
            .map_err(|error| Failure::io(path.display(), &error))?,
        None => print_data(text)?,
    }
    Ok(0)
}

/// The failure of a probe in a directory.
fn failure_in(directory: &Path, error: ProbeError) -> Failure {
    let failed = |text: String, hint| Failure { status: 1, ..Failure::usage(text, hint) };
    match error {
        ProbeError::Io { source, .. } if source.raw_os_error() == Some(libc::ENOSPC) => {
            let text = format!("{}: filled up during the probe", directory.display());
            failed(text, "free some space, or name a larger directory")
        }
        ProbeError::Io { .. } | ProbeError::Cancelled => failed(error.to_string(), ""),
        other => Failure::usage(other.to_string(), ""),
    }
}

/// Measures op, size, depth, pattern and access without a recording.
fn cells(dir: &Path, budget: Duration, bytes: Option<u64>, psync: bool) -> Outcome<Value> {
    let options = grid::Options { dir: dir.to_owned(), budget, budget_bytes: bytes, psync };
    let outcome = Grid::new(options).and_then(|grid| grid.run());
    let outcome = outcome.map_err(|error| failure_in(dir, error))?;
    let mut measured = Measured::from(&outcome);
    measured.facts = measured
        .facts
        .with("budget_s", budget.as_secs_f64())
        .with("budget_bytes", bytes)
        .with("directory", dir.to_string_lossy());
    Ok(document(dir, "grid", measured))
}

/// Replays with the engine's amount of page cache; returns the storage.json.
fn replay(dir: &Path, path: &Path, budget: Duration, bytes: Option<u64>) -> Outcome<Value> {
    let recording = Recording::open(path)?;
    let from = recording.plan()?;
    let options = Options { dir: dir.to_owned(), budget, budget_bytes: bytes, direct: false };
    let probe = Probe::new(from.steps, options).map_err(|error| failure_in(dir, error))?;
    let engine_bytes = recording.cache_bytes();
    let bound = bound_bytes(engine_bytes, &probe);
    signals::watch();
    let group = bound.map(|bound| MemoryGroup::join(bound + probe.memory_bytes() + SLACK_BYTES));
    let replayed = run_to_signal(&probe).map_err(|error| failure_in(dir, error));
    let refusal = group.as_ref().and_then(|group| group.as_ref().err().cloned());
    let held = bound.filter(|_| refusal.is_none());
    drop(group);
    let replayed = replayed?;
    let mut measured = Measured::from(&replayed);
    measured.facts = measured
        .facts
        .with("budget_s", budget.as_secs_f64())
        .with("budget_bytes", bytes)
        .with("page_cache_bytes", engine_bytes)
        .with("memory_bound", held)
        .with("memory_bound_reason", refusal)
        .with("directory", dir.to_string_lossy())
        .with("like", recording.name())
        .with("closed_loop", from.closed_loop);
    Ok(document(dir, "probe", measured))
}

/// Runs to completion, or until the first signal.
fn run_to_signal(probe: &Probe) -> Result<Replayed, ProbeError> {
    thread::scope(|scope| {
        let running = scope.spawn(|| probe.run());
        while !running.is_finished() {
            if signals::take().is_some() {
                probe.cancel();
            }
            thread::sleep(LOOK_EVERY);
        }
        running.join().expect("a replay does not panic")
    })
}

/// The storage.json of a directory, measured by the probe `source`.
fn document(directory: &Path, source: &str, measured: Measured) -> Value {
    json!({
        "schema": "spillcast.storage/1",
        "name": name_of(directory),
        "source": source,
        "groups": measured.groups,
        "changes": measured.changes,
        "limits": [],
        "servers": null,
        "provenance": provenance(directory),
        "facts": measured.facts,
    })
}

/// The directory as given, unless that is `.` or `..`.
fn name_of(directory: &Path) -> String {
    let given = || directory.to_string_lossy().into_owned();
    match directory.file_name() {
        Some(_) => given(),
        None => directory
            .canonicalize()
            .map_or_else(|_| given(), |path| path.to_string_lossy().into_owned()),
    }
}

/// Time, place and tools of the measurement. Mount options are left out: they may contain secrets.
fn provenance(directory: &Path) -> Value {
    let system = uname();
    let whole = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    let mount = mounted(&whole).ok().flatten();
    let mount = mount.as_ref();
    json!({
        "measured_at": machine::iso(Timestamp::now()),
        "spillcast": machine::version(),
        "host": system.nodename().to_string_lossy().into_owned(),
        "kernel": system.release().to_string_lossy().into_owned(),
        "directory": whole.to_string_lossy().into_owned(),
        "device": mount.map(|mount| mount.device.as_str()),
        "device_name": mount.and_then(|mount| device_name(&mount.device)),
        "filesystem": mount.map(|mount| mount.filesystem.as_str()),
        "mount_point": mount.map(|mount| mount.point.to_string_lossy().into_owned()),
        "mount_options": Value::Null,
    })
}
