//! meta.json of a recording: what a recorder knows of the run, its machine and its capture.
//!
//! docs/schema.md describes each key. spillcast adds what only it knows, such as a server's query.

use std::path::PathBuf;

use serde::{Deserialize, Serialize, Serializer};
use spillcast_core::capture::Status;
use spillcast_core::capture::cost::{Cost, Spread};

use crate::earlier_work::EarlierWork;
use crate::file_sizes::SizedFile;
use crate::files::TempKind;
use crate::limits::CpuLimits;
use crate::machine::Machine;
use crate::sources::PRELOAD;
use crate::temp_places::TempPlace;

pub const SCHEMA: &str = "spillcast.recording/1";

#[derive(Serialize)]
pub struct Meta {
    pub schema: &'static str,
    pub spillcast: &'static str,
    pub started_at: String,
    pub elapsed_s: f64,
    pub recorded_s: f64,
    pub clock: &'static str,
    pub ended_by: EndedBy,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<EarlierWork>,
    pub temp_before: Vec<SizedFile>,
    pub inputs: Vec<SizedFile>,
    pub engine: Engine,
    /// None without a capture: the processes may run on another machine.
    #[serde(serialize_with = "object")]
    pub machine: Option<Machine>,
    pub memory: Memory,
    pub cpu_limits: CpuLimits,
    pub cpu_s: Option<f64>,
    pub temp: Option<Temp>,
    pub spilled: Option<bool>,
    pub temp_places: Vec<TempPlace>,
    pub temp_kinds: Vec<TempKind>,
    pub other_io: Option<OtherIo>,
    pub server_connection: Option<bool>,
    pub capture: CaptureAccount,
    pub asked: Options,
    pub raw: KeptWaits,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EndedBy {
    End,
    Duration,
    Interrupt,
}

#[derive(Serialize)]
pub struct Engine {
    pub name: &'static str,
    pub pid: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    pub exit_status: Option<i32>,
}

#[derive(Default, Serialize)]
pub struct Memory {
    pub limit_bytes: Option<u64>,
    pub peak_rss_bytes: Option<u64>,
    pub group_held_bytes: Option<u64>,
    pub stalled_s: Option<f64>,
}

#[derive(Serialize)]
pub struct Temp {
    pub reads: u64,
    pub writes: u64,
    pub bytes: u64,
    pub total_s: f64,
}

#[derive(Serialize)]
pub struct OtherIo {
    pub count: u64,
    pub total_s: f64,
}

#[derive(Clone, Debug, Serialize)]
pub struct Options {
    #[serde(serialize_with = "texts")]
    pub temp_dirs: Vec<PathBuf>,
    /// A capture source, or `auto`.
    pub capture: String,
    pub duration_s: Option<f64>,
    pub slices: Option<usize>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub share: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
}

/// The individual waits that were kept.
#[derive(Default, Deserialize, Serialize)]
pub struct KeptWaits {
    pub rows: u64,
    pub rows_seen: u64,
    /// Start and end of each slice; None for all waits.
    pub slices_s: Option<Vec<(f64, f64)>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
}

/// Sums of the written rows, from which a reader detects missing rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct RowSums {
    pub waits_bytes: i64,
    pub waits_ns: i64,
    pub seconds_rows: i64,
    pub seconds_count: i64,
    pub seconds_bytes: i64,
    pub seconds_ns: i64,
}

