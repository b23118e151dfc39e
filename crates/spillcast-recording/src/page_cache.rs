//! The page cache that a replay is held to: as much as the engine had, and no more.

use std::path::Path;

use spillcast_core::probe::Probe;
use spillcast_core::proc::status_bytes;

use crate::cgroups::CGROUPS;
use crate::limits::memory_groups;

/// File systems whose pages are the storage itself.
const IN_MEMORY: [&str; 3] = ["tmpfs", "ramfs", "hugetlbfs"];

/// What the replay's page cache must be held to; None where it need not be.
///
/// Held to it is what would have less in the engine's place, unless twice the working set fits. A share
/// of the working set gets that share of the cache, for it then fits as well or as badly.
pub fn bound_bytes(engine: Option<u64>, replay: &Probe) -> Option<u64> {
    if IN_MEMORY.contains(&replay.filesystem().name.as_str()) {
        return None;
    }
    let machine = machine_cache_bytes();
    let cache = engine.unwrap_or(machine).min(machine);
    let bound = (cache as f64 * replay.byte_share) as u64;
    (bound < machine && cache / 2 < replay.working_set_bytes).then_some(bound)
}

/// The page cache that a process could use here and now.
fn machine_cache_bytes() -> u64 {
    let pid = std::process::id() as i32;
    let groups = memory_groups(pid, Path::new(CGROUPS)).into_iter();
    let rooms = groups.map(|(limit, held)| limit.saturating_sub(held));
    let available = status_bytes("/proc/meminfo", "MemAvailable").unwrap_or(u64::MAX);
    rooms.fold(available, u64::min)
}
