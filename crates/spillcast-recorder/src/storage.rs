//! storage.json, key by key as spillcast writes it.

use std::path::Path;

use jiff::Timestamp;
use rustix::system::uname;
use spillcast_core::histogram::Histogram;
use spillcast_core::probe::{Group, mounted};
use spillcast_recording::device_name;

use spillcast_recording::json::{Value, json};
use spillcast_recording::machine;

/// What was measured of a directory.
pub struct Measured<'a> {
    pub directory: &'a Path,
    pub source: &'static str,
    pub groups: &'a [Group],
    pub changes: Vec<(&'static str, &'a Histogram)>,
    pub facts: Value,
}

impl Measured<'_> {
    pub fn document(self) -> Value {
        let changes = self.changes.into_iter().map(|(event, found)| change(event, found));
        json!({
            "schema": "spillcast.storage/1",
            "name": name_of(self.directory),
            "source": self.source,
            "groups": Value::Array(self.groups.iter().map(group).collect()),
            "changes": Value::Array(changes.collect()),
            "limits": Value::Array(Vec::new()),
            "servers": Value::Null,
            "provenance": provenance(self.directory),
            "facts": self.facts,
        })
    }
}

/// As it was given, unless that is `.` or `..`.
fn name_of(directory: &Path) -> String {
    let given = || directory.to_string_lossy().into_owned();
    match directory.file_name() {
        Some(_) => given(),
        None => directory
            .canonicalize()
            .map_or_else(|_| given(), |path| path.to_string_lossy().into_owned()),
    }
}

fn group(group: &Group) -> Value {
    let (middles, counts): (Vec<u64>, Vec<u64>) = group.histogram.buckets().unzip();
    let block_counts: Vec<u64> = group.block_means_ns.iter().map(|block| block.0).collect();
    let means: Vec<i64> = group.block_means_ns.iter().map(|block| block.1.round() as i64).collect();
    json!({
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
    })
}

fn change(event: &str, found: &Histogram) -> Value {
    let (middles, counts): (Vec<u64>, Vec<u64>) = found.buckets().unzip();
    json!({
        "event": event,
        "count": found.count(),
        "total_ns": found.total_ns(),
        "latency_ns": middles,
        "latency_count": counts,
    })
}

/// When, where and with what it is measured. Options of mounts may hold secrets and are left out.
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
