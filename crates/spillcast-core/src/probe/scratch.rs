//! A file without a directory entry, so that nothing is left however the process ends.
//!
//! Some files have a name for a moment; a common prefix lets another process remove leftovers.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{Advice, OFlags};

/// O_TMPFILE creates the file without a name. If the file system does not support it (FUSE, NFS),
/// the file has an unguessable name until the next system call.
pub(super) fn create(dir: &Path) -> io::Result<File> {
    let nameless = OpenOptions::new()
        .read(true)
        .write(true)
        .mode(0o600)
        .custom_flags(libc::O_TMPFILE)
        .open(dir);
    match nameless {
        Err(error) if lacks_tmpfile(&error) => create_and_unlink(dir),
        other => other,
    }
}

fn lacks_tmpfile(error: &io::Error) -> bool {
    let unknown = [libc::EOPNOTSUPP, libc::ENOSYS, libc::EISDIR, libc::EINVAL];
    error.raw_os_error().is_some_and(|errno| unknown.contains(&errno))
}

fn create_and_unlink(dir: &Path) -> io::Result<File> {
    let path = name_in(dir)?;
    let file = create_named(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

/// A path with an unguessable name.
pub(super) fn name_in(dir: &Path) -> io::Result<PathBuf> {
    Ok(dir.join(format!("{}{:016x}", prefix()?, random()? as u64)))
}

/// The prefix of all names of this process, and of no other.
pub fn prefix() -> io::Result<&'static str> {
    static PREFIX: OnceLock<String> = OnceLock::new();
    let new = format!(".spillcast-{:016x}-", random()? as u64);
    Ok(PREFIX.get_or_init(|| new))
}

/// A new file whose name its owner removes.
pub(super) fn create_named(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// Sets or clears O_DIRECT on an open file; EINVAL if the file system does not support it.
pub(super) fn set_direct(file: &File, direct: bool) -> io::Result<()> {
    let flags = if direct { OFlags::DIRECT } else { OFlags::empty() };
    Ok(rustix::fs::fcntl_setfl(file, flags)?)
}

/// Drops the clean pages of a file from the page cache. It is only advice.
pub(super) fn drop_cache(file: &File) {
    let _ = rustix::fs::fadvise(file, 0, None, Advice::DontNeed);
}

/// 128 random bits, unguessable.
pub(super) fn random() -> io::Result<u128> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(u128::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn created_files_have_no_name_and_can_be_written_and_read() {
        let dir = tempfile::tempdir().unwrap();
        let files = [create(dir.path()), create_and_unlink(dir.path())];
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        for file in files.map(Result::unwrap) {
            file.write_all_at(b"spill", 3).unwrap();
            let mut back = [0; 5];
            file.read_exact_at(&mut back, 3).unwrap();
            assert_eq!(&back, b"spill");
        }
    }

    #[test]
    fn direct_io_goes_on_and_off_where_it_is_known() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let file = create(dir.path()).unwrap();
        if let Err(error) = set_direct(&file, true) {
            eprintln!("SKIPPED direct_io_goes_on_and_off_where_it_is_known: {error}");
            return;
        }
        // O_DIRECT rejects a buffer of one byte.
        let refused = file.write_at(b"x", 0).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EINVAL));
        set_direct(&file, false).unwrap();
        file.write_all_at(b"x", 0).unwrap();
    }
}
