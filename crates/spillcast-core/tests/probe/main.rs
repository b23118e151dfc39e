//! Replays and grids on real directories: what they measure, what they leave, what they refuse.

mod changes;
mod grid;
mod refused;
mod replay;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use proptest::prelude::ProptestConfig;
use spillcast_core::probe::{Group, Options, Outcome, Probe, Step};
use spillcast_core::wait::Op;
use tempfile::TempDir;

fn step(thread: u32, op: Op, file: u32, offset: u64, bytes: u32) -> Step {
    Step { thread, op, file, offset, bytes, ..Step::default() }
}

/// A budget that no test comes near.
fn options(dir: &Path) -> Options {
    let dir = dir.to_owned();
    Options { dir, budget: Duration::from_secs(600), budget_bytes: None, direct: false }
}

fn run(steps: &[Step], options: Options) -> Outcome {
    Probe::new(steps.to_vec(), options).unwrap().run().unwrap()
}

/// Few, because each replays its steps on two file systems.
fn few_cases() -> ProptestConfig {
    ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() }
}

/// The blocks of a group are the group.
fn check_blocks(group: &Group) {
    let blocks = group.block_means_ns.iter();
    let (count, total_ns) =
        blocks.fold((0, 0.0), |sum, &(count, mean)| (sum.0 + count, sum.1 + count as f64 * mean));
    assert_eq!(count, group.histogram.count());
    assert!((total_ns - group.histogram.total_ns() as f64).abs() < 1.0);
}

/// A directory on tmpfs and one on the file system of the build.
fn directories() -> [TempDir; 2] {
    let built = env!("CARGO_TARGET_TMPDIR");
    ["/dev/shm", built].map(|parent| TempDir::new_in(parent).unwrap())
}

fn entries(dir: &Path) -> usize {
    fs::read_dir(dir).unwrap().count()
}

/// A separate tmpfs, unmounted at the end.
struct Mount {
    dir: TempDir,
}

impl Mount {
    /// None if mounting is not allowed, which is printed with the name of the test.
    fn tmpfs(test: &str, mount_options: &str) -> Option<Mount> {
        let dir = TempDir::new().unwrap();
        let mounted = rustix::process::geteuid().is_root()
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
