//! The folder of a recording: private and locked while it is written, then renamed.
//!
//! It is written as `NAME.XXXXXXXX.partial` beside its final name. A shell removes it if the writer
//! is killed; the next recorder of that name removes leftovers of a crashed machine. Only
//! recordings are replaced or removed, and symbolic links are not followed.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf, absolute};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Access, CWD, FlockOperation, RenameFlags, access, flock, renameat_with, statvfs};
use rustix::io::Errno;
use rustix::process::geteuid;
use serde::Deserialize;

use crate::failure::Kind::{
    InUse, OutputExists, OutputUnwritable, PathMissing, PathUnusable, SpaceInsufficient,
};
use crate::failure::{Failure, Kind, Outcome, reason};

pub const META: &str = "meta.json";
pub const STACKS: &str = "stacks.json";
const OTHER: &str = "name another with -o";
/// Everything that a finished recording may contain.
const FINISHED: [&str; 9] = [
    META,
    "waits.parquet",
    "seconds.parquet",
    "samples.parquet",
    STACKS,
    "plan.json",
    "estimate.json",
    "former_calls.json",
    "rehearsals",
];
/// What an unfinished recording contains in addition.
const UNFINISHED: [&str; 5] = ["parts", "seconds.packed", "samples", "reserve", "waits"];
/// No recording starts with less free space.
const ROOM_BYTES: u64 = 16 << 20;
/// Checking and creating takes a moment; a directory that stays locked longer has another reason.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
/// Reads until the writer ends in any way, then removes the folder. A thread of the writer may
/// still create files in it, so it retries for 10 s.
const JANITOR: &str = r#"
PATH=/usr/bin:/bin:$PATH
trap "" INT TERM HUP QUIT
read -r line
n=0; until rm -rf --one-file-system -- "$FOLDER" 2>/dev/null || [ $n -ge 100 ]; do
    n=$((n+1)); sleep 0.1
done
"#;

/// A new folder, later renamed to `path`; removed when dropped, unless it was renamed.
pub struct PartialFolder {
    pub path: PathBuf,
    /// Held but not read: it locks out other recorders.
    _lock: Option<File>,
    janitor: Option<Child>,
}

impl PartialFolder {
    /// Fails if another recorder is writing a folder of that name.
    pub fn new(path: &Path) -> Outcome<PartialFolder> {
        let _creation = creation_lock(parent_of(path)?);
        remove_left(path)?;
        PartialFolder::temporary(path)
    }

    /// Any number of processes may have a folder of that name.
    pub fn temporary(path: &Path) -> Outcome<PartialFolder> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        let number = getrandom::u32().unwrap_or_else(|_| std::process::id());
        name.push(format!(".{number:08x}.partial"));
        let partial = path.with_file_name(name);
        let created = DirBuilder::new().mode(0o700).create(&partial);
        created.map_err(|error| cannot_write(path, &error))?;
        // Some network file systems have no locks; leftovers of a killed recorder stay there.
        let lock = open_directory(&partial).ok();
        let lock =
            lock.filter(|lock| flock(lock, FlockOperation::NonBlockingLockExclusive).is_ok());
        let janitor = janitor(&partial).inspect_err(|_| {
            let _ = fs::remove_dir(&partial);
        });
        let janitor = Some(janitor.map_err(|error| Failure::io("/bin/sh", &error))?);
        Ok(PartialFolder { path: partial, _lock: lock, janitor })
    }
}

