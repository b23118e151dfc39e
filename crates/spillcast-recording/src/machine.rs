//! The observed machine, as in meta.json.

use jiff::Timestamp;
use rustix::system::uname;
use serde::Serialize;
use serde_json::Value;
use spillcast_core::cold_cache::Cache;
use spillcast_core::proc::status_bytes;

#[derive(Clone, Serialize)]
pub struct Machine {
    pub host: String,
    pub kernel: String,
    /// Number of online CPUs.
    pub cpus: Option<usize>,
    pub memory_bytes: Option<u64>,
    pub memory_available_bytes: Option<u64>,
    pub swap_bytes: Option<u64>,
    /// The private cache of a core, and all the cache that it usually gets.
    pub caches: Vec<Cache>,
    /// Result of `spillcast calibrate`, which only spillcast reads.
    pub calibration: Value,
}

impl Machine {
    /// Omits the caches, whose measurement takes 0.5 s.
    pub fn describe() -> Machine {
        let memory = |name| status_bytes("/proc/meminfo", name);
        let system = uname();
        // SAFETY: no pointer is passed.
        let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
        Machine {
            host: system.nodename().to_string_lossy().into_owned(),
            kernel: system.release().to_string_lossy().into_owned(),
            cpus: usize::try_from(cpus).ok().filter(|&count| count > 0),
            memory_bytes: memory("MemTotal"),
            memory_available_bytes: memory("MemAvailable"),
            swap_bytes: memory("SwapTotal"),
            caches: Vec::new(),
            calibration: Value::Null,
        }
    }
}

/// The version, with the commit if known.
pub fn version() -> String {
    match option_env!("SPILLCAST_COMMIT").filter(|commit| !commit.is_empty()) {
        Some(commit) => format!("{} ({commit})", env!("CARGO_PKG_VERSION")),
        None => env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// UTC in ISO 8601, such as `2026-11-21T02:38:45.333+00:00`.
pub fn iso(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S%.3f+00:00").to_string()
}
