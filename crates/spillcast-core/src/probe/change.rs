//! Replays calls that open, resize, sync, remove or look up the file that represents a temp file.
//!
//! The first call that opens a file creates it, because some engines open a file for each read. A
//! file of the replay has no name, so a replayed unlink first gives it one, then removes the name
//! and closes the last descriptor, so that the blocks are freed as those of the engine's file were.
//! No thread reads or writes the file during a call that changes it. If a nameless file cannot get
//! a name (FUSE, NFS), an empty file is removed in its place.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FallocateFlags, fallocate, fcntl_getfl, fcntl_setfl, linkat};
use spillcast_calls::CallKind;

use super::clock::now_ns;
use super::file::ReplayFile;
use super::scratch;

/// Makes one call like `kind`; returns its duration in ns. No thread reads or writes the file
/// during a call that changes it.
///
/// `offset` is the new length for a truncation; an allocation takes at most `bytes` from there.
pub(super) fn make(
    kind: CallKind,
    replayed: &ReplayFile,
    dir: &Path,
    (offset, bytes): (u64, u64),
) -> io::Result<u64> {
    use CallKind::*;
    if kind.looks_up() {
        // Threads do this concurrently. A new name is in no cache.
        let path = scratch::name_in(dir)?;
        return timed(|| path.try_exists().map(drop));
    }
    let mut file = replayed.alone();
    match kind {
        Ftruncate | Truncate => {
            let elapsed_ns = timed(|| file.set_len(offset))?;
            replayed.cut(offset);
            Ok(elapsed_ns)
        }
        Fallocate => {
            let bytes = replayed.allocate(bytes).max(4096);
            timed(|| allocate(&file, offset, bytes))
        }
        Fsync => timed(|| file.sync_all()),
        Fdatasync => timed(|| file.sync_data()),
        SyncFileRange => timed(|| begin_writing(&file)),
        Unlink | Unlinkat => {
            let elapsed_ns = remove(&mut file, dir)?;
            replayed.removed();
            Ok(elapsed_ns)
        }
        _ => {
            let path = scratch::name_in(dir)?;
            let elapsed_ns = if replayed.reopened() {
                scratch::create_named(&path)?;
                timed(|| File::open(&path).map(drop))
            } else {
                timed(|| scratch::create_named(&path).map(drop))
            };
            // Also if it could not be opened, for example because of too many open files.
            let removed = fs::remove_file(&path);
            elapsed_ns.and_then(|elapsed_ns| removed.map(|()| elapsed_ns))
        }
    }
}

fn timed(call: impl FnOnce() -> io::Result<()>) -> io::Result<u64> {
    let start_ns = now_ns();
    call()?;
    Ok(now_ns() - start_ns)
}

/// Preallocates without changing the length. A refusal for lack of support counts with its time.
fn allocate(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::KEEP_SIZE, offset, bytes) {
        Err(rustix::io::Errno::OPNOTSUPP) | Ok(()) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Starts writing dirty pages to the storage without waiting, the most common use of this call.
fn begin_writing(file: &File) -> io::Result<()> {
    // SAFETY: no pointer is passed.
    match unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Removes the file with its content, and puts a new one in its place.
///
/// The file gets a name just before. If the file system cannot give a nameless file a name (FUSE,
/// NFS), an empty file is removed instead.
fn remove(file: &mut File, dir: &Path) -> io::Result<u64> {
    let (path, new) = (scratch::name_in(dir)?, scratch::create(dir)?);
    // O_DIRECT belongs to the descriptor, for which the replay has set it.
    fcntl_setfl(&new, fcntl_getfl(&*file)?)?;
    let nameless = format!("/proc/self/fd/{}", file.as_raw_fd());
    if linkat(CWD, nameless, CWD, &path, AtFlags::SYMLINK_FOLLOW).is_err() {
        scratch::create_named(&path)?;
    }
    // This was the last descriptor, so the blocks are freed with the name.
    drop(std::mem::replace(file, new));
    timed(|| fs::remove_file(&path))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn threads_look_up_names_concurrently() {
        let dir = tempfile::tempdir().unwrap();
        let file = Arc::new(ReplayFile::create(dir.path(), 0, 0).unwrap());
        let (ended, end) = mpsc::channel();
        let looks_up = file.clone();
        let held = file.alone();
        let path = dir.path().to_owned();
        thread::spawn(move || ended.send(make(CallKind::Statx, &looks_up, &path, (0, 0)).is_ok()));
        assert!(end.recv_timeout(Duration::from_secs(60)).unwrap());
        drop(held);
    }

    #[test]
    fn a_recreated_file_keeps_its_direct_io() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let file = ReplayFile::create(dir.path(), 0, 0).unwrap();
        for direct in [true, false] {
            scratch::set_direct(&file.alone(), direct).unwrap();
            make(CallKind::Unlink, &file, dir.path(), (0, 0)).unwrap();
            let flags = fcntl_getfl(&*file.alone()).unwrap();
            assert_eq!(flags.contains(rustix::fs::OFlags::DIRECT), direct);
        }
    }
}
