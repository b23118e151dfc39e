//! Paths as programs give them -> as /proc shows those of descriptors: absolute, without links.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Directories that are remembered; beyond it all are forgotten.
const KNOWN_MAX: usize = 4_096;

/// Resolves paths, and remembers directories.
#[derive(Default)]
pub(crate) struct Paths {
    /// As given, absolute -> without links.
    known: HashMap<PathBuf, PathBuf>,
    /// Folders that paths of a process began in, by descriptor: for when the process has ended.
    begins: HashMap<(i32, i32), Begin>,
}

#[derive(Clone)]
struct Begin {
    folder: PathBuf,
    /// It may have changed since it was looked at.
    stale: bool,
}

/// In place of a descriptor: the folder that absolute paths begin in, as chroot sets it.
const ROOT: i32 = -1;

impl Paths {
    /// The absolute path of what process `pid` calls `path`, relative to its directory `at` (as of
    /// openat); None where that is gone and was never seen, or not since a program was started and
    /// nothing is there.
    pub(crate) fn absolute(&mut self, pid: i32, at: i32, path: &str) -> Option<String> {
        let path = Path::new(path);
        let path = if let Ok(inside) = path.strip_prefix("/") {
            let root = self.begin(pid, ROOT).filter(|root| root.folder != Path::new("/"));
            // It may have been given before the process got a root of its own.
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

    /// Looks where the paths of a process begin, which has started a program.
    pub fn look(&mut self, pid: i32) {
        for at in [libc::AT_FDCWD, ROOT] {
            self.begins.entry((pid, at)).and_modify(|begin| begin.stale = true);
            self.begin(pid, at);
        }
    }

    /// As [`Paths::look`], where nothing is known of it yet.
    pub(crate) fn look_once(&mut self, pid: i32) {
        if !self.begins.contains_key(&(pid, libc::AT_FDCWD)) {
            self.look(pid);
        }
    }

    /// As [`Paths::look`], of a process that was just started: where `parent` is, if it has ended
    /// already.
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

    /// A process has ended.
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
