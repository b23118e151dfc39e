//! The machine that recordings tell of.

use std::fs;
use std::path::Path;

use jiff::Timestamp;
use rustix::system::uname;
use spillcast_core::cold_cache;
use spillcast_recording::proc::status_bytes;

use crate::json::{Value, json};

/// The version, with the commit where that is known.
pub fn version() -> String {
    match option_env!("SPILLCAST_COMMIT").filter(|commit| !commit.is_empty()) {
        Some(commit) => format!("{} ({commit})", env!("CARGO_PKG_VERSION")),
        None => env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// Such as `2026-11-21T02:38:45.333+00:00`.
pub fn iso(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S%.3f+00:00").to_string()
}

/// `machine` of meta.json; takes 0.5 s for what waits cost.
pub fn document() -> Value {
    let memory = |name| status_bytes("/proc/meminfo", name);
    let caches: Vec<Value> = cold_cache::measure().iter().map(cache).collect();
    let system = uname();
    json!({
        "host": system.nodename().to_string_lossy().into_owned(),
        "kernel": system.release().to_string_lossy().into_owned(),
        "cpus": cpus(),
        "memory_bytes": memory("MemTotal"),
        "memory_available_bytes": memory("MemAvailable"),
        "swap_bytes": memory("SwapTotal"),
        "caches": caches,
        "calibration": Value::Null,
    })
}

fn cache(found: &cold_cache::Cache) -> Value {
    let cold = |cost: &cold_cache::Cost| Value::from(vec![cost.wait_ns, cost.extra_ns]);
    json!({
        "bytes": found.bytes,
        "warm_ns": found.warm_ns,
        "cold_ns": Value::Array(found.after.iter().map(cold).collect()),
    })
}

/// CPUs that are online.
fn cpus() -> Option<usize> {
    // SAFETY: no pointer is passed.
    let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    usize::try_from(count).ok().filter(|&count| count > 0)
}

/// What a small file holds, where that is a number.
pub fn number(path: impl AsRef<Path>) -> Option<i64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}
