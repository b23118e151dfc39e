//! meta.json of a recording, key by key as spillcast writes it.

use std::collections::BTreeMap;

use spillcast_core::capture::Status;
use spillcast_core::capture::cost::{Cost, Spread};
use spillcast_core::probe::is_network;
use spillcast_recording::limits::{CpuLimits, PeakMemory};
use spillcast_recording::proc::DoneBefore;
use spillcast_recording::{Kept, device_name, temp_places};

use crate::begin::PRELOAD;
use crate::json::{Document, Value, json};

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// `temp` and `other_io`: what was seen.
pub fn temp(status: &Status) -> Value {
    let seen = &status.counts;
    json!({
        "reads": seen.temp_reads,
        "writes": seen.temp_writes,
        "bytes": seen.temp_bytes,
        "total_s": seconds(seen.temp_ns),
    })
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
    json!({ "count": status.counts.other_io, "total_s": seconds(status.counts.other_io_ns) })
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
    json!({
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
    })
}

/// `raw`: the single waits that were kept.
pub fn raw(kept: &Kept) -> Value {
    let slice =
        |&(begin, end): &(i64, i64)| Value::from(vec![begin as f64 / 1e9, end as f64 / 1e9]);
    let slices = kept.slices_ns.as_ref().map(|all| all.iter().map(slice).collect::<Vec<_>>());
    let raw = json!({
        "rows": kept.waits,
        "rows_seen": kept.waits_seen,
        "slices_s": slices,
    });
    match &kept.because {
        Some(because) => raw.with("because", because.as_str()),
        None => raw,
    }
}

/// `sums`: by which is known whether the rows are all there.
pub fn sums(kept: &Kept) -> Value {
    let [rows, count, bytes, ns] = kept.seconds_sums;
    json!({
        "waits_bytes": kept.waits_sums.0,
        "waits_ns": kept.waits_sums.1,
        "seconds_rows": rows,
        "seconds_count": count,
        "seconds_bytes": bytes,
        "seconds_ns": ns,
    })
}

/// `temp_places`. Options of mounts may hold secrets and are left out.
pub fn places(folders: &BTreeMap<String, i64>) -> Value {
    let places = temp_places(folders).into_iter().map(|place| {
        json!({
            "directory": place.directory.to_string_lossy(),
            "device": place.mount.device,
            "filesystem": place.mount.filesystem,
            "network": is_network(&place.mount.filesystem),
            "bytes": place.bytes,
            "device_name": device_name(&place.mount.device),
            "mount_point": place.mount.point.to_string_lossy(),
            "mount_options": Value::Null,
        })
    });
    places.collect()
}

/// `memory`: the limit of the cgroup, and what was held.
pub fn memory(limit_bytes: Option<u64>, peak: &PeakMemory) -> Value {
    json!({
        "limit_bytes": limit_bytes,
        "peak_rss_bytes": peak.peak_bytes(),
        "group_held_bytes": peak.group_held_bytes,
    })
}

/// `cpu_limits`.
pub fn cpu_limits(limits: CpuLimits) -> Value {
    json!({
        "cpus": limits.cpus,
        "quota_cpus": limits.quota_cpus,
        "period_s": limits.period_s,
        "throttled_s": limits.throttled_s,
        "throttled_periods": limits.throttled_periods,
    })
}

/// `before`: what a process that ran already had done.
pub fn before(done: DoneBefore) -> Value {
    json!({
        "ran_s": done.ran_s,
        "cpu_s": done.cpu_s,
        "bytes": done.moved.map(|(read, written)| read + written),
        "read_bytes": done.moved.map(|moved| moved.0),
        "written_bytes": done.moved.map(|moved| moved.1),
    })
}

/// `temp_before` and `inputs`: files and their sizes.
pub fn files(files: Vec<(String, u64)>) -> Value {
    files.into_iter().map(|(file, bytes)| json!({ "file": file, "bytes": bytes })).collect()
}
