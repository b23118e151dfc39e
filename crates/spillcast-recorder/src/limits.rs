//! What holds a process down while it is observed: memory and CPU time, looked at now and then.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity};

use crate::cgroups::{folders, text};
use crate::json::{Value, object};
use crate::machine::{family, high_water_bytes};
use crate::sockets::has_server_connection;

/// A look at many processes takes 1 % of a core at the most.
const LOOKS_EVERY: u32 = 100;

/// What a process and its kin held, and the limits that they met.
pub struct Limits {
    pid: i32,
    peaks_bytes: BTreeMap<i32, u64>,
    limit_bytes: Option<u64>,
    held_bytes: Option<u64>,
    cpus: Option<usize>,
    quota: Option<Quota>,
    /// Throttled before: seconds, periods.
    before: (f64, u64),
    meanwhile: (f64, u64),
    due: Instant,
    /// Whether a connection to a server was seen.
    pub server_connection: bool,
}

struct Quota {
    folder: PathBuf,
    cpus: f64,
    period_s: f64,
}

impl Limits {
    pub fn new(pid: i32) -> Limits {
        let quota = tightest_quota(pid);
        let before = quota.as_ref().and_then(|quota| throttled(&quota.folder)).unwrap_or_default();
        let mut found = Limits {
            pid,
            peaks_bytes: BTreeMap::new(),
            limit_bytes: tightest_group(pid).map(|group| group.0),
            held_bytes: None,
            cpus: None,
            quota,
            before,
            meanwhile: (0.0, 0),
            due: Instant::now(),
            server_connection: false,
        };
        found.look();
        found
    }

    /// Reads the kernel's own marks, where it is time for it.
    pub fn look(&mut self) {
        let begin = Instant::now();
        if begin < self.due {
            return;
        }
        for pid in family(self.pid) {
            if let Some(bytes) = high_water_bytes(pid) {
                self.peaks_bytes.insert(pid, bytes);
            }
        }
        if let Some((_, held_bytes)) = tightest_group(self.pid) {
            self.held_bytes = Some(self.held_bytes.unwrap_or(0).max(held_bytes));
        }
        if let Ok(set) = sched_getaffinity(Pid::from_raw(self.pid)) {
            self.cpus = Some((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).count());
        }
        if let Some((now_s, periods)) = self.quota.as_ref().and_then(|one| throttled(&one.folder)) {
            self.meanwhile =
                ((now_s - self.before.0).max(0.0), periods.saturating_sub(self.before.1));
        }
        self.server_connection = self.server_connection || has_server_connection(self.pid);
        self.due = Instant::now() + (begin.elapsed() * LOOKS_EVERY).min(Duration::from_secs(60));
    }

    /// `memory` of meta.json.
    pub fn memory(&self) -> Value {
        let peak: u64 = self.peaks_bytes.values().sum();
        object! {
            "limit_bytes": self.limit_bytes,
            "peak_rss_bytes": Some(peak).filter(|&bytes| bytes > 0),
            "group_held_bytes": self.held_bytes,
        }
    }

    /// `cpu_limits` of meta.json.
    pub fn cpu(&self) -> Value {
        let quota = self.quota.as_ref();
        object! {
            "cpus": self.cpus.filter(|&count| count > 0),
            "quota_cpus": quota.map(|one| one.cpus),
            "period_s": quota.map(|one| one.period_s),
            "throttled_s": quota.map(|_| self.meanwhile.0),
            "throttled_periods": quota.map(|_| self.meanwhile.1),
        }
    }
}

/// The lowest limit of the memory groups of a process, and what that group holds besides files.
fn tightest_group(pid: i32) -> Option<(u64, u64)> {
    memory_groups(pid).min_by_key(|&(limit, _)| limit)
}

/// Of each memory group of a process that has one, the limit, and what it holds besides files.
pub fn memory_groups(pid: i32) -> impl Iterator<Item = (u64, u64)> {
    folders(pid, "memory").into_iter().filter_map(|folder| {
        let limit = either(&folder, "memory.max", "memory.limit_in_bytes").parse::<u64>().ok()?;
        // A number near 2**63 in version 1 is no limit.
        (limit < 1 << 60).then(|| (limit, held_bytes(&folder)))
    })
}

/// What is in use without the pages of files; those of tmpfs count, for they must stay.
fn held_bytes(folder: &Path) -> u64 {
    let used = either(folder, "memory.current", "memory.usage_in_bytes").parse().unwrap_or(0u64);
    let stat = text(folder.join("memory.stat"));
    let of = |name: &str| {
        let line = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.trim().parse::<u64>().ok())
    };
    let files = ["active_file", "inactive_file"]
        .map(|name| of(&format!("total_{name}")).or_else(|| of(name)).unwrap_or(0));
    used.saturating_sub(files.iter().sum())
}

fn tightest_quota(pid: i32) -> Option<Quota> {
    let limited = folders(pid, "cpu").into_iter().filter_map(|folder| {
        let max = text(folder.join("cpu.max"));
        let (quota, period) = match max.split_once(' ') {
            Some((quota, period)) => (quota.to_owned(), period.to_owned()),
            None => (text(folder.join("cpu.cfs_quota_us")), text(folder.join("cpu.cfs_period_us"))),
        };
        // No limit is `max` in version 2, and -1 in version 1.
        let (quota, period): (u64, u64) = (quota.parse().ok()?, period.parse().ok()?);
        let limits = quota > 0 && period > 0;
        limits.then(|| Quota {
            folder,
            cpus: quota as f64 / period as f64,
            period_s: period as f64 / 1e6,
        })
    });
    limited.min_by(|one, other| one.cpus.total_cmp(&other.cpus))
}

/// How long a group was held back since it was made, and in how many periods.
fn throttled(folder: &Path) -> Option<(f64, u64)> {
    let stat = text(folder.join("cpu.stat"));
    let of = |name: &str| {
        let line = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.trim().parse::<u64>().ok())
    };
    let seconds = match of("throttled_usec") {
        Some(us) => us as f64 / 1e6,
        None => of("throttled_time").unwrap_or(0) as f64 / 1e9,
    };
    Some((seconds, of("nr_throttled")?))
}

fn either(folder: &Path, one: &str, other: &str) -> String {
    let found = text(folder.join(one));
    if found.is_empty() { text(folder.join(other)) } else { found }
}