impl Drop for PartialFolder {
    fn drop(&mut self) {
        if let Some(mut janitor) = self.janitor.take() {
            // The janitor removes the folder when its input ends.
            drop(janitor.stdin.take());
            let _ = janitor.wait();
        }
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Its command line names neither the folder nor the writer: a `pkill -f` of them leaves it.
fn janitor(folder: &Path) -> io::Result<Child> {
    Command::new("/bin/sh")
        .args(["-c", JANITOR, "janitor"])
        .env("FOLDER", absolute(folder)?)
        .stdin(Stdio::piped())
        .process_group(0)
        .spawn()
}

/// The folder of a recording while it is written.
pub struct RecordingFolder {
    name: PathBuf,
    share: bool,
    /// The recording to replace; if another one has taken its place, that one is kept.
    replaced: Option<(u64, u64)>,
    partial: PartialFolder,
}

impl RecordingFolder {
    /// With `share` all users may read it once it is published; `force` replaces an older recording
    /// of that name.
    pub fn new(path: &Path, share: bool, force: bool) -> Outcome<RecordingFolder> {
        check_output(path, force)?;
        Ok(RecordingFolder {
            name: path.to_owned(),
            share,
            replaced: identity(path),
            partial: PartialFolder::new(path)?,
        })
    }

    pub fn path(&self) -> &Path {
        &self.partial.path
    }

    /// Gives the folder its name, or a similar free one if the name was taken meanwhile.
    pub fn publish(self) -> Outcome<PathBuf> {
        let denied = |error| Failure::io(self.name.display(), &error);
        allow(self.path(), self.share).map_err(denied)?;
        if self.take_name() {
            return Ok(self.name.clone());
        }
        for name in numbered(&self.name) {
            match rename(self.path(), &name, false) {
                Ok(()) => return Ok(name),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(denied(error)),
            }
        }
        unreachable!("the numbered names are endless")
    }

    fn take_name(&self) -> bool {
        if check_replaceable(&self.name).is_err() || identity(&self.name) != self.replaced {
            return false;
        }
        // An exchange gives the older recording the partial name, under which it is removed.
        rename(self.path(), &self.name, self.replaced.is_some()).is_ok()
    }
}

/// The path, then the path with -2, -3 and so on after its stem.
fn numbered(path: &Path) -> impl Iterator<Item = PathBuf> {
    let stem = path.file_stem().unwrap_or_default().to_owned();
    let later = move |number: u32| {
        let mut name = stem.clone();
        name.push(format!("-{number}"));
        if let Some(end) = path.extension() {
            name.push(".");
            name.push(end);
        }
        path.with_file_name(name)
    };
    std::iter::once(path.to_owned()).chain((2..).map(later))
}

/// The first of the numbered names that is free and that no recorder is writing.
pub fn unused_name(path: &Path) -> PathBuf {
    let is_free =
        |name: &PathBuf| name.symlink_metadata().is_err() && partial_folders(name).is_empty();
    numbered(path).find(is_free).expect("the numbered names are endless")
}

/// Fails unless a recording can be written at `path`: an older recording is replaced only with
/// `force`, anything else never.
pub fn check_output(path: &Path, force: bool) -> Outcome<()> {
    let bad = |kind, message: &str, hint: &str| Err(failure_at(path, kind, message, hint));
    if path.to_str().is_none() {
        return bad(
            PathUnusable,
            "the path of a recording must be UTF-8",
            "rename the folder, or go into it and name what is below",
        );
    }
    check_replaceable(path)?;
    refuse_foreign_link(path)?;
    if path.exists() && !force {
        return bad(OutputExists, "exists", &format!("replace it with --force, or {OTHER}"));
    }
    let parent = parent_of(path)?;
    if !parent.is_dir() {
        return bad(PathMissing, &format!("there is no directory {}", parent.display()), "");
    }
    if access(&parent, Access::WRITE_OK).is_err() {
        return bad(OutputUnwritable, "its directory is not writable", OTHER);
    }
    let free = statvfs(&parent).map_or(u64::MAX, |disk| disk.f_bavail * disk.f_frsize);
    if free < ROOM_BYTES {
        let mib = free as f64 / f64::from(1 << 20);
        return bad(
            SpaceInsufficient,
            &format!("no space for a recording: {mib:.1} MiB are free"),
            OTHER,
        );
    }
    check_free(path)
}

/// Fails if `path` is not a recording, or contains other files too.
fn check_replaceable(path: &Path) -> Outcome<()> {
    let bad = |kind, message: &str, hint: &str| Err(failure_at(path, kind, message, hint));
    let Ok(metadata) = path.symlink_metadata() else { return Ok(()) };
    if metadata.is_symlink() {
        return bad(PathUnusable, "is a symbolic link", "name the folder it leads to with -o");
    }
    if !metadata.is_dir() || !is_recording(path) {
        return bad(OutputExists, "exists and is not a recording", OTHER);
    }
    match names_of(path).into_iter().find(|name| !is_listed(name, &[&FINISHED])) {
        Some(name) => bad(
            OutputExists,
            &format!("holds {}, which is not part of a recording", name.display()),
            OTHER,
        ),
        None => Ok(()),
    }
}

fn failure_at(path: &Path, kind: Kind, message: &str, hint: &str) -> Failure {
    Failure::of(kind, format!("{}: {message}", path.display()), hint)
}

/// Whether the meta.json in a folder is that of a recording, of any version.
fn is_recording(path: &Path) -> bool {
    #[derive(Deserialize)]
    struct Schema {
        schema: String,
    }
    let text = fs::read(path.join(META)).unwrap_or_default();
    serde_json::from_slice::<Schema>(&text)
        .is_ok_and(|meta| meta.schema.split('/').next() == Some("spillcast.recording"))
}

/// Fails if another recorder is writing what will be called `path`.
pub fn check_free(path: &Path) -> Outcome<()> {
    partial_folders(path).iter().try_for_each(|folder| lock_left(folder).map(drop))
}

/// The folders in which a recording called `path` is being written, or was.
fn partial_folders(path: &Path) -> Vec<PathBuf> {
    let Ok(parent) = parent_of(path) else { return Vec::new() };
    let entries = fs::read_dir(&parent).into_iter().flatten().flatten();
    let wanted = path.file_name().unwrap_or_default();
    let partial = entries.filter(|entry| {
        finished_name(&entry.file_name()).is_some_and(|name| name == wanted)
            && entry.file_type().is_ok_and(|kind| kind.is_dir())
    });
    partial.map(|entry| entry.path()).collect()
}

/// The final name of a folder that is being written; None for any other folder.
pub fn finished_name(partial: &OsStr) -> Option<OsString> {
    let name = partial.as_bytes().strip_suffix(b".partial")?;
    let (name, number) = name.split_at_checked(name.len().checked_sub(9)?)?;
    let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_ours = number.starts_with(b".") && number[1..].iter().all(is_hex);
    is_ours.then(|| OsStr::from_bytes(name).to_owned())
}

/// Removes leftovers of recorders of the same name. Fails if one of them is still running.
fn remove_left(path: &Path) -> Outcome<()> {
    for folder in partial_folders(path) {
        let Some(_lock) = lock_left(&folder)? else { continue };
        if names_of(&folder).iter().all(|name| is_listed(name, &[&FINISHED, &UNFINISHED])) {
            let _ = fs::remove_dir_all(&folder);
        }
    }
    Ok(())
}

/// The lock of a folder left by a recorder; None if it cannot be opened. Fails if another process
/// has locked it.
fn lock_left(folder: &Path) -> Outcome<Option<File>> {
    let Ok(lock) = open_directory(folder) else { return Ok(None) };
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => {
            let name = finished_name(folder.file_name().unwrap_or_default()).unwrap_or_default();
            let name = folder.with_file_name(name);
            let message = format!("{} is being recorded by another spillcast", name.display());
            Err(Failure::of(InUse, message, OTHER))
        }
        _ => Ok(Some(lock)),
    }
}

/// Held by one of two recorders that start together, so that the other one sees its folder.
fn creation_lock(directory: PathBuf) -> Option<File> {
    // A directory may be writable but not readable; then there is no lock.
    let lock = open_directory(&directory).ok()?;
    let until = Instant::now() + LOCK_TIMEOUT;
    while Instant::now() < until {
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => thread::sleep(Duration::from_millis(10)),
            _ => break,
        }
    }
    Some(lock)
}

