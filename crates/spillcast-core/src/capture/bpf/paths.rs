//! Paths as programs give them -> as /proc shows those of descriptors: absolute, without links.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Directories that are remembered; beyond it all are forgotten.
const KNOWN_MAX: usize = 4_096;

/// Resolves paths, and remembers directories.
#[derive(Default)]
pub struct Paths {
    /// As given, absolute -> without links.
    known: HashMap<PathBuf, PathBuf>,
}

impl Paths {
    /// The absolute path of what process `pid` calls `path`, relative to its directory `at` (as of
    /// openat); None where that is gone.
    pub fn absolute(&mut self, pid: i32, at: i32, path: &str) -> Option<String> {
        let base = || match at {
            libc::AT_FDCWD | -1 => fs::read_link(format!("/proc/{pid}/cwd")),
            fd => fs::read_link(format!("/proc/{pid}/fd/{fd}")),
        };
        let path = Path::new(path);
        let path = if path.is_absolute() { path.to_owned() } else { base().ok()?.join(path) };
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
            return Some(path.to_string_lossy().into_owned());
        };
        Some(self.without_links(directory).join(name).to_string_lossy().into_owned())
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
