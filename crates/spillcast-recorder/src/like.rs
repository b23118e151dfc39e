//! `probe --like`: the temp I/O of a recording, done again on a directory.

use std::path::Path;
use std::thread;
use std::time::Duration;

use spillcast_core::probe::{Options, Outcome as Replayed, Probe, ProbeError};

use crate::memory_group::MemoryGroup;
use crate::page_cache::bound_bytes;
use crate::probe::{Budget, failure_in};
use crate::recording::Recording;
use crate::signals;
use crate::storage::Measured;
use spillcast_recording::failure::Outcome;
use spillcast_recording::json::{Document, Value, json};

/// What the kernel takes besides what the replay says it takes.
const SLACK_BYTES: u64 = 4 << 20;
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Replays with the page cache that the engine had, and gives the storage.json.
pub fn document(directory: &Path, like: &Path, budget: &Budget) -> Outcome<Value> {
    let recording = Recording::open(like)?;
    let from = recording.plan()?;
    let options =
        Options { budget: budget.time, budget_bytes: budget.bytes, ..Options::new(directory) };
    let replay = Probe::new(from.plan, options).map_err(|error| failure_in(directory, error))?;
    let engine_bytes = recording.cache_bytes();
    let bound = bound_bytes(engine_bytes, &replay);
    signals::watch();
    let group = bound.map(|bound| MemoryGroup::join(bound + replay.memory_bytes() + SLACK_BYTES));
    let replayed = run(&replay).map_err(|error| failure_in(directory, error));
    let refusal = group.as_ref().and_then(|group| group.as_ref().err().cloned());
    let held = bound.filter(|_| refusal.is_none());
    drop(group);
    let replayed = replayed?;
    let facts = facts(&replayed, budget)
        .with("page_cache_bytes", engine_bytes)
        .with("memory_bound", held)
        .with("memory_bound_reason", refusal)
        .with("directory", directory.to_string_lossy().into_owned())
        .with("like", recording.name())
        .with("closed_loop", from.closed_loop);
    let changes = replayed.changes.iter().map(|(event, latencies)| (*event, latencies)).collect();
    let groups = &replayed.groups;
    Ok(Measured { directory, source: "probe", groups, changes, facts }.document())
}

/// Runs to its end, or to the first signal.
fn run(replay: &Probe) -> Result<Replayed, ProbeError> {
    thread::scope(|scope| {
        let running = scope.spawn(|| replay.run());
        while !running.is_finished() {
            if signals::take().is_some() {
                replay.cancel();
            }
            thread::sleep(LOOK_EVERY);
        }
        running.join().expect("a replay does not panic")
    })
}

fn facts(replayed: &Replayed, budget: &Budget) -> Value {
    json!({
        "budget_s": budget.time.as_secs_f64(),
        "budget_bytes": budget.bytes,
        "direct": replayed.direct,
        "elapsed_ns": replayed.elapsed_ns,
        "steps_replayed": replayed.steps_replayed,
        "steps_skipped": replayed.steps_skipped,
        "prefilled_bytes": replayed.prefilled_bytes,
        "think_scale": replayed.think_scale,
        "threads": replayed.threads,
        "in_flight": replayed.in_flight,
        "working_set_bytes": replayed.working_set_bytes,
        "byte_share": replayed.byte_share,
        "floor_ns": replayed.floor_ns,
        "repeated": replayed.repeated,
        "run_queue_io_ns": replayed.disturbance.run_queue_io_ns,
        "run_queue_ns": replayed.disturbance.run_queue_ns,
        "run_queue_others_ns": replayed.disturbance.run_queue_others_ns,
        "others_cpu_share": replayed.disturbance.others_share(),
        "filesystem": replayed.filesystem.name.as_str(),
        "free_bytes": replayed.filesystem.free_bytes,
        "network": replayed.filesystem.network(),
    })
}