fn open_directory(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(path)
}

/// Fails if a symbolic link on the way to an output belongs to another user, who can redirect it.
pub fn refuse_foreign_link(path: &Path) -> Outcome<()> {
    let whole = absolute(path).map_err(|error| cannot_write(path, &error))?;
    for place in whole.ancestors() {
        let Ok(meta) = place.symlink_metadata() else { continue };
        if meta.is_symlink() && ![0, geteuid().as_raw()].contains(&meta.uid()) {
            let message = format!("{} is a symbolic link of another user", place.display());
            return Err(Failure::of(PathUnusable, message, "name another place"));
        }
    }
    Ok(())
}

fn parent_of(path: &Path) -> Outcome<PathBuf> {
    let whole = absolute(path).map_err(|error| cannot_write(path, &error))?;
    let parent = whole.parent().filter(|_| path.file_name().is_some());
    let unnamed = || {
        Failure::of(PathUnusable, format!("{}: is not a name of a folder", path.display()), OTHER)
    };
    parent.map(Path::to_owned).ok_or_else(unnamed)
}

pub fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::of(
        OutputUnwritable,
        format!("{}: cannot be written: {}", path.display(), reason(error)),
        OTHER,
    )
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    path.symlink_metadata().ok().map(|meta| (meta.dev(), meta.ino()))
}

