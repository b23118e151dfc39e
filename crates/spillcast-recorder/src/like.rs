//! `probe --like`: the temp I/O of a recording, done again on a directory.

use std::path::Path;
use std::thread;
use std::time::Duration;

use spillcast_core::probe::{Options, Outcome as Replayed, Probe, ProbeError};

use crate::memory_group::MemoryGroup;
use crate::probe::{Budget, failure_in};
use crate::recording::Recording;
use crate::signals;
use crate::storage;
use spillcast_recording::Measured;
use spillcast_recording::failure::Outcome;
use spillcast_recording::json::{Document, Value};
use spillcast_recording::page_cache::bound_bytes;

/// What the kernel takes besides what the replay says it takes.
const SLACK_BYTES: u64 = 4 << 20;
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Replays with the page cache that the engine had, and gives the storage.json.
pub fn document(directory: &Path, like: &Path, budget: &Budget) -> Outcome<Value> {
    let recording = Recording::open(like)?;
    let from = recording.plan()?;
    let Budget { time, bytes } = *budget;
    let dir = directory.to_owned();
    let options = Options { dir, budget: time, budget_bytes: bytes, direct: false };
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
    let mut measured = Measured::from(&replayed);
    measured.facts = measured
        .facts
        .with("budget_s", budget.time.as_secs_f64())
        .with("budget_bytes", budget.bytes)
        .with("page_cache_bytes", engine_bytes)
        .with("memory_bound", held)
        .with("memory_bound_reason", refusal)
        .with("directory", directory.to_string_lossy())
        .with("like", recording.name())
        .with("closed_loop", from.closed_loop);
    Ok(storage::document(directory, "probe", measured))
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
