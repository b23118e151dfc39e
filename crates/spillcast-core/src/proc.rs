//! What /proc shows of processes: threads, descendants, start, user, memory, bytes moved.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::native::u64_at;
use crate::system::boot_ns;

/// The mark after the path of an unlinked file in /proc/PID/fd and /proc/PID/maps.
pub const DELETED_MARK: &str = " (deleted)";

/// Reads a file of /proc as text. Names of programs and files in it may hold any bytes; bytes that
/// are not UTF-8 are replaced.
pub fn read_text(path: impl AsRef<Path>) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())
}

/// The numbers that name the entries of a directory: threads of `/proc/PID/task`, descriptors of
/// `/proc/PID/fd`. Empty if the process has ended.
pub(crate) fn numbers_in(directory: &str) -> io::Result<Vec<i32>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

/// The open descriptors of a process: the link of each in /proc, and the target that it shows.
/// Empty if the process has ended or access is denied.
pub fn descriptors(pid: i32) -> impl Iterator<Item = (PathBuf, PathBuf)> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some((entry.path(), fs::read_link(entry.path()).ok()?)))
}

/// A line of /proc/PID/maps.
pub(crate) struct Mapped<'a> {
    pub start: u64,
    pub end: u64,
    pub permissions: &'a str,
    pub offset: u64,
    pub device: &'a str,
    pub inode: u64,
    pub name: &'a str,
}

