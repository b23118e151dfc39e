//! What a descriptor of another process stands for, by /proc.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use super::event::FileIdentity;

const DELETED: &str = " (deleted)";

/// Looks at descriptor `fd` of a process or thread; None when it is closed or may not be seen.
pub fn identify(pid: i32, fd: i32) -> Option<FileIdentity> {
    let link = format!("/proc/{pid}/fd/{fd}");
    let target = fs::read_link(&link).ok()?;
    let stat = stat(&link)?;
    let shown = String::from_utf8_lossy(target.as_os_str().as_bytes()).into_owned();
    let unlinked = stat.st_nlink == 0;
    let path = match shown.strip_suffix(DELETED) {
        Some(path) if unlinked => path.to_owned(),
        _ => shown,
    };
    Some(FileIdentity {
        path,
        dev: stat.st_dev,
        ino: stat.st_ino,
        regular: stat.st_mode & libc::S_IFMT == libc::S_IFREG,
        unlinked,
        position: position(pid, fd),
    })
}

/// Follows a link of /proc to the file itself, which may have no name any more.
fn stat(link: &str) -> Option<libc::stat> {
    let link = CString::new(link).ok()?;
    let mut stat = unsafe { std::mem::zeroed() };
    (unsafe { libc::stat(link.as_ptr(), &mut stat) } == 0).then_some(stat)
}

fn position(pid: i32, fd: i32) -> Option<i64> {
    let text = fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("pos:"))?.trim().parse().ok()
}

/// The open descriptors of a process with what they stand for.
pub fn open_files(pid: i32) -> Vec<(i32, FileIdentity)> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|fd| Some((fd, identify(pid, fd)?)))
        .collect()
}
