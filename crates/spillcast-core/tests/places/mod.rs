//! Directories that tests probe.
#![allow(dead_code, reason = "each test binary uses some of it")]

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// A directory on tmpfs and one on the file system of the build.
pub fn directories() -> [TempDir; 2] {
    let built = env!("CARGO_TARGET_TMPDIR");
    ["/dev/shm", built].map(|parent| TempDir::new_in(parent).unwrap())
}

pub fn entries(dir: &Path) -> usize {
    fs::read_dir(dir).unwrap().count()
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A separate tmpfs, unmounted at the end.
pub struct Mount {
    pub dir: TempDir,
}

impl Mount {
    /// None if mounting is not allowed, which is printed with the name of the test.
    pub fn tmpfs(test: &str, mount_options: &str) -> Option<Mount> {
        let dir = TempDir::new().unwrap();
        let mounted = is_root()
            && Command::new("mount")
                .args(["-t", "tmpfs", "-o", mount_options, "tmpfs"])
                .arg(dir.path())
                .status()
                .is_ok_and(|status| status.success());
        if !mounted {
            eprintln!("SKIPPED {test}: mounting a tmpfs takes root and CAP_SYS_ADMIN");
            return None;
        }
        Some(Mount { dir })
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.dir.path()).status();
    }
}