fn names_of(folder: &Path) -> Vec<OsString> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<OsString> = entries.map(|entry| entry.file_name()).collect();
    names.sort();
    names
}

fn is_listed(name: &OsStr, lists: &[&[&str]]) -> bool {
    lists.iter().flat_map(|list| list.iter()).any(|known| name == *known)
}

/// Makes a folder and its content readable for its owner only, or for all users with `share`.
pub fn allow(folder: &Path, share: bool) -> io::Result<()> {
    let mode = |owner: u32, all: u32| fs::Permissions::from_mode(if share { all } else { owner });
    fs::set_permissions(folder, mode(0o700, 0o755))?;
    for entry in fs::read_dir(folder)?.flatten() {
        let kind = entry.file_type()?;
        if kind.is_dir() {
            allow(&entry.path(), share)?;
        } else if !kind.is_symlink() {
            fs::set_permissions(entry.path(), mode(0o600, 0o644))?;
        }
    }
    Ok(())
}

/// Renames `from` to `to`, which must not exist; with `exchange` it must, and becomes `from`.
fn rename(from: &Path, to: &Path, exchange: bool) -> io::Result<()> {
    let flags = if exchange { RenameFlags::EXCHANGE } else { RenameFlags::NOREPLACE };
    match renameat_with(CWD, from, CWD, to, flags) {
        // Some network file systems support only plain renames.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => rename_in_steps(from, to, exchange),
        result => Ok(result?),
    }
}

fn rename_in_steps(from: &Path, to: &Path, exchange: bool) -> io::Result<()> {
    if !exchange {
        return match to.symlink_metadata() {
            Ok(_) => Err(Errno::EXIST.into()),
            Err(_) => fs::rename(from, to),
        };
    }
    let mut aside = from.as_os_str().to_owned();
    aside.push(".old");
    let aside = PathBuf::from(aside);
    fs::rename(to, &aside)?;
    if let Err(error) = fs::rename(from, to) {
        fs::rename(&aside, to)?;
        return Err(error);
    }
    fs::rename(&aside, from)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Way = fn(&Path, &Path, bool) -> io::Result<()>;

    fn names(folder: &Path) -> (Vec<u8>, Vec<u8>) {
        let read = |name: &str| fs::read(folder.join(name).join("is")).unwrap();
        (read("a"), read("b"))
    }

    #[test]
    fn two_folders_exchange_names_without_loss() {
        let room = tempfile::tempdir().unwrap();
        let (a, b) = (room.path().join("a"), room.path().join("b"));
        for path in [&a, &b] {
            fs::create_dir(path).unwrap();
            fs::write(path.join("is"), path.file_name().unwrap().as_encoded_bytes()).unwrap();
        }
        for way in [rename as Way, rename_in_steps] {
            assert_eq!(way(&a, &b, false).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
            let (of_a, of_b) = names(room.path());
            way(&a, &b, true).unwrap();
            assert_eq!(names(room.path()), (of_b, of_a));
            way(&a, &room.path().join("c"), false).unwrap();
            way(&room.path().join("c"), &a, false).unwrap();
            way(&room.path().join("c"), &a, true).unwrap_err();
            assert_eq!(names(room.path()), (b"b".to_vec(), b"a".to_vec()));
            way(&a, &b, true).unwrap();
        }
    }
}
