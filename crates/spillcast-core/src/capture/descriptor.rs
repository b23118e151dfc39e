//! Identifies the files of other processes' descriptors, by /proc.

use std::fs;
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

use super::event::FileIdentity;
use super::temp::born_ns;
use crate::proc::{DELETED_MARK, field, number, numbers_in};

/// Looks up the file of descriptor `fd` of a process or thread, without its position; None if it is
/// closed or access is denied.
pub(crate) fn identify(pid: i32, fd: i32) -> Option<FileIdentity> {
    let link = format!("/proc/{pid}/fd/{fd}");
    let target = fs::read_link(&link).ok()?;
    // The link leads to the file itself, even if the file has no name any more.
    let stat = fs::metadata(&link).ok()?;
    let shown = String::from_utf8_lossy(target.as_os_str().as_bytes()).into_owned();
    let unlinked = stat.nlink() == 0;
    let path = match shown.strip_suffix(DELETED_MARK) {
        Some(path) if unlinked => path.to_owned(),
        _ => shown,
    };
    Some(FileIdentity {
        path,
        dev: stat.dev(),
        ino: stat.ino(),
        born_ns: born_ns(&stat),
        regular: stat.is_file(),
        unlinked,
        position: None,
        append_at: (stat.is_file() && stat.len() > 0 && is_new_appender(pid, fd))
            .then_some(stat.len() as i64),
    })
}

fn position(pid: i32, fd: i32) -> Option<i64> {
    number(&fs::read_to_string(info(pid, fd)).ok()?, "pos:")?.try_into().ok()
}

fn info(pid: i32, fd: i32) -> String {
    format!("/proc/{pid}/fdinfo/{fd}")
}

/// Whether a descriptor was opened with O_APPEND and has not been written to.
fn is_new_appender(pid: i32, fd: i32) -> bool {
    let text = fs::read_to_string(info(pid, fd)).unwrap_or_default();
    let flags = field(&text, "flags:").and_then(|octal| i32::from_str_radix(octal, 8).ok());
    number(&text, "pos:") == Some(0) && flags.is_some_and(|flags| flags & libc::O_APPEND != 0)
}

/// Whether descriptors of two processes share an open file description, and so its position; false
/// if the kernel refuses to compare them.
pub(crate) fn is_same_open_file((pid, fd): (i32, i32), (other_pid, other_fd): (i32, i32)) -> bool {
    const KCMP_FILE: i32 = 0;
    // SAFETY: no pointer is passed.
    unsafe { libc::syscall(libc::SYS_kcmp, pid, other_pid, KCMP_FILE, fd, other_fd) == 0 }
}

/// The descriptors that close_range closes: from `first` to `last`, or to the end if it is None.
pub(crate) fn closed_range(first: i32, last: Option<i64>) -> RangeInclusive<u32> {
    first as u32..=last.map_or(u32::MAX, |last| last as u32)
}

/// The open descriptors of a process with their files and positions, each looked up when it is
/// taken from the iterator.
pub(crate) fn open_files(pid: i32) -> impl Iterator<Item = (i32, FileIdentity)> {
    let descriptors = numbers_in(&format!("/proc/{pid}/fd")).unwrap_or_default();
    let file = move |fd| {
        let file = identify(pid, fd)?;
        // The position is read last, because the caller takes the time afterwards.
        Some((fd, FileIdentity { position: position(pid, fd), ..file }))
    };
    descriptors.into_iter().filter_map(file)
}
