//! What /proc tells of processes: threads, descendants, start, user, memory, bytes moved.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use crate::system::boot_ns;

/// The numbers that name the entries of a directory: threads of `/proc/PID/task`, descriptors of
/// `/proc/PID/fd`. Empty where the process has ended.
pub fn numbers_in(directory: &str) -> io::Result<Vec<i32>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

/// The open descriptors of a process: of each its link in /proc, and where that leads as shown. None
/// where the process has ended or may not be looked at.
pub fn descriptors(pid: i32) -> impl Iterator<Item = (PathBuf, PathBuf)> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some((entry.path(), fs::read_link(entry.path()).ok()?)))
}

/// The process of a thread; a process is its own.
pub fn process_of(tid: i32) -> i32 {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
    number(&status, "Tgid:").map_or(tid, |pid| pid as i32)
}

/// Whether processes have here the numbers that the kernel itself uses, in which eBPF programs and
/// tracepoints name them: the inode of that namespace is the same on every machine.
pub fn in_first_namespace() -> bool {
    fs::metadata("/proc/self/ns/pid").is_ok_and(|namespace| namespace.ino() == 0xEFFF_FFFC)
}

/// The threads of a process; of a thread that is not the first of its process, itself alone. Empty
/// where it has ended.
pub fn threads_of(pid: i32) -> io::Result<Vec<i32>> {
    match process_of(pid) {
        process if process == pid => numbers_in(&format!("/proc/{pid}/task")),
        _ => Ok(vec![pid]),
    }
}

/// The number behind `name` at the start of a line, as in `pos: 4096` of a descriptor.
pub fn number(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
}

/// Whether a process is gone, but for its parent's asking.
pub fn ended(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| stat.contains(") Z "))
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

/// The children of a process; none where it has ended.
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
    Some(*stat(pid)?.1.get(1)? as i32)
}

/// Whether a process is a child of this one that has yet to run its own program.
pub fn is_held(pid: i32) -> bool {
    const FORKED_WITHOUT_EXEC: i64 = 0x40;
    stat(pid).is_some_and(|(_, fields)| {
        fields.get(1) == Some(&i64::from(std::process::id()))
            && fields.get(6).is_some_and(|flags| flags & FORKED_WITHOUT_EXEC != 0)
    })
}

/// /proc/PID/stat: the name, which may hold blanks, and the fields after it, the state first.
pub fn stat(pid: i32) -> Option<(String, Vec<i64>)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (name, fields) = text.rsplit_once(')')?;
    let number = |field: &str| field.parse().unwrap_or(0);
    Some((name.to_owned(), fields.split_ascii_whitespace().map(number).collect()))
}

/// Start of a process in clock ticks since the boot.
pub fn start_ticks(pid: i32) -> Option<i64> {
    stat(pid)?.1.get(19).copied()
}

pub fn ticks_per_s() -> i64 {
    rustix::param::clock_ticks_per_second() as i64
}

/// How long ago a process was started whose name holds `called`; None where there is none.
pub fn age_s(pid: i32, called: &str) -> Option<f64> {
    let (name, fields) = stat(pid)?;
    let started_s = *fields.get(19)? as f64 / ticks_per_s() as f64;
    name.contains(called).then_some((boot_ns() as f64 / 1e9 - started_s).max(0.0))
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

/// Calls of a process that read and wrote anything, and their bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moved {
    pub reads: u64,
    pub writes: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
}

/// Since the start of a process; None where it has ended or /proc refuses.
pub fn moved(pid: i32) -> Option<Moved> {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    let value = |name| number(&text, name);
    Some(Moved {
        reads: value("syscr:")?,
        writes: value("syscw:")?,
        read_bytes: value("rchar:")?,
        written_bytes: value("wchar:")?,
    })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_shell_and_what_it_started_are_a_tree() {
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 60 & echo; wait"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = [0u8; 1];
        io::Read::read_exact(shell.stdout.as_mut().unwrap(), &mut line).unwrap();
        let pid = shell.id() as i32;
        let pids = family(pid);
        assert_eq!((pids.len(), pids[0]), (2, pid));
        assert_eq!(parent(pids[1]), Some(pid));
        assert_eq!(parent(pid), Some(std::process::id() as i32));
        // SAFETY: the number is of a child's child that nobody has waited for.
        unsafe { libc::kill(pids[1], libc::SIGKILL) };
        shell.wait().unwrap();
        assert!(children(pid).is_empty());
    }
}
