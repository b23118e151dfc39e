//! Limits of an observed process, polled: memory and CPU time; whether it is the client of a
//! server, and whether it cannot be observed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, geteuid, test_kill_process};
use rustix::thread::{CpuSet, sched_getaffinity};
use serde::Serialize;
use spillcast_core::capture::preload::is_connected;
use spillcast_core::probe::Probe;
use spillcast_core::proc::{
    descriptors, family, high_water_bytes, is_32_bit, moved, number, owner, read_text, status_bytes,
};
use spillcast_core::system::thread_cpu_ns;

use crate::cgroups::{CGROUPS, folders, text};

/// Polling many processes takes at most 1 % of a core.
const PAUSE_RATIO: u32 = 100;

/// An unobserved process that wrote less does not matter.
const WROTE_MIN_BYTES: u64 = 1 << 20;

/// Spaces polls so that they cost little.
struct Pace(Instant);

impl Pace {
    fn look(&mut self, look: impl FnOnce()) {
        if Instant::now() < self.0 {
            return;
        }
        let before_ns = thread_cpu_ns();
        look();
        self.0 = Instant::now() + PAUSE_RATIO * Duration::from_nanos(thread_cpu_ns() - before_ns);
    }
}

/// The peak resident memory of processes and their descendants.
pub struct PeakMemory {
    pid: i32,
    pids: BTreeSet<i32>,
    peaks_bytes: BTreeMap<i32, u64>,
    /// Limits of the memory cgroups, which a wrapper may join after its start, and the most that
    /// each held without the pages of files.
    groups: Vec<(u64, u64)>,
    /// Processes that the capture cannot observe.
    pub out_of_reach: BTreeSet<i32>,
    preload: bool,
    pace: Pace,
}

impl PeakMemory {
    /// `preload`: whether the preload library observes.
    pub fn new(pid: i32, preload: bool) -> PeakMemory {
        let (pids, peaks_bytes) = (BTreeSet::from([pid]), BTreeMap::new());
        PeakMemory {
            pid,
            pids,
            peaks_bytes,
            groups: Vec::new(),
            out_of_reach: BTreeSet::new(),
            preload,
            pace: Pace(Instant::now()),
        }
    }

    /// Polls more processes from now on.
    pub fn add(&mut self, pids: impl IntoIterator<Item = i32>) {
        self.pids.extend(pids);
    }

    /// Reads the kernel's high-water mark of each process that still runs, if a poll is due.
    pub fn look(&mut self) {
        let PeakMemory { pid, pids, peaks_bytes, groups, out_of_reach, preload, pace } = self;
        pace.look(|| {
            for member in pids.iter().flat_map(|&root| family(root)) {
                peaks_bytes.extend(high_water_bytes(member).map(|bytes| (member, bytes)));
                if is_out_of_reach(member, *preload) {
                    out_of_reach.insert(member);
                }
            }
            *groups = max_held(groups, memory_groups(*pid, Path::new(CGROUPS)));
        });
    }

    /// Limit of the cgroup with the least room, and the most that it held without pages of files.
    pub fn group(&self) -> Option<(u64, u64)> {
        tightest(&self.groups)
    }

    /// Sum of the peaks, which is an upper bound; None if nothing could be read.
    pub fn peak_bytes(&self) -> Option<u64> {
        Some(self.peaks_bytes.values().sum()).filter(|&bytes| bytes > 0)
    }
}

/// Whether a process writes unobserved: a 32-bit process, or one of another user, whose perf events
/// end with its exec and whose files /proc does not show; with the preload library, one that has
/// not loaded it, such as a static one, or cannot open its ring under our /proc, such as one of
/// another user. A change of user after connecting has no effect until the next exec.
fn is_out_of_reach(pid: i32, preload: bool) -> bool {
    let wrote = || moved(pid).is_some_and(|moved| moved.written_bytes >= WROTE_MIN_BYTES);
    // A /proc mounted with hidepid does not show processes of other users.
    let exists =
        || Pid::from_raw(pid).is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH));
    let is_other = || owner(pid).map_or_else(exists, |owner| owner != geteuid().as_raw());
    match preload {
        true => (is_other() || wrote()) && is_connected(pid) == Some(false),
        false => (is_32_bit(pid) && wrote()) || (moved(pid).is_none() && is_other()),
    }
}

