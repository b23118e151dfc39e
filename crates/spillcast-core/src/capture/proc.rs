//! What /proc says of processes, read in the ways that all of a capture need.

use std::fs;
use std::io;

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

/// The process of a thread; a process is its own.
pub fn process_of(tid: i32) -> i32 {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
    number(&status, "Tgid:").map_or(tid, |pid| pid as i32)
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
