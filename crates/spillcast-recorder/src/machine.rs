//! The machine that recordings tell of, and what a process holds of it.

use std::fs;
use std::path::Path;

use rustix::system::uname;
use spillcast_core::cold_cache;

use crate::json::{Value, object};

/// The version, with the commit where that is known.
pub fn version() -> String {
    match option_env!("SPILLCAST_COMMIT").filter(|commit| !commit.is_empty()) {
        Some(commit) => format!("{} ({commit})", env!("CARGO_PKG_VERSION")),
        None => env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// `machine` of meta.json; takes 0.5 s for what waits cost.
pub fn document() -> Value {
    let memory = |name| status_bytes("/proc/meminfo", name);
    let caches: Vec<Value> = cold_cache::measure().iter().map(cache).collect();
    let system = uname();
    object! {
        "host": system.nodename().to_string_lossy().into_owned(),
        "kernel": system.release().to_string_lossy().into_owned(),
        "cpus": cpus(),
        "memory_bytes": memory("MemTotal"),
        "memory_available_bytes": memory("MemAvailable"),
        "swap_bytes": memory("SwapTotal"),
        "caches": caches,
        "calibration": Value::Null,
    }
}

fn cache(found: &cold_cache::Cache) -> Value {
    let cold = |cost: &cold_cache::Cost| Value::from(vec![cost.wait_ns, cost.extra_ns]);
    object! {
        "bytes": found.bytes,
        "warm_ns": found.warm_ns,
        "cold_ns": Value::List(found.after.iter().map(cold).collect()),
    }
}

/// CPUs that are online.
fn cpus() -> Option<usize> {
    // SAFETY: no pointer is passed.
    let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    usize::try_from(count).ok().filter(|&count| count > 0)
}

/// A process and all that it started and that are still there.
pub fn family(pid: i32) -> Vec<i32> {
    let mut found = vec![pid];
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    for task in tasks {
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        let children = children.split_whitespace().filter_map(|child| child.parse().ok());
        found.extend(children.flat_map(family));
    }
    found
}

/// The most that a process held resident; None where it has ended or is a kernel thread.
pub fn high_water_bytes(pid: i32) -> Option<u64> {
    status_bytes(&format!("/proc/{pid}/status"), "VmHWM")
}

/// A line of a file of /proc that tells kB.
pub fn status_bytes(path: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// What a small file holds, where that is a number.
pub fn number(path: impl AsRef<Path>) -> Option<i64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}
