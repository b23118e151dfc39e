//! `probe`: how a directory serves a recording's I/O, or any, as a storage.json.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use rustix::fs::statvfs;
use spillcast_core::probe::ProbeError;
use spillcast_core::probe::grid::{Grid, Options, Outcome as GridOutcome};

use crate::arguments::{Arguments, help};
use crate::like;
use crate::storage::Measured;
use spillcast_recording::failure::{Failure, Outcome};
use spillcast_recording::json::{Document, Value, json};

const TIME: Duration = Duration::from_secs(60);
/// Of what is free on a storage, files may take one part in so many.
const FREE_PARTS: u64 = 10;

/// What a probe may take: time, and bytes that its files hold at one moment.
pub struct Budget {
    pub time: Duration,
    pub bytes: Option<u64>,
}

impl Budget {
    fn of(directory: &Path, time: Duration) -> Budget {
        // A file system without limits says that it has no blocks.
        let disk = statvfs(directory).ok().filter(|disk| disk.f_blocks > 0);
        let bytes = disk.map(|disk| disk.f_bavail * disk.f_frsize / FREE_PARTS);
        Budget { time, bytes }
    }
}

/// Measures, and writes the document to `-o` or to stdout.
pub fn run(words: &[OsString]) -> Outcome<u8> {
    let valued = ["--output", "--budget", "--like"];
    let arguments = Arguments::read("probe", words, &valued, &["--psync", "--grid"])?;
    let [directory] = &arguments.words[..] else {
        return Err(Failure::usage("probe needs one directory to measure", help()));
    };
    let like = arguments.value("--like").map(Path::new);
    if like.is_some() && (arguments.has("--grid") || arguments.has("--psync")) {
        let text = "--like replays the calls that were recorded: leave out --grid and --psync";
        return Err(Failure::usage(text, help()));
    }
    let directory = Path::new(directory);
    if !directory.is_dir() {
        let text = format!("{}: there is no such directory", directory.display());
        return Err(Failure::usage(text, "create it on the storage you mean"));
    }
    let budget = Budget::of(directory, arguments.time("--budget")?.unwrap_or(TIME));
    let document = match like {
        Some(like) => like::document(directory, like, &budget)?,
        None => grid(directory, &budget, arguments.has("--psync"))?,
    };
    let text = document.text(1);
    match arguments.value("--output") {
        Some(path) => std::fs::write(path, format!("{text}\n"))
            .map_err(|error| Failure::io(path.display(), &error))?,
        None => println!("{text}"),
    }
    Ok(0)
}

/// The failure of a probe in a directory.
pub fn failure_in(directory: &Path, error: ProbeError) -> Failure {
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

/// Op by size, depth, pattern and access, without a recording.
fn grid(directory: &Path, budget: &Budget, psync: bool) -> Outcome<Value> {
    let options = Options {
        budget: budget.time,
        budget_bytes: budget.bytes,
        psync,
        ..Options::new(directory)
    };
    let outcome = Grid::new(options).and_then(|grid| grid.run());
    let outcome = outcome.map_err(|error| failure_in(directory, error))?;
    let facts = facts(directory.to_string_lossy().into_owned(), budget, &outcome);
    let groups = &outcome.groups;
    Ok(Measured { directory, source: "grid", groups, changes: Vec::new(), facts }.document())
}

fn facts(directory: String, budget: &Budget, outcome: &GridOutcome) -> Value {
    let engine = if outcome.io_uring_refusal.is_none() { "io_uring" } else { "psync" };
    let sustained = outcome.sustained.as_ref().map(|written| {
        json!({
            "bytes": written.bytes,
            "reached": written.sustained_bytes_per_s.is_some(),
            "burst_bytes": written.burst_bytes,
            "burst_bytes_per_s": written.burst_bytes_per_s,
            "sustained_bytes_per_s": written.sustained_bytes_per_s,
        })
    });
    json!({
        "filesystem": outcome.filesystem.name.as_str(),
        "free_bytes": outcome.filesystem.free_bytes,
        "network": outcome.filesystem.network(),
        "buffered_engine": "psync",
        "direct_engine": outcome.direct_refusal.is_none().then_some(engine),
        "direct_refusal": outcome.direct_refusal.clone(),
        "io_uring_refusal": outcome.io_uring_refusal.clone(),
        "registered_buffers": outcome.registered_buffers,
        "file_bytes": outcome.file_bytes,
        "rounds": outcome.rounds,
        "cells": outcome.cells,
        "cells_without_time": outcome.cells_without_time,
        "cells_without_room": outcome.cells_without_room,
        "elapsed_ns": outcome.elapsed_ns,
        "floor_ns": outcome.floor_ns,
        "sustained": sustained,
        "budget_s": budget.time.as_secs_f64(),
        "budget_bytes": budget.bytes,
        "directory": directory,
    })
}
