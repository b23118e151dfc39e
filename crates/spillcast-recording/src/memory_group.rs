//! Creates memory cgroups whose limit bounds the page cache; moves this process in for a time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use crate::cgroups::{CGROUPS, folders};
use crate::failure::reason;

const PREFIX: &str = "spillcast-probe-";
/// The file with the limit of a group, in each version of cgroups.
const LIMITS: [&str; 2] = ["memory.max", "memory.limit_in_bytes"];
const TRIES: u32 = 50;

/// This process is in the group; dropping it returns to the original group and removes this one.
pub struct MemoryGroup {
    folder: PathBuf,
    original: PathBuf,
}

impl MemoryGroup {
    /// Joins a new group with a limit; the error tells why that failed.
    pub fn join(limit_bytes: u64) -> Result<MemoryGroup, String> {
        let folder = make(limit_bytes)?;
        let original = memory_folders().swap_remove(0);
        let group = MemoryGroup { folder, original };
        enter(&group.folder)
            .map_err(|why| format!("{} cannot be joined: {why}", group.folder.display()))?;
        Ok(group)
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let _ = enter(&self.original);
        // A process that has just left may still be counted.
        for _ in 0..TRIES {
            if fs::remove_dir(&self.folder).is_ok() {
                break;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A new, empty group with a limit, below the innermost group of this process that allows one; the
/// error tells why none does.
pub fn make(limit_bytes: u64) -> Result<PathBuf, String> {
    let mut refusal = None;
    for parent in memory_folders() {
        remove_stale(&parent);
        match made(&parent, limit_bytes) {
            Ok(folder) => return Ok(folder),
            Err(why) => drop(refusal.get_or_insert(format!("{}: {why}", parent.display()))),
        }
    }
    Err(refusal.unwrap_or_else(|| "there are no memory cgroups here".to_owned()))
}

fn memory_folders() -> Vec<PathBuf> {
    folders(process::id() as i32, "memory", Path::new(CGROUPS))
}

fn made(parent: &Path, limit_bytes: u64) -> Result<PathBuf, String> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let folder = parent.join(format!("{PREFIX}{number}-{}", process::id()));
    fs::create_dir(&folder).map_err(|error| reason(&error))?;
    let limit = LIMITS.iter().map(|name| folder.join(name)).find(|path| path.exists());
    let done = match limit {
        Some(path) => fs::write(path, limit_bytes.to_string()).map_err(|error| reason(&error)),
        None => Err("it controls no memory".to_owned()),
    };
    match done {
        Ok(()) => Ok(folder),
        Err(why) => {
            let _ = fs::remove_dir(&folder);
            Err(why)
        }
    }
}

fn enter(folder: &Path) -> Result<(), String> {
    let id = process::id().to_string();
    fs::write(folder.join("cgroup.procs"), id).map_err(|error| reason(&error))
}

/// Removes the groups of probes that were killed.
fn remove_stale(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name.strip_prefix(PREFIX).and_then(|rest| rest.rsplit_once('-'));
        if owner.is_some_and(|(_, pid)| !Path::new("/proc").join(pid).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}
