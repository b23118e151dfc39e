//! What a descriptor of another process stands for, by /proc.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

use super::event::FileIdentity;
use super::temp::born_ns;
use crate::proc::{DELETED_MARK, number, numbers_in};

/// Looks at descriptor `fd` of a process or thread, but not at its position; None when it is closed
/// or may not be seen.
pub fn identify(pid: i32, fd: i32) -> Option<FileIdentity> {
    let link = format!("/proc/{pid}/fd/{fd}");
    let target = fs::read_link(&link).ok()?;
    // The link leads to the file itself, which may have no name any more.
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
    })
}

fn position(pid: i32, fd: i32) -> Option<i64> {
    let text = fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).ok()?;
    number(&text, "pos:")?.try_into().ok()
}

/// The open descriptors of a process with what they stand for, and their positions.
pub fn open_files(pid: i32) -> Vec<(i32, FileIdentity)> {
    let descriptors = numbers_in(&format!("/proc/{pid}/fd")).unwrap_or_default();
    let file = |fd| Some(FileIdentity { position: position(pid, fd), ..identify(pid, fd)? });
    descriptors.into_iter().filter_map(|fd| Some((fd, file(fd)?))).collect()
}
