//! CPU limits of a process: a process bound to a CPU, and artificial groups of both versions.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, id};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity};
use spillcast_recording::limits::{CpuLimits, CpuWatch};

/// CPUs that this process may run on.
fn own_cpus() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap();
    (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
}

/// The folder of this process's group of a controller below `root`, in version 2 with an empty
/// controller; None if this kernel has none.
fn own_group(root: &Path, controller: &str) -> Option<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap();
    let mut lines = groups.lines().map(|line| line.splitn(3, ':').collect::<Vec<_>>());
    let line = lines.find(|line| line[1] == controller)?;
    Some(root.join(controller).join(line[2].trim_start_matches('/')))
}

fn write(group: &Path, files: &[(&str, &str)]) {
    fs::create_dir_all(group).unwrap();
    files.iter().for_each(|(name, text)| fs::write(group.join(name), text).unwrap());
}

fn watch(root: &Path) -> CpuWatch {
    CpuWatch::new(id() as i32, root)
}

#[test]
fn a_process_bound_to_a_cpu_may_run_on_one() {
    let root = tempfile::tempdir().unwrap();
    let cpu = own_cpus()[0].to_string();
    let mut bound = Command::new("taskset").args(["-c", &cpu, "sleep", "60"]).spawn().unwrap();
    let mut watch = CpuWatch::new(bound.id() as i32, root.path());
    let limit = Instant::now() + Duration::from_secs(30);
    while watch.limits.cpus != Some(1) && Instant::now() < limit {
        watch.look();
    }
    bound.kill().unwrap();
    bound.wait().unwrap();
    watch.look();
    assert_eq!(watch.limits, CpuLimits { cpus: Some(1), ..CpuLimits::default() });
}

#[test]
fn limits_of_version_1_are_found() {
    let root = tempfile::tempdir().unwrap();
    let Some(group) = own_group(root.path(), "cpu") else {
        eprintln!("SKIPPED limits_of_version_1_are_found: this kernel has no cgroup of cpu");
        return;
    };
    let stat = "nr_periods 9\nnr_throttled 3\nthrottled_time 2000000000\n";
    let (quota, period) = ("cpu.cfs_quota_us", "cpu.cfs_period_us");
    write(&group, &[(quota, "50000\n"), (period, "100000\n"), ("cpu.stat", stat)]);
    let mut limited = watch(root.path());
    assert_eq!(limited.limits.quota_cpus, Some(0.5));
    let stat = "nr_periods 9\nnr_throttled 8\nthrottled_time 3500000000\n";
    write(&group, &[("cpu.stat", stat)]);
    limited.look();
    let CpuLimits { throttled_s, throttled_periods, .. } = limited.limits;
    assert_eq!((throttled_s, throttled_periods), (Some(1.5), Some(5)));
    write(&group, &[(quota, "-1\n")]);
    assert_eq!(watch(root.path()).limits.quota_cpus, None);
}

#[test]
fn limits_of_version_2_are_found() {
    let root = tempfile::tempdir().unwrap();
    let Some(group) = own_group(root.path(), "") else {
        eprintln!("SKIPPED limits_of_version_2_are_found: this kernel has no cgroup of version 2");
        return;
    };
    let stat = "usage_usec 7\nnr_throttled 2\nthrottled_usec 500000\n";
    write(&group, &[("cpu.max", "150000 100000\n"), ("cpu.stat", stat)]);
    let mut limited = watch(root.path());
    let first = CpuLimits {
        cpus: Some(own_cpus().len()),
        quota_cpus: Some(1.5),
        period_s: Some(0.1),
        throttled_s: Some(0.0),
        throttled_periods: Some(0),
    };
    assert_eq!(limited.limits, first);
    write(&group, &[("cpu.stat", "usage_usec 7\nnr_throttled 4\nthrottled_usec 750000\n")]);
    limited.look();
    let after = CpuLimits { throttled_s: Some(0.25), throttled_periods: Some(2), ..first };
    assert_eq!(limited.limits, after);
    write(&group, &[("cpu.max", "max 100000\n")]);
    assert_eq!(watch(root.path()).limits.quota_cpus, None);
}
