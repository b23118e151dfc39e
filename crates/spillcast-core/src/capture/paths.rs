//! Resolves the paths that programs give to the form of /proc/PID/fd: absolute, without links.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, StatxFlags, openat2, statx};

/// Limit of the remembered directories; when it is reached, all are forgotten.
const KNOWN_MAX: usize = 4_096;

/// Resolves paths, and remembers directories.
#[derive(Default)]
pub(crate) struct Paths {
    /// Absolute path as given -> path without links.
    known: HashMap<PathBuf, PathBuf>,
    /// Base directories of the paths of a process, by descriptor: for when the process has ended.
    begins: HashMap<(i32, i32), Begin>,
}

#[derive(Clone)]
struct Begin {
    folder: PathBuf,
    /// Whether it may have changed since it was looked up.
    stale: bool,
}

/// Stands for a descriptor: the base of absolute paths, which chroot changes.
const ROOT: i32 = -1;

impl Paths {
    /// Returns the absolute path of `path` as process `pid` gives it, relative to its directory
    /// `at` (see openat). None if the directory is gone and was never looked up, or was not looked
    /// up since the last exec and the path does not exist; also for a path through an open file.
    pub(crate) fn absolute(&mut self, pid: i32, at: i32, path: &str) -> Option<String> {
        let path = Path::new(path);
        if leads_through_process(path) {
            return None;
        }
        let path = if let Ok(inside) = path.strip_prefix("/") {
            let root = self.begin(pid, ROOT).filter(|root| root.folder != Path::new("/"));
            // The path may be older than the process's own root.
            let inside = root.map(|root| root.folder.join(inside)).filter(|path| path.exists());
            inside.unwrap_or_else(|| path.to_owned())
        } else {
            let begin = self.begin(pid, if at < 0 { libc::AT_FDCWD } else { at })?;
            let path = begin.folder.join(path);
            if begin.stale && !path.exists() {
                return None;
            }
            path
        };
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
            return Some(path.to_string_lossy().into_owned());
        };
        Some(self.without_links(directory).join(name).to_string_lossy().into_owned())
    }

    /// Looks up the base directories of a process that has executed a program.
    pub fn look(&mut self, pid: i32) {
        for at in [libc::AT_FDCWD, ROOT] {
            self.begins.entry((pid, at)).and_modify(|begin| begin.stale = true);
            self.begin(pid, at);
        }
    }

    /// Like [`Paths::look`], if nothing is known about the process yet.
    pub(crate) fn look_once(&mut self, pid: i32) {
        if !self.begins.contains_key(&(pid, libc::AT_FDCWD)) {
            self.look(pid);
        }
    }

    /// Like [`Paths::look`], for a process that was just started; if it has already ended, takes
    /// the directories of `parent`.
    pub(crate) fn started(&mut self, parent: i32, child: i32) {
        for at in [libc::AT_FDCWD, ROOT] {
            if self.begin(child, at).is_none()
                && let Some(begin) = self.begin(parent, at).cloned()
            {
                self.begins.insert((child, at), begin);
            }
        }
    }

    pub fn opened(&mut self, pid: i32, fd: i32, folder: &str) {
        self.begins.insert((pid, fd), Begin { folder: folder.into(), stale: false });
    }

    /// Forgets a process that has ended.
    pub(crate) fn forget(&mut self, pid: i32) {
        self.begins.retain(|key, _| key.0 != pid);
    }

    fn begin(&mut self, pid: i32, at: i32) -> Option<&Begin> {
        let link = match at {
            libc::AT_FDCWD => format!("/proc/{pid}/cwd"),
            ROOT => format!("/proc/{pid}/root"),
            fd => format!("/proc/{pid}/fd/{fd}"),
        };
        if let Ok(folder) = fs::read_link(link) {
            self.begins.insert((pid, at), Begin { folder, stale: false });
        }
        self.begins.get(&(pid, at))
    }

    fn without_links(&mut self, directory: &Path) -> PathBuf {
        if let Some(known) = self.known.get(directory) {
            return known.clone();
        }
        let Ok(real) = fs::canonicalize(directory) else { return directory.to_owned() };
        if self.known.len() == KNOWN_MAX {
            self.known.clear();
        }
        self.known.insert(directory.to_owned(), real.clone());
        real
    }
}

/// Whether an absolute path leads through the open files and folders of a process: in `/dev/fd`
/// and `/proc/self`, those of the process that gave the path are not ours.
fn leads_through_process(path: &Path) -> bool {
    let is_link = |part: &OsStr| ["fd", "cwd", "root"].iter().any(|link| part == *link);
    path.starts_with("/dev/fd") || (path.starts_with("/proc") && path.iter().any(is_link))
}

/// Whether an absolute path that process `pid` opened is that of a symbolic link. False if the
/// kernel would have to ask the file system, which may be the slow one that is observed, or hang;
/// and for this process, which would observe that it opens the link, and look at that again.
pub(crate) fn is_link(pid: i32, path: &str) -> bool {
    if pid == std::process::id() as i32 {
        return false;
    }
    let (flags, cached) = (OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, ResolveFlags::CACHED);
    openat2(CWD, path, flags, Mode::empty(), cached)
        .and_then(|link| {
            let known = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
            statx(link, c"", known, StatxFlags::TYPE)
        })
        .is_ok_and(|link| FileType::from_raw_mode(link.stx_mode.into()) == FileType::Symlink)
}