/// How a recording was captured, what it lost and what it cost.
#[derive(Serialize)]
#[serde(untagged)]
pub enum CaptureAccount {
    Absent { method: &'static str, absent_because: String },
    Seen(Box<SeenAccount>),
}

#[derive(Serialize)]
pub struct SeenAccount {
    method: String,
    absent_because: Option<String>,
    lost: u64,
    dropped: u64,
    unknown_file: u64,
    temp_copies: u64,
    temp_copied_bytes: u64,
    calls: u64,
    switches: Option<u64>,
    tracer_cpu_s: f64,
    recorder_memory_bytes: Option<u64>,
    overhead_s: Option<f64>,
    overhead_low_s: Option<f64>,
    overhead_high_s: Option<f64>,
    call_cost_s: Option<f64>,
    switch_cost_s: Option<f64>,
    run_queue_delay_s: f64,
    run_queue_others_s: f64,
    io_uring: bool,
    io_uring_depth: u64,
    io_uring_busy_s: f64,
    spun_s: Option<f64>,
    file_faults: Option<u64>,
    file_fault_s: Option<f64>,
    mapped_temp_files: Vec<String>,
    threads_sampled: Option<(u64, u64)>,
    unobserved_processes: usize,
}

/// Resources used by the recorder itself, and its cost to the observed processes.
#[derive(Clone, Copy, Default)]
pub struct ToolCost {
    pub cpu_s: f64,
    pub memory_bytes: Option<u64>,
    pub capture: Option<Cost>,
    /// Number of processes that the preload library does not observe.
    pub unobserved_processes: usize,
}

impl SeenAccount {
    /// With `only_calls` the engine never uses io_uring for temp files, so io_uring is ignored.
    pub fn of(method: &str, status: &Status, tool: ToolCost, only_calls: bool) -> SeenAccount {
        let (counts, observed) = (&status.counts, status.observed);
        let overhead_s = |of: fn(&Spread) -> f64| {
            tool.capture.map(|cost| {
                let by_switches_s = cost.switch.map_or(0.0, |switch| of(&switch));
                let switches = observed.switches.unwrap_or(0) as f64;
                observed.calls as f64 * of(&cost.call) + switches * by_switches_s
            })
        };
        SeenAccount {
            method: method.to_owned(),
            absent_because: None,
            lost: observed.lost,
            dropped: status.dropped,
            unknown_file: counts.unknown_file,
            temp_copies: counts.temp_copies,
            temp_copied_bytes: counts.temp_copied_bytes,
            calls: observed.calls,
            switches: observed.switches,
            tracer_cpu_s: tool.cpu_s,
            recorder_memory_bytes: tool.memory_bytes,
            overhead_s: overhead_s(|spread| spread.median_s),
            overhead_low_s: overhead_s(|spread| spread.low_s),
            overhead_high_s: overhead_s(|spread| spread.high_s),
            call_cost_s: tool.capture.map(|cost| cost.call.median_s),
            switch_cost_s: tool.capture.and_then(|cost| cost.switch).map(|spread| spread.median_s),
            run_queue_delay_s: seconds(status.run_queue_delay_ns),
            run_queue_others_s: seconds(status.run_queue_others_ns),
            io_uring: status.io_uring && !only_calls,
            io_uring_depth: counts.io_uring_depth,
            io_uring_busy_s: seconds(counts.io_uring_busy_ns),
            spun_s: status.spun_ns.map(seconds),
            file_faults: observed.file_faults,
            file_fault_s: observed.file_fault_ns.map(seconds),
            mapped_temp_files: status.mapped.clone(),
            threads_sampled: observed.sampled,
            unobserved_processes: tool.unobserved_processes,
        }
    }
}

impl Temp {
    pub fn of(status: &Status) -> Temp {
        let counts = &status.counts;
        Temp {
            reads: counts.temp_reads,
            writes: counts.temp_writes,
            bytes: counts.temp_bytes,
            total_s: seconds(counts.temp_ns),
        }
    }
}

impl OtherIo {
    pub fn of(status: &Status) -> OtherIo {
        OtherIo { count: status.counts.other_io, total_s: seconds(status.counts.other_io_ns) }
    }
}

/// Whether there was temp I/O; None if the source may have missed some.
pub fn spilled(method: &str, status: &Status) -> Option<bool> {
    let counts = &status.counts;
    if counts.temp_reads + counts.temp_writes > 0 {
        return Some(true);
    }
    let may_have_missed = method == PRELOAD
        || status.io_uring
        || !status.mapped.is_empty()
        || status.observed.lost + counts.unknown_file + counts.temp_copies > 0
        || status.observed.sampled.is_some();
    (!may_have_missed).then_some(false)
}

pub fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn object<S: Serializer>(machine: &Option<Machine>, to: S) -> Result<S::Ok, S::Error> {
    match machine {
        Some(machine) => machine.serialize(to),
        None => to.collect_map(std::iter::empty::<((), ())>()),
    }
}

/// Paths as text; invalid UTF-8, which JSON cannot hold, is replaced.
fn texts<S: Serializer>(paths: &[PathBuf], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(paths.iter().map(|path| path.to_string_lossy()))
}