/// Detects whether a process or a descendant has had a connection to a server.
pub struct SocketWatch {
    pid: i32,
    pub connected: bool,
    pace: Pace,
}

impl SocketWatch {
    pub fn new(pid: i32) -> SocketWatch {
        SocketWatch { pid, connected: false, pace: Pace(Instant::now()) }
    }

    /// Polls again if due, until a connection was seen.
    pub fn look(&mut self) {
        if !self.connected {
            self.pace.look(|| self.connected = has_server_connection(self.pid));
        }
    }
}

/// Whether a process or a descendant holds a connected socket of its own, as a client.
fn has_server_connection(pid: i32) -> bool {
    let mut sockets_of_run: BTreeSet<u64> = family(pid).into_iter().flat_map(sockets).collect();
    // Sockets inherited from the recorder, such as the terminal of ssh, do not count.
    let inherited = sockets(std::process::id() as i32);
    sockets_of_run.retain(|socket| !inherited.contains(socket));
    !sockets_of_run.is_empty() && !sockets_of_run.is_disjoint(&connected(pid))
}

/// The inodes of the open sockets of a process.
fn sockets(pid: i32) -> BTreeSet<u64> {
    let inode = |shown: &str| shown.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok();
    descriptors(pid).filter_map(|(_, shown)| inode(shown.to_str()?)).collect()
}

/// The inodes of connected sockets in the process's network, except those accepted by a server.
fn connected(pid: i32) -> BTreeSet<u64> {
    let table = |name: &str| {
        let text = read_text(format!("/proc/{pid}/net/{name}")).unwrap_or_default();
        let rows = text.lines().skip(1).map(|line| line.split_whitespace().map(str::to_owned));
        rows.map(Iterator::collect).collect::<Vec<Vec<String>>>()
    };
    let mut numbers = BTreeSet::new();
    for rows in [table("tcp"), table("tcp6")] {
        let port = |row: &[String]| row.get(1)?.rsplit_once(':').map(|(_, port)| port.to_owned());
        let state = |row: &[String]| row.get(3).cloned().unwrap_or_default();
        let listening: BTreeSet<_> =
            rows.iter().filter(|row| state(row) == "0A").filter_map(|row| port(row)).collect();
        let clients = rows.iter().filter(|row| state(row) == "01");
        let clients =
            clients.filter(|row| port(row).is_none_or(|number| !listening.contains(&number)));
        numbers.extend(clients.filter_map(|row| row.get(9)?.parse::<u64>().ok()));
    }
    // A socket accepted by a server has the server's path.
    let clients = table("unix").into_iter().filter(|row| row.len() == 7 && row[5] == "03");
    numbers.extend(clients.filter_map(|row| row[6].parse::<u64>().ok()));
    numbers
}

/// Limits of a process's CPU time; None if unknown or unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CpuLimits {
    pub cpus: Option<usize>,
    pub quota_cpus: Option<f64>,
    pub period_s: Option<f64>,
    pub throttled_s: Option<f64>,
    pub throttled_periods: Option<u64>,
}

/// The CPU limits of a process while it runs.
///
/// The process may be moved to another group, or bound to CPUs, after its start.
pub struct CpuWatch {
    pid: i32,
    cgroups: PathBuf,
    /// By group, throttling at the first poll: seconds, periods.
    before: BTreeMap<PathBuf, (f64, u64)>,
    quota: Option<Quota>,
    /// As of the last poll.
    pub limits: CpuLimits,
}

struct Quota {
    folder: PathBuf,
    cpus: f64,
    period_s: f64,
}

impl CpuWatch {
    pub fn new(pid: i32, cgroups: &Path) -> CpuWatch {
        let cgroups = cgroups.to_owned();
        let (before, limits) = (BTreeMap::new(), CpuLimits::default());
        let mut watch = CpuWatch { pid, cgroups, before, quota: None, limits };
        watch.look();
        watch
    }

