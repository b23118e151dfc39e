//! The control groups of a process: their folders, in cgroup versions 1 and 2.

use std::fs;
use std::path::{Path, PathBuf};

pub const CGROUPS: &str = "/sys/fs/cgroup";

/// The folders of the groups below `cgroups` that control a process, innermost first.
///
/// Version 2 has one hierarchy for all controllers, version 1 one for each. In a container the root
/// may be the process's own group.
pub fn folders(pid: i32, controller: &str, cgroups: &Path) -> Vec<PathBuf> {
    folders_of(&text(format!("/proc/{pid}/cgroup")), controller, cgroups)
}

fn folders_of(text: &str, controller: &str, cgroups: &Path) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for line in text.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let root = match controllers {
            "" => first_of([cgroups.join("unified"), cgroups.to_owned()]),
            several if several.split(',').any(|name| name == controller) => {
                first_of([cgroups.join(several), cgroups.join(controller)])
            }
            _ => continue,
        };
        let path = Path::new(path.trim_start_matches('/'));
        // The last ancestor is the empty path, which gives the root.
        folders.extend(path.ancestors().map(|part| root.join(part)));
    }
    folders
}

fn first_of([path, other]: [PathBuf; 2]) -> PathBuf {
    if path.is_dir() { path } else { other }
}

/// The text of a small file; empty if it cannot be read.
pub fn text(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_both_versions_are_listed() {
        let root = Path::new("/no/such");
        let folders = |text, controller| folders_of(text, controller, root);
        let both = ["/no/such/a/b", "/no/such/a", "/no/such/"].map(PathBuf::from);
        assert_eq!(folders("0::/a/b\n", "memory"), both);
        let memory = ["/no/such/memory/x", "/no/such/memory/"].map(PathBuf::from);
        assert_eq!(folders("4:cpu,cpuacct:/y\n3:memory:/x\n", "memory"), memory);
    }
}
