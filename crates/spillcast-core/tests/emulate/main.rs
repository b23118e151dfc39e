//! Emulated storage on real mounts: the same bytes as in a plain directory, at the given speed.

mod files;
mod life;
mod pace;

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use spillcast_core::emulate::Emulation;
use spillcast_core::storage::Model;
use tempfile::TempDir;

/// A mount in a directory of its own, which shows `backing` at `mountpoint`.
struct Mounted {
    emulation: Emulation,
    backing: PathBuf,
    mountpoint: PathBuf,
    _directory: TempDir,
}

/// None if this machine cannot mount, which is printed.
fn mounted(model: Model) -> Option<Mounted> {
    mounted_with(model, false)
}

/// The same, with or without the page cache in front of the storage.
fn mounted_with(model: Model, page_cache: bool) -> Option<Mounted> {
    if !can_mount() {
        eprintln!("SKIPPED: /dev/fuse, or the right to mount or fusermount3, is missing");
        return None;
    }
    let directory = tempfile::tempdir().unwrap();
    let [backing, mountpoint] = ["backing", "mountpoint"].map(|name| directory.path().join(name));
    fs::create_dir(&backing).unwrap();
    fs::create_dir(&mountpoint).unwrap();
    let emulation = Emulation::mount(&backing, &mountpoint, model, page_cache).unwrap();
    Some(Mounted { emulation, backing, mountpoint, _directory: directory })
}

fn can_mount() -> bool {
    const CAP_SYS_ADMIN: u32 = 21;
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    let capabilities = u64::from_str_radix(capabilities.trim(), 16).unwrap();
    let helper = Command::new("fusermount3").arg("-V").stdout(Stdio::null()).status().is_ok();
    OpenOptions::new().read(true).write(true).open("/dev/fuse").is_ok()
        && (capabilities >> CAP_SYS_ADMIN & 1 == 1 || helper)
}

fn read_write(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap()
}

fn is_mounted(path: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    mounts.lines().any(|line| line.split(' ').nth(1) == path.to_str())
}

fn list(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
