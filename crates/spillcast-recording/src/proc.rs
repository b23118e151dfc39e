//! What /proc shows of a process and those that it started.

use std::fs;
use std::io;

use rustix::param::clock_ticks_per_second;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// A process and all that it started and that are still there.
pub fn family(pid: i32) -> Vec<i32> {
    let mut members = vec![pid];
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    for task in tasks {
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        let children = children.split_whitespace().filter_map(|child| child.parse().ok());
        members.extend(children.flat_map(family));
    }
    members
}

/// The user that a process runs as; None where it has ended.
pub fn owner(pid: i32) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    // Real, effective, saved, file system.
    line.split_whitespace().nth(1)?.parse().ok()
}

/// The most that a process held resident; None where it has ended or is a kernel thread.
pub fn high_water_bytes(pid: i32) -> Option<u64> {
    status_bytes(&format!("/proc/{pid}/status"), "VmHWM")
}

/// A line of a file of /proc that is in kB.
pub fn status_bytes(path: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// How long ago a process was started whose name holds `called`; None where there is none.
pub fn age_s(pid: i32, called: &str) -> Option<f64> {
    let now = clock_gettime(ClockId::Boottime);
    let (name, fields) = stat(pid)?;
    let started_s = *fields.get(19)? as f64 / clock_ticks_per_second() as f64;
    let ran_s = (now.tv_sec as f64 + now.tv_nsec as f64 / 1e9 - started_s).max(0.0);
    name.contains(called).then_some(ran_s)
}

/// What a process and those that it started had done when its recording began.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct DoneBefore {
    /// Since its start.
    pub ran_s: f64,
    pub cpu_s: f64,
    /// Bytes read and written of any file; None where that may not be seen.
    pub bytes: Option<u64>,
    pub read_bytes: Option<u64>,
    pub written_bytes: Option<u64>,
}

impl DoneBefore {
    /// Until now; None where the process has ended.
    pub fn of(pid: i32) -> Option<DoneBefore> {
        let ran_s = age_s(pid, "")?;
        let (mut cpu_ticks, mut moved) = (0, Some((0, 0)));
        for member in family(pid) {
            let Some((_, fields)) = stat(member) else { continue };
            // User and system time, and those of children that have ended.
            cpu_ticks += fields.iter().skip(11).take(4).sum::<i64>();
            moved = moved
                .zip(moved_bytes(member).ok())
                .map(|(sum, one)| (sum.0 + one.0, sum.1 + one.1));
        }
        Some(DoneBefore {
            ran_s,
            cpu_s: cpu_ticks as f64 / clock_ticks_per_second() as f64,
            bytes: moved.map(|(read, written)| read + written),
            read_bytes: moved.map(|(read, _)| read),
            written_bytes: moved.map(|(_, written)| written),
        })
    }
}

/// /proc/PID/stat: the name, which may hold blanks, and the fields after it, the state first.
fn stat(pid: i32) -> Option<(String, Vec<i64>)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (name, fields) = text.rsplit_once(')')?;
    let number = |field: &str| field.parse().unwrap_or(0);
    Some((name.to_owned(), fields.split_whitespace().map(number).collect()))
}

/// Bytes that a process has read and written.
fn moved_bytes(pid: i32) -> io::Result<(u64, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/io"))?;
    let of = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line.and_then(|count| count.parse().ok()).unwrap_or(0)
    };
    Ok((of("rchar"), of("wchar")))
}
