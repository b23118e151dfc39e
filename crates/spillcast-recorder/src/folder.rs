//! Where a recording goes: a folder beside its name, which takes the name when it is whole.
//!
//! What is not a recording is never replaced or removed, and no symbolic link is followed.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use spillcast_recording::rename;

use crate::failure::{Failure, Outcome};

const OTHER: &str = "name another with -o";
const META: &str = "meta.json";
/// All that a recording of ours holds.
const FILES: [&str; 4] = [META, "waits.parquet", "seconds.parquet", "samples.parquet"];

/// The folder of one recording while it is written; gone when it is dropped without its name.
pub struct Folder {
    name: PathBuf,
    pub partial: PathBuf,
    force: bool,
}

impl Folder {
    pub fn new(name: &Path, force: bool) -> Outcome<Folder> {
        check(name, force)?;
        let mut partial = OsString::from(".");
        partial.push(name.file_name().unwrap_or_default());
        partial.push(format!(".partial-{}", std::process::id()));
        let partial = name.with_file_name(partial);
        let made = DirBuilder::new().mode(0o700).create(&partial);
        made.map_err(|error| Failure::usage(format!("{}: {error}", partial.display()), OTHER))?;
        Ok(Folder { name: name.to_owned(), partial, force })
    }

    /// Writes meta.json and gives the folder its name, or a free one like it.
    pub fn publish(self, meta: &str) -> Outcome<PathBuf> {
        let told = |error| Failure::io(self.partial.display(), &error);
        fs::write(self.partial.join(META), meta).map_err(told)?;
        for entry in fs::read_dir(&self.partial).map_err(told)?.flatten() {
            fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o600)).map_err(told)?;
        }
        for name in numbered(&self.name) {
            let there = name.symlink_metadata().is_ok();
            if there && (name != self.name || check(&name, self.force).is_err()) {
                continue;
            }
            match rename(&self.partial, &name, there) {
                // What was there has the partial name now, and goes when this is dropped.
                Ok(()) => return Ok(name),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(Failure::io(name.display(), &error)),
            }
        }
        unreachable!("there is no end of numbers")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.partial);
    }
}

/// The path, then the same with 2, 3 and so on after its stem.
fn numbered(path: &Path) -> impl Iterator<Item = PathBuf> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let end = path.extension().map(|end| format!(".{}", end.to_string_lossy())).unwrap_or_default();
    let later = move |number| path.with_file_name(format!("{stem}-{number}{end}"));
    std::iter::once(path.to_owned()).chain((2..).map(later))
}

/// The first of the numbered names that nothing has.
pub fn unused_name(path: &Path) -> PathBuf {
    let free = numbered(path).find(|name| name.symlink_metadata().is_err());
    free.expect("there is no end of numbers")
}

/// A failure unless a recording can be written there: an older one is replaced only with `force`.
pub fn check(path: &Path, force: bool) -> Outcome<()> {
    let bad = |what: &str| Err(Failure::usage(format!("{}: {what}", path.display()), OTHER));
    if path.file_name().is_none() {
        return bad("is not a name of a folder");
    }
    let Ok(found) = path.symlink_metadata() else { return Ok(()) };
    if found.is_symlink() {
        return bad("is a symbolic link");
    }
    let meta = fs::read_to_string(path.join(META)).unwrap_or_default();
    if !found.is_dir() || !meta.contains("\"spillcast.recording/") {
        return bad("exists and is not a recording");
    }
    let names = fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.file_name());
    match names.into_iter().find(|name| !FILES.iter().any(|known| name == known)) {
        Some(foreign) => {
            bad(&format!("holds {}, which is not part of a recording", foreign.display()))
        }
        None if force => Ok(()),
        None => {
            let hint = format!("replace it with --force, or {OTHER}");
            Err(Failure::usage(format!("{}: exists", path.display()), hint))
        }
    }
}