impl<'a> Mapped<'a> {
    pub fn parse(line: &'a str) -> Option<Mapped<'a>> {
        let mut words = line.splitn(6, ' ');
        let (start, end) = words.next()?.split_once('-')?;
        let number = |word: &str| u64::from_str_radix(word, 16).ok();
        Some(Mapped {
            start: number(start)?,
            end: number(end)?,
            permissions: words.next()?,
            offset: number(words.next()?)?,
            device: words.next()?,
            inode: words.next()?.parse().ok()?,
            name: words.next().unwrap_or_default().trim_start(),
        })
    }
}

/// The process id of a thread.
pub(crate) fn process_of(tid: i32) -> i32 {
    let status = read_text(format!("/proc/{tid}/status")).unwrap_or_default();
    number(&status, "Tgid:").map_or(tid, |pid| pid as i32)
}

/// Whether this process is in the initial PID namespace, whose ids eBPF programs and tracepoints
/// report. The inode of that namespace is the same on every machine.
pub(crate) fn in_first_namespace() -> bool {
    fs::metadata("/proc/self/ns/pid").is_ok_and(|namespace| namespace.ino() == 0xEFFF_FFFC)
}

/// The threads of a process; for a thread other than the first of its process, only itself. Empty
/// if it has ended.
pub(crate) fn threads_of(pid: i32) -> io::Result<Vec<i32>> {
    match process_of(pid) {
        process if process == pid => numbers_in(&format!("/proc/{pid}/task")),
        _ => Ok(vec![pid]),
    }
}

/// Visits each id that `list` returns, given those visited so far, until it returns no new one: a
/// list may lack an id because another began or ended while it was read. Returns all in order.
pub(crate) fn visit_all(
    mut list: impl FnMut(&[i32]) -> io::Result<Vec<i32>>,
    mut visit: impl FnMut(i32) -> io::Result<()>,
) -> io::Result<Vec<i32>> {
    let (mut visited, mut seen) = (Vec::new(), HashSet::new());
    loop {
        let before = visited.len();
        for id in list(&visited)? {
            if seen.insert(id) {
                visit(id)?;
                visited.push(id);
            }
        }
        if visited.len() == before {
            return Ok(visited);
        }
    }
}

/// The text after `name` at the start of a line, as in `flags: 0100002` of a descriptor.
pub(crate) fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// A field that is a number, as in `pos: 4096` of a descriptor.
pub fn number(text: &str, name: &str) -> Option<u64> {
    field(text, name)?.parse().ok()
}

/// Whether a process has ended; its parent may not have waited for it yet. Other threads may
/// outlive the main thread, whose state stands for the process.
pub fn ended(pid: i32) -> bool {
    Stat::of(pid).is_none_or(|stat| stat.state == b'Z' && stat.threads <= 1)
}

/// A process and its descendants at this moment, the process first.
pub fn family(pid: i32) -> Vec<i32> {
    let mut pids = vec![pid];
    let mut at = 0;
    while let Some(&parent) = pids.get(at) {
        pids.extend(children(parent));
        at += 1;
    }
    pids
}

/// The children of a process; empty if it has ended.
pub fn children(pid: i32) -> Vec<i32> {
    let task = format!("/proc/{pid}/task");
    let of_thread = |tid: &i32| fs::read_to_string(format!("{task}/{tid}/children")).ok();
    let threads = numbers_in(&task).unwrap_or_default();
    let lists: Vec<String> = threads.iter().filter_map(of_thread).collect();
    if lists.is_empty() && !threads.is_empty() {
        // A kernel without these lists.
        let all = numbers_in("/proc").unwrap_or_default();
        return all.into_iter().filter(|&other| parent(other) == Some(pid)).collect();
    }
    lists.iter().flat_map(|list| list.split_ascii_whitespace()).flat_map(str::parse).collect()
}

/// The process that started a process, or adopted it.
pub fn parent(pid: i32) -> Option<i32> {
    Stat::of(pid).map(|stat| stat.parent)
}

/// Whether a process is a child of this one that has not executed its program yet.
pub(crate) fn is_held(pid: i32) -> bool {
    const FORKED_WITHOUT_EXEC: u64 = 0x40;
    Stat::of(pid).is_some_and(|stat| {
        stat.parent == std::process::id() as i32 && stat.flags & FORKED_WITHOUT_EXEC != 0
    })
}

/// A process as /proc/PID/stat describes it.
pub struct Stat {
    /// At most 15 bytes, any but NUL.
    pub name: String,
    /// `Z` for a process whose main thread has ended and that its parent has not waited for.
    pub state: u8,
    pub parent: i32,
    flags: u64,
    /// User and system time, including that of children that have ended.
    pub cpu_ns: u64,
    threads: u64,
    /// Since boot, including the time that the machine was suspended.
    pub start_ns: u64,
}

impl Stat {
    /// None if there is no such process.
    pub fn of(pid: i32) -> Option<Stat> {
        let text = read_text(format!("/proc/{pid}/stat")).ok()?;
        let (name, fields) = text.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        // Numbered as in proc_pid_stat(5); the state, after the name, is field 3.
        let number = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        let cpu_ticks = (14..=17).map(number).sum::<Option<u64>>()?;
        Some(Stat {
            name: name.split_once('(')?.1.to_owned(),
            state: *fields.first()?.as_bytes().first()?,
            parent: number(4)? as i32,
            flags: number(9)?,
            cpu_ns: ticks_ns(cpu_ticks),
            threads: number(20)?,
            start_ns: ticks_ns(number(22)?),
        })
    }
}

/// Converts clock ticks, in which /proc counts, to nanoseconds.
pub(crate) fn ticks_ns(ticks: u64) -> u64 {
    let ticks_per_s = u128::from(rustix::param::clock_ticks_per_second());
    (u128::from(ticks) * 1_000_000_000 / ticks_per_s) as u64
}

/// Time since the start of a process whose name contains `name`; None if there is none.
pub fn age_s(pid: i32, name: &str) -> Option<f64> {
    let stat = Stat::of(pid).filter(|stat| stat.name.contains(name))?;
    Some(boot_ns().saturating_sub(stat.start_ns) as f64 / 1e9)
}

/// The user that a process runs as; None if it has ended.
pub fn owner(pid: i32) -> Option<u32> {
    let text = read_text(format!("/proc/{pid}/status")).ok()?;
    // Real, effective, saved, file system.
    field(&text, "Uid:")?.split_whitespace().nth(1)?.parse().ok()
}

/// Peak resident memory of a process; None if it has ended or is a kernel thread.
pub fn high_water_bytes(pid: i32) -> Option<u64> {
    status_bytes(&format!("/proc/{pid}/status"), "VmHWM")
}

/// A size in bytes that a line of a /proc file gives in kB.
pub fn status_bytes(path: &str, name: &str) -> Option<u64> {
    let text = read_text(path).ok()?;
    let size = field(&text, &format!("{name}:"))?.split_whitespace().next()?;
    Some(size.parse::<u64>().ok()? * 1024)
}

/// Whether a process runs a 32-bit program. The auxiliary vector has pairs of a small number and a
/// value: the first 8 bytes are the first number, or both if they are 32-bit words.
pub fn is_32_bit(pid: i32) -> bool {
    let pairs = fs::read(format!("/proc/{pid}/auxv")).unwrap_or_default();
    u64_at(&pairs, 0).is_some_and(|number| number > u32::MAX.into())
}

/// Calls of a process that read and wrote, and their bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moved {
    pub reads: u64,
    pub writes: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
}

/// Since the start of a process, including children that it has waited for, or of a thread other
/// than the first of its process; None if it has ended or /proc refuses access.
pub fn moved(pid: i32) -> Option<Moved> {
    moved_in(&moved_path(pid))
}

/// The file that [`moved`] reads.
pub(crate) fn moved_path(pid: i32) -> String {
    let thread = if process_of(pid) == pid { String::new() } else { format!("/task/{pid}") };
    format!("/proc/{pid}{thread}/io")
}

pub(crate) fn moved_in(path: &str) -> Option<Moved> {
    let text = fs::read_to_string(path).ok()?;
    let value = |name| number(&text, name);
    Some(Moved {
        reads: value("syscr:")?,
        writes: value("syscw:")?,
        read_bytes: value("rchar:")?,
        written_bytes: value("wchar:")?,
    })
}

#[cfg(test)]
mod tests;
