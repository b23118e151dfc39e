//! meta.json of a recording, key by key as spillcast writes it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use spillcast_core::capture::Status;
use spillcast_core::capture::cost::{Cost, Spread};
use spillcast_core::probe::{is_network, mounted};
use spillcast_recording::Kept;

use crate::begin::PRELOAD;
use crate::json::{Value, object};

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// `temp` and `other_io`: what was seen.
pub fn temp(status: &Status) -> Value {
    let seen = &status.counts;
    object! {
        "reads": seen.temp_reads,
        "writes": seen.temp_writes,
        "bytes": seen.temp_bytes,
        "total_s": seconds(seen.temp_ns),
    }
}

/// `spilled`: whether there was temp I/O; null where some may have been missed.
pub fn spilled(method: &str, status: &Status) -> Value {
    let seen = &status.counts;
    if seen.temp_reads + seen.temp_writes > 0 {
        return true.into();
    }
    let missed = method == PRELOAD
        || status.io_uring
        || !status.mapped.is_empty()
        || status.lost + seen.unknown_file + seen.temp_copies > 0
        || status.sampled.is_some();
    if missed { Value::Null } else { false.into() }
}

pub fn other_io(status: &Status) -> Value {
    object! { "count": status.counts.other_io, "total_s": seconds(status.counts.other_io_ns) }
}

/// What the recorder took itself: CPU time, and the most memory.
pub struct Own {
    pub cpu_s: f64,
    pub memory_bytes: Option<u64>,
}

/// `capture`: how it was done, what it lost, what it cost.
pub fn capture(method: &str, status: &Status, own: &Own, cost: Option<Cost>) -> Value {
    let (calls, switches) = (status.observed.calls, status.observed.switches);
    let overhead = |of: fn(&Spread) -> f64| {
        cost.map(|cost| {
            let by_switches = cost.switch.map_or(0.0, |switch| of(&switch));
            calls as f64 * of(&cost.call) + switches.unwrap_or(0) as f64 * by_switches
        })
    };
    object! {
        "method": method,
        "absent_because": Value::Null,
        "lost": status.lost,
        "dropped": status.dropped,
        "unknown_file": status.counts.unknown_file,
        "temp_copies": status.counts.temp_copies,
        "temp_copied_bytes": status.counts.temp_copied_bytes,
        "calls": calls,
        "switches": switches,
        "tracer_cpu_s": own.cpu_s,
        "recorder_memory_bytes": own.memory_bytes,
        "overhead_s": overhead(|spread| spread.median_s),
        "overhead_low_s": overhead(|spread| spread.low_s),
        "overhead_high_s": overhead(|spread| spread.high_s),
        "call_cost_s": cost.map(|cost| cost.call.median_s),
        "switch_cost_s": cost.and_then(|cost| cost.switch).map(|switch| switch.median_s),
        "run_queue_delay_s": seconds(status.run_queue_delay_ns),
        "run_queue_others_s": seconds(status.run_queue_others_ns),
        "io_uring": status.io_uring,
        "io_uring_depth": status.counts.io_uring_depth,
        "io_uring_busy_s": seconds(status.counts.io_uring_busy_ns),
        "file_faults": status.file_faults,
        "file_fault_s": status.file_fault_ns.map(seconds),
        "mapped_temp_files": status.mapped.clone(),
        "threads_sampled": status.sampled.map(|(seen, of)| vec![seen, of]),
    }
}

/// `raw`: the single waits that were kept.
pub fn raw(kept: &Kept) -> Value {
    let slice =
        |&(begin, end): &(i64, i64)| Value::from(vec![begin as f64 / 1e9, end as f64 / 1e9]);
    let slices = kept.slices_ns.as_ref().map(|all| all.iter().map(slice).collect::<Vec<_>>());
    let raw = object! {
        "rows": kept.waits,
        "rows_seen": kept.waits_seen,
        "slices_s": slices,
    };
    match &kept.because {
        Some(because) => raw.with("because", because.as_str()),
        None => raw,
    }
}

/// `sums`: by which is known whether the rows are all there.
pub fn sums(kept: &Kept) -> Value {
    let [rows, count, bytes, ns] = kept.seconds_sums;
    object! {
        "waits_bytes": kept.waits_sums.0,
        "waits_ns": kept.waits_sums.1,
        "seconds_rows": rows,
        "seconds_count": count,
        "seconds_bytes": bytes,
        "seconds_ns": ns,
    }
}

/// `temp_places`: by mount, of the bytes moved in each folder; the most bytes first.
///
/// Options of mounts may hold secrets and are left out.
pub fn temp_places(folders: &BTreeMap<String, i64>) -> Value {
    let mut places: Vec<(_, PathBuf, i64)> = Vec::new();
    for (folder, bytes) in folders {
        let Ok(Some(mount)) = mounted(Path::new(folder)) else { continue };
        match places.iter_mut().find(|(known, ..)| *known == mount) {
            Some((_, directory, sum)) => {
                *directory = common(directory, Path::new(folder));
                *sum += bytes;
            }
            None => places.push((mount, folder.into(), *bytes)),
        }
    }
    places.sort_by_key(|&(_, _, bytes)| -bytes);
    let documents = places.iter().map(|(mount, directory, bytes)| {
        object! {
            "directory": directory.to_string_lossy().into_owned(),
            "device": mount.device.as_str(),
            "filesystem": mount.filesystem.as_str(),
            "network": is_network(&mount.filesystem),
            "bytes": *bytes,
            "device_name": device_name(&mount.device),
            "mount_point": mount.point.to_string_lossy().into_owned(),
            "mount_options": Value::Null,
        }
    });
    Value::List(documents.collect())
}

/// The folder that holds both.
fn common(one: &Path, other: &Path) -> PathBuf {
    let both = one.components().zip(other.components()).take_while(|(a, b)| a == b);
    both.map(|(part, _)| part).collect()
}

/// Such as `nvme0n1p2 (Samsung SSD 990 PRO)` for `259:2`.
pub fn device_name(device: &str) -> Option<String> {
    let folder = fs::canonicalize(Path::new("/sys/dev/block").join(device)).ok()?;
    let parent = folder.parent()?;
    // A partition lies in its disk's folder; device-mapper has a name of its own.
    let about = [folder.join("dm/name"), folder.join("device/model"), parent.join("device/model")];
    let mut said = about.iter().filter_map(|path| fs::read_to_string(path).ok());
    let name = folder.file_name()?.to_string_lossy().into_owned();
    Some(match said.find(|text| !text.trim().is_empty()) {
        Some(model) => format!("{name} ({})", model.trim()),
        None => name,
    })
}