    /// Reads the current limits; the last ones stay if the process has ended.
    pub fn look(&mut self) {
        if let Ok(set) = sched_getaffinity(Pid::from_raw(self.pid)) {
            let count = (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).count();
            self.limits.cpus = Some(count).filter(|&count| count > 0);
        }
        // Version 1 shows a process that is ending in the root.
        self.quota = tightest_quota(self.pid, &self.cgroups).or(self.quota.take());
        let Some(Quota { folder, cpus, period_s }) = &self.quota else { return };
        self.limits.quota_cpus = Some(*cpus);
        self.limits.period_s = Some(*period_s);
        let Some((now_s, periods)) = throttled(folder) else {
            self.limits.throttled_s.get_or_insert(0.0);
            self.limits.throttled_periods.get_or_insert(0);
            return;
        };
        let (before_s, before) = self.before.entry(folder.clone()).or_insert((now_s, periods));
        self.limits.throttled_s = Some((now_s - *before_s).max(0.0));
        self.limits.throttled_periods = Some(periods.saturating_sub(*before));
    }
}

/// Time for which a thread of a process's memory group, or else of the host, stalled on memory.
pub struct MemoryStalls {
    file: PathBuf,
    before_us: Option<u64>,
    /// As of the last poll; None if the kernel has no pressure stall information.
    pub stalled_s: Option<f64>,
}

impl MemoryStalls {
    /// Counts from now on. Groups of version 1 have no such file.
    pub fn new(pid: i32, cgroups: &Path) -> MemoryStalls {
        let groups = folders(pid, "memory", cgroups).into_iter();
        let file = groups.map(|folder| folder.join("memory.pressure")).find(|file| file.exists());
        let file = file.unwrap_or_else(|| PathBuf::from("/proc/pressure/memory"));
        let before_us = stalled_us(&file);
        MemoryStalls { file, before_us, stalled_s: before_us.map(|_| 0.0) }
    }

    /// The last value stays if the group is gone.
    pub fn look(&mut self) {
        if let (Some(now), Some(before)) = (stalled_us(&self.file), self.before_us) {
            self.stalled_s = Some(now.saturating_sub(before) as f64 / 1e6);
        }
    }
}

fn stalled_us(file: &Path) -> Option<u64> {
    text(file).lines().find(|line| line.starts_with("some "))?.split_once("total=")?.1.parse().ok()
}

/// Limit and held bytes of the group with the least room, which may be an outer group with a higher
/// limit.
pub fn tightest(groups: &[(u64, u64)]) -> Option<(u64, u64)> {
    groups.iter().copied().min_by_key(|&(limit, held)| limit.saturating_sub(held))
}

/// Limits and maxima of held bytes after another poll; a different limit means a different group.
fn max_held(before: &[(u64, u64)], now: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    if now.is_empty() {
        return before.to_vec();
    }
    let most = |(limit, held)| {
        let same = before.iter().filter(|group| group.0 == limit);
        (limit, same.map(|group| group.1).fold(held, u64::max))
    };
    now.into_iter().map(most).collect()
}

/// For each memory group of a process that has a limit, innermost first: the limit, and the bytes
/// held that the kernel cannot drop.
pub fn memory_groups(pid: i32, cgroups: &Path) -> Vec<(u64, u64)> {
    let limited = folders(pid, "memory", cgroups).into_iter().filter_map(|folder| {
        let limit = either(&folder, "memory.max", "memory.limit_in_bytes").parse::<u64>().ok()?;
        // Without a limit: `max` in version 2, a number near 2**63 in version 1.
        (limit < 1 << 60).then(|| (limit, held_bytes(&folder)))
    });
    limited.collect()
}

/// Memory in use without the pages of files; pages of tmpfs count, because they must stay.
fn held_bytes(folder: &Path) -> u64 {
    let used = either(folder, "memory.current", "memory.usage_in_bytes").parse().unwrap_or(0u64);
    let stat = text(folder.join("memory.stat"));
    let of = |name: &str| number(&stat, name);
    let files = ["active_file ", "inactive_file "]
        .map(|name| of(&format!("total_{name}")).or_else(|| of(name)).unwrap_or(0));
    used.saturating_sub(files.iter().sum())
}

/// The group of a process with the lowest CPU limit; None if all are unlimited.
fn tightest_quota(pid: i32, cgroups: &Path) -> Option<Quota> {
    let limited = folders(pid, "cpu", cgroups).into_iter().filter_map(|folder| {
        let max = text(folder.join("cpu.max"));
        let (quota, period) = match max.split_once(' ') {
            Some((quota, period)) => (quota.to_owned(), period.to_owned()),
            None => (text(folder.join("cpu.cfs_quota_us")), text(folder.join("cpu.cfs_period_us"))),
        };
        // Without a limit: `max` in version 2, -1 in version 1.
        let (quota, period): (u64, u64) = (quota.parse().ok()?, period.parse().ok()?);
        let (cpus, period_s) = (quota as f64 / period as f64, period as f64 / 1e6);
        (quota > 0 && period > 0).then_some(Quota { folder, cpus, period_s })
    });
    limited.min_by(|left, right| left.cpus.total_cmp(&right.cpus))
}

