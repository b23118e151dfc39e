//! The measurements of a probe, as in storage.json: groups, calls that change files, facts.

use spillcast_core::histogram::Histogram;
use spillcast_core::probe::grid::{Outcome as Cells, Sustained};
use spillcast_core::probe::{Filesystem, Group, Outcome as Replayed};

use crate::json::{Document, Value, json};

/// The parts of storage.json that a probe measures.
pub struct Measured {
    pub groups: Vec<Value>,
    pub changes: Vec<Value>,
    pub facts: Value,
}

impl Measured {
    /// All parts in one object.
    pub fn to_json(self) -> Value {
        json!({ "groups": self.groups, "changes": self.changes, "facts": self.facts })
    }
}

impl From<&Replayed> for Measured {
    fn from(replayed: &Replayed) -> Measured {
        let others_share = replayed.disturbance.others_share();
        let mut facts = json!(replayed).with("others_cpu_share", others_share);
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
        let mut facts = json!(cells)
            .with("buffered_engine", "psync")
            .with("direct_engine", cells.direct_refusal.is_none().then_some(engine))
            .with("sustained", cells.sustained.as_ref().map(sustained));
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
