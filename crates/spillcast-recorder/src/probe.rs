//! `probe`: a grid of op, size, depth, pattern and access on a directory, as a storage.json.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use spillcast_core::probe::grid::{Grid, Options, Outcome as Found};
use spillcast_core::probe::{Group, ProbeError};

use crate::arguments::{Arguments, help};
use crate::failure::{Failure, Outcome};
use crate::json::{Value, object};

const BUDGET: Duration = Duration::from_secs(60);

/// Measures, and writes the document to `-o` or to stdout.
pub fn run(words: &[OsString]) -> Outcome<u8> {
    let valued = ["--output", "--budget"];
    let found = Arguments::read("probe", words, &valued, &["--psync", "--grid"])?;
    let [directory] = &found.words[..] else {
        return Err(Failure::usage("probe needs one directory to measure", help()));
    };
    let budget = found.time("--budget")?.unwrap_or(BUDGET);
    let directory = Path::new(directory);
    let options = Options { budget, psync: found.has("--psync"), ..Options::new(directory) };
    let measured = Grid::new(options).and_then(|grid| grid.run()).map_err(told)?;
    let text = document(directory, budget, &measured).text(1);
    match found.value("--output") {
        Some(path) => std::fs::write(path, format!("{text}\n"))
            .map_err(|error| Failure::io(path.display(), &error))?,
        None => println!("{text}"),
    }
    Ok(0)
}

fn told(error: ProbeError) -> Failure {
    let status = if matches!(error, ProbeError::Io { .. }) { 1 } else { 2 };
    Failure { status, ..Failure::usage(error.to_string(), "") }
}

/// The storage.json that spillcast writes of the same grid.
fn document(directory: &Path, budget: Duration, found: &Found) -> Value {
    let name = directory.to_string_lossy().into_owned();
    object! {
        "schema": "spillcast.storage/1",
        "name": name.as_str(),
        "source": "grid",
        "groups": Value::List(found.groups.iter().map(group).collect()),
        "changes": Value::List(Vec::new()),
        "limits": Value::List(Vec::new()),
        "servers": Value::Null,
        "facts": facts(name, budget, found),
    }
}

fn group(group: &Group) -> Value {
    let (middles, counts): (Vec<u64>, Vec<u64>) = group.histogram.buckets().unzip();
    let block_counts: Vec<u64> = group.block_means_ns.iter().map(|block| block.0).collect();
    let means: Vec<i64> = group.block_means_ns.iter().map(|block| block.1.round() as i64).collect();
    object! {
        "op": group.op.name(),
        "size_class_bytes": group.size_class_bytes,
        "depth": group.depth,
        "count": group.count,
        "bytes": group.bytes,
        "total_ns": group.histogram.total_ns(),
        "latency_ns": middles,
        "latency_count": counts,
        "block_count": block_counts,
        "block_mean_ns": means,
        "pattern": group.pattern.name(),
        "access": group.access.name(),
        "elapsed_ns": group.elapsed_ns,
    }
}

fn facts(directory: String, budget: Duration, found: &Found) -> Value {
    let engine = if found.io_uring_refusal.is_none() { "io_uring" } else { "psync" };
    let sustained = found.sustained.as_ref().map(|written| {
        object! {
            "bytes": written.bytes,
            "reached": written.sustained_bytes_per_s.is_some(),
            "burst_bytes": written.burst_bytes,
            "burst_bytes_per_s": written.burst_bytes_per_s,
            "sustained_bytes_per_s": written.sustained_bytes_per_s,
        }
    });
    object! {
        "filesystem": found.filesystem.name.as_str(),
        "free_bytes": found.filesystem.free_bytes,
        "network": found.filesystem.network(),
        "buffered_engine": "psync",
        "direct_engine": found.direct_refusal.is_none().then_some(engine),
        "direct_refusal": found.direct_refusal.clone(),
        "io_uring_refusal": found.io_uring_refusal.clone(),
        "registered_buffers": found.registered_buffers,
        "file_bytes": found.file_bytes,
        "rounds": found.rounds,
        "cells": found.cells,
        "cells_without_time": found.cells_without_time,
        "cells_without_room": found.cells_without_room,
        "elapsed_ns": found.elapsed_ns,
        "floor_ns": found.floor_ns,
        "sustained": sustained,
        "budget_s": budget.as_secs_f64(),
        "directory": directory,
    }
}