/// Time for which a group was throttled since its creation, and in how many periods.
fn throttled(folder: &Path) -> Option<(f64, u64)> {
    let stat = text(folder.join("cpu.stat"));
    let seconds = match number(&stat, "throttled_usec ") {
        Some(us) => us as f64 / 1e6,
        None => number(&stat, "throttled_time ").unwrap_or(0) as f64 / 1e9,
    };
    Some((seconds, number(&stat, "nr_throttled ")?))
}

fn either(folder: &Path, name: &str, other: &str) -> String {
    let content = text(folder.join(name));
    if content.is_empty() { text(folder.join(other)) } else { content }
}

/// File systems whose pages are the storage itself.
pub const IN_MEMORY: [&str; 3] = ["tmpfs", "ramfs", "hugetlbfs"];

/// The limit of a replay's page cache, which gives it as much as the engine had; None if it needs
/// no limit.
///
/// It needs a limit if this process could use more, unless the engine's cache holds twice the
/// working set. A share of the working set gets that share of the cache, so it fits equally well.
pub fn bound_bytes(engine: Option<u64>, replay: &Probe) -> Option<u64> {
    if IN_MEMORY.contains(&replay.filesystem().name.as_str()) {
        return None;
    }
    let machine = machine_cache_bytes();
    let cache = engine.unwrap_or(machine).min(machine);
    let bound = (cache as f64 * replay.byte_share) as u64;
    (bound < machine && cache / 2 < replay.working_set_bytes).then_some(bound)
}

/// The page cache that this process could use now.
fn machine_cache_bytes() -> u64 {
    let pid = std::process::id() as i32;
    let groups = memory_groups(pid, Path::new(CGROUPS)).into_iter();
    let rooms = groups.map(|(limit, held)| limit.saturating_sub(held));
    let available = status_bytes("/proc/meminfo", "MemAvailable").unwrap_or(u64::MAX);
    rooms.fold(available, u64::min)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process;

    use super::*;

    #[test]
    fn the_peak_of_a_group_is_not_that_of_a_later_one() {
        let looks = [vec![(8 << 30, 5 << 30)], vec![(2 << 30, 1)], vec![(2 << 30, 7)], vec![]];
        let groups = looks.into_iter().fold(vec![], |before, now| max_held(&before, now));
        assert_eq!(groups, [(2 << 30, 7)]);
        assert_eq!(max_held(&groups, vec![(2 << 30, 3)]), groups);
    }

    #[test]
    fn a_fuller_outer_group_is_tighter() {
        let looks =
            [vec![(8 << 30, 1 << 30), (9 << 30, 8 << 30)], vec![(8 << 30, 2 << 30), (9 << 30, 1)]];
        let groups = looks.into_iter().fold(vec![], |before, now| max_held(&before, now));
        assert_eq!(tightest(&groups), Some((9 << 30, 8 << 30)));
    }

    #[test]
    fn stalls_count_from_the_first_look() {
        let cgroups = tempfile::tempdir().unwrap();
        if folders(process::id() as i32, "memory", cgroups.path()).is_empty() {
            eprintln!("SKIPPED stalls_are_those_of_the_group: this process is in no memory cgroup");
            return;
        }
        let stalled = |some_us: u64| {
            let lines = format!("some avg10=0.00 total={some_us}\nfull avg10=0.00 total=7\n");
            for folder in folders(process::id() as i32, "memory", cgroups.path()) {
                fs::create_dir_all(&folder).unwrap();
                fs::write(folder.join("memory.pressure"), &lines).unwrap();
            }
        };
        stalled(2_000_000);
        let mut stalls = MemoryStalls::new(process::id() as i32, cgroups.path());
        assert_eq!(stalls.stalled_s, Some(0.0));
        stalled(2_750_000);
        stalls.look();
        assert_eq!(stalls.stalled_s, Some(0.75));
        fs::remove_dir_all(cgroups.path()).unwrap();
        stalls.look();
        assert_eq!(stalls.stalled_s, Some(0.75));
    }
}
