//! What a probe measured, as storage.json has it: groups, calls that change files, facts.

use serde_json::{Value, json};
use spillcast_core::histogram::Histogram;
use spillcast_core::probe::grid::{Outcome as Cells, Sustained};
use spillcast_core::probe::{Filesystem, Group, Outcome as Replayed};

/// The parts of storage.json that a probe measures.
pub struct Measured {
    pub groups: Vec<Value>,
    pub changes: Vec<Value>,
    pub facts: Value,
}

impl Measured {
    /// All of them in one object.
    pub fn to_json(self) -> Value {
        json!({ "groups": self.groups, "changes": self.changes, "facts": self.facts })
    }
}

impl From<&Replayed> for Measured {
    fn from(replayed: &Replayed) -> Measured {
        let mut facts = json!({
            "elapsed_ns": replayed.elapsed_ns,
            "steps_replayed": replayed.steps_replayed,
            "steps_skipped": replayed.steps_skipped,
            "prefilled_bytes": replayed.prefilled_bytes,
            "think_scale": replayed.think_scale,
            "threads": replayed.threads,
            "in_flight": replayed.in_flight,
            "working_set_bytes": replayed.working_set_bytes,
            "byte_share": replayed.byte_share,
            "direct": replayed.direct,
            "floor_ns": replayed.floor_ns,
            "repeated": replayed.repeated,
            "run_queue_io_ns": replayed.disturbance.run_queue_io_ns,
            "run_queue_ns": replayed.disturbance.run_queue_ns,
            "run_queue_others_ns": replayed.disturbance.run_queue_others_ns,
            "others_cpu_share": replayed.disturbance.others_share(),
        });
        place(&mut facts, &replayed.filesystem);
        Measured {
            groups: replayed.groups.iter().map(group).collect(),
            changes: replayed.changes.iter().map(|(event, calls)| change(event, calls)).collect(),
            facts,
        }
    }
}

impl From<&Cells> for Measured {
    fn from(cells: &Cells) -> Measured {
        let engine = if cells.io_uring_refusal.is_none() { "io_uring" } else { "psync" };
        let mut facts = json!({
            "buffered_engine": "psync",
            "direct_engine": cells.direct_refusal.is_none().then_some(engine),
            "direct_refusal": cells.direct_refusal,
            "io_uring_refusal": cells.io_uring_refusal,
            "registered_buffers": cells.registered_buffers,
            "file_bytes": cells.file_bytes,
            "rounds": cells.rounds,
            "cells": cells.cells,
            "cells_without_time": cells.cells_without_time,
            "cells_without_room": cells.cells_without_room,
            "elapsed_ns": cells.elapsed_ns,
            "floor_ns": cells.floor_ns,
            "sustained": cells.sustained.as_ref().map(sustained),
        });
        place(&mut facts, &cells.filesystem);
        Measured { groups: cells.groups.iter().map(group).collect(), changes: Vec::new(), facts }
    }
}

fn group(group: &Group) -> Value {
    let (latency_ns, latency_count): (Vec<u64>, Vec<u64>) = group.histogram.buckets().unzip();
    let block_count: Vec<u64> = group.block_means_ns.iter().map(|block| block.0).collect();
    let means = group.block_means_ns.iter().map(|block| block.1.round() as i64);
    json!({
        "op": group.op.name(),
        "size_class_bytes": group.size_class_bytes,
        "depth": group.depth,
        "count": group.count,
        "bytes": group.bytes,
        "total_ns": group.histogram.total_ns(),
        "latency_ns": latency_ns,
        "latency_count": latency_count,
        "block_count": block_count,
        "block_mean_ns": means.collect::<Vec<_>>(),
        "pattern": group.pattern.name(),
        "access": group.access.name(),
        "elapsed_ns": group.elapsed_ns,
    })
}

fn change(event: &str, calls: &Histogram) -> Value {
    let (latency_ns, latency_count): (Vec<u64>, Vec<u64>) = calls.buckets().unzip();
    json!({
        "event": event,
        "count": calls.count(),
        "total_ns": calls.total_ns(),
        "latency_ns": latency_ns,
        "latency_count": latency_count,
    })
}

fn sustained(written: &Sustained) -> Value {
    json!({
        "bytes": written.bytes,
        "reached": written.sustained_bytes_per_s.is_some(),
        "burst_bytes": written.burst_bytes,
        "burst_bytes_per_s": written.burst_bytes_per_s,
        "sustained_bytes_per_s": written.sustained_bytes_per_s,
    })
}

fn place(facts: &mut Value, filesystem: &Filesystem) {
    facts["filesystem"] = json!(filesystem.name);
    facts["free_bytes"] = json!(filesystem.free_bytes);
    facts["network"] = json!(filesystem.network());
}
