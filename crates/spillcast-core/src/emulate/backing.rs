//! Operations on a backing file, in the terms of the file system.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, fchown};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo, Request, TimeOrNow};
use rustix::fs::{Timespec, UTIME_NOW, UTIME_OMIT};

/// Gives a new file to the user who requested it, with the mode that the kernel has masked.
pub(crate) fn set_owner(request: &Request, file: &File, mode: u32) -> io::Result<()> {
    if rustix::process::geteuid().is_root() {
        fchown(file, Some(request.uid()), Some(request.gid()))?;
    }
    file.set_permissions(fs::Permissions::from_mode(mode & 0o7777))
}

pub(crate) fn attributes(number: INodeNo, file: &File) -> io::Result<FileAttr> {
    let metadata = file.metadata()?;
    let time = |seconds: i64, nanoseconds: i64| {
        UNIX_EPOCH + Duration::new(seconds.max(0) as u64, nanoseconds as u32)
    };
    Ok(FileAttr {
        ino: number,
        size: metadata.size(),
        blocks: metadata.blocks(),
        atime: time(metadata.atime(), metadata.atime_nsec()),
        mtime: time(metadata.mtime(), metadata.mtime_nsec()),
        ctime: time(metadata.ctime(), metadata.ctime_nsec()),
        crtime: UNIX_EPOCH,
        kind: FileType::from_std(metadata.file_type()).unwrap_or(FileType::RegularFile),
        perm: (metadata.mode() & 0o7777) as u16,
        nlink: metadata.nlink() as u32,
        uid: metadata.uid(),
        gid: metadata.gid(),
        rdev: metadata.rdev() as u32,
        blksize: metadata.blksize() as u32,
        flags: 0,
    })
}

pub(crate) fn read_up_to(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(bytes) => done += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

pub fn timespec(time: Option<TimeOrNow>) -> Timespec {
    let since = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default();
    match time {
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        Some(TimeOrNow::Now) => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        Some(TimeOrNow::SpecificTime(time)) => Timespec {
            tv_sec: since(time).as_secs() as i64,
            tv_nsec: since(time).subsec_nanos().into(),
        },
    }
}
