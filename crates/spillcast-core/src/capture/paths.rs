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
    begins: HashMap<(i32, i32), PathBuf>,
}

impl Paths {
    /// The absolute path of what process `pid` calls `path`, relative to its directory `at` (as of
    /// openat); None where that is gone and was never seen.
    pub(crate) fn absolute(&mut self, pid: i32, at: i32, path: &str) -> Option<String> {
        let path = Path::new(path);
        let path =
            if path.is_absolute() { path.to_owned() } else { self.begin(pid, at)?.join(path) };
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
            return Some(path.to_string_lossy().into_owned());
        };
        Some(self.without_links(directory).join(name).to_string_lossy().into_owned())
    }

    /// Looks where the relative paths of a process begin.
    pub fn look(&mut self, pid: i32) {
        self.begin(pid, libc::AT_FDCWD);
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
        if self.begin(child, libc::AT_FDCWD).is_none()
            && let Some(folder) = self.begin(parent, libc::AT_FDCWD).map(Path::to_owned)
        {
            self.begins.insert((child, libc::AT_FDCWD), folder);
        }
    }

    pub fn opened(&mut self, pid: i32, fd: i32, folder: &str) {
        self.begins.insert((pid, fd), folder.into());
    }

    /// A process has ended.
    pub(crate) fn forget(&mut self, pid: i32) {
        self.begins.retain(|key, _| key.0 != pid);
    }

    fn begin(&mut self, pid: i32, at: i32) -> Option<&Path> {
        let at = if at < 0 { libc::AT_FDCWD } else { at };
        let link = match at {
            libc::AT_FDCWD => format!("/proc/{pid}/cwd"),
            fd => format!("/proc/{pid}/fd/{fd}"),
        };
        if let Ok(folder) = fs::read_link(link) {
            self.begins.insert((pid, at), folder);
        }
        self.begins.get(&(pid, at)).map(PathBuf::as_path)
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
