//! The control groups of a process: their folders, in both versions of the kernel's interface.

use std::fs;
use std::path::{Path, PathBuf};

/// The folders of the groups that control a process, innermost first.
pub fn folders(pid: i32, controller: &str) -> Vec<PathBuf> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    folders_of(&text, controller, Path::new("/sys/fs/cgroup"))
}

fn folders_of(text: &str, controller: &str, cgroups: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for line in text.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let root = match controllers {
            "" => first_of([cgroups.join("unified"), cgroups.to_owned()]),
            several if several.split(',').any(|one| one == controller) => {
                first_of([cgroups.join(several), cgroups.join(controller)])
            }
            _ => continue,
        };
        let path = Path::new(path.trim_start_matches('/'));
        // The last one is empty, and the root.
        found.extend(path.ancestors().map(|part| root.join(part)));
    }
    found
}

fn first_of([one, other]: [PathBuf; 2]) -> PathBuf {
    if one.is_dir() { one } else { other }
}

/// The text of a small file; empty where it cannot be read.
pub fn text(path: PathBuf) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_read() {
        let root = Path::new("/no/such");
        let found = |text, controller| folders_of(text, controller, root);
        let both = ["/no/such/a/b", "/no/such/a", "/no/such/"].map(PathBuf::from);
        assert_eq!(found("0::/a/b\n", "memory"), both);
        let memory = ["/no/such/memory/x", "/no/such/memory/"].map(PathBuf::from);
        assert_eq!(found("4:cpu,cpuacct:/y\n3:memory:/x\n", "memory"), memory);
    }
}
