//! The measurements of a probe, as in storage.json: groups, calls that change files, facts.

use serde::Serialize;
use spillcast_core::probe::grid::{Outcome as Cells, Sustained};
use spillcast_core::probe::{Filesystem, Group, Outcome as Replayed};

use crate::json::{Document, Value, json};

/// The parts of storage.json that a probe measures.
#[derive(Serialize)]
pub struct Measured {
    pub groups: Vec<Value>,
    pub changes: Vec<Value>,
    pub facts: Value,
}

impl From<&Replayed> for Measured {
    fn from(replayed: &Replayed) -> Measured {
        let others_share = replayed.disturbance.others_share();
        let mut facts = json!(replayed).with("others_cpu_share", others_share);
        place(&mut facts, &replayed.filesystem);
        Measured {
            groups: replayed.groups.iter().map(group).collect(),
            changes: replayed
                .changes
                .iter()
                .map(|(event, calls)| json!(calls).with("event", event))
                .collect(),
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
    let (counts, means): (Vec<u64>, Vec<f64>) = group.block_means_ns.iter().copied().unzip();
    let rounded: Vec<i64> = means.into_iter().map(|mean| mean.round() as i64).collect();
    json!(group).with("block_count", counts).with("block_mean_ns", rounded)
}

fn sustained(written: &Sustained) -> Value {
    json!(written).with("reached", written.sustained_bytes_per_s.is_some())
}

fn place(facts: &mut Value, filesystem: &Filesystem) {
    facts["filesystem"] = json!(filesystem.name);
    facts["free_bytes"] = json!(filesystem.free_bytes);
    facts["network"] = json!(filesystem.network());
}
