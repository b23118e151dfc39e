//! Plans and directories that a replay cannot use, and storage that fills up during it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::slice;
use std::thread;

use spillcast_core::probe::{Probe, ProbeError, Step};
use spillcast_core::wait::Op;

use crate::{Mount, directories, entries, options, step};

#[test]
fn a_working_set_that_would_fill_the_file_system_is_refused() {
    let test = "a_working_set_that_would_fill_the_file_system_is_refused";
    let Some(mount) = Mount::tmpfs(test, "size=100m") else { return };
    let mib = |count: u64| -> Vec<Step> {
        (0..count).map(|i| step(0, Op::Write, 0, i << 20, 1 << 20)).collect()
    };
    let probe = |steps| Probe::new(steps, options(mount.dir.path()));
    // 64 of the 100 MiB stay free; neither overwriting nor a distant offset needs more room.
    probe(mib(36)).unwrap().run().unwrap();
    probe([mib(36), mib(36)].concat()).unwrap();
    probe(vec![step(0, Op::Write, 0, 1 << 40, 4096)]).unwrap().run().unwrap();
    let error = probe(mib(37)).err().unwrap();
    let (need, free) = (37u64 << 20, 100u64 << 20);
    match &error {
        ProbeError::TooSmall { need_bytes, free_bytes, filesystem, .. } => {
            assert_eq!((*need_bytes, *free_bytes, filesystem.as_str()), (need, free, "tmpfs"));
        }
        other => panic!("{other}"),
    }
    let text = error.to_string();
    for size in ["37 MiB", "64 MiB", "100 MiB"] {
        assert!(text.contains(size), "{text}");
    }
}

#[test]
fn a_file_system_that_fills_up_meanwhile_ends_the_replay() {
    let test = "a_file_system_that_fills_up_meanwhile_ends_the_replay";
    let Some(mount) = Mount::tmpfs(test, "size=100m") else { return };
    let dir = mount.dir.path();
    let steps: Vec<Step> =
        (0..32).map(|i| step(i % 4, Op::Write, i % 4, u64::from(i) << 20, 1 << 20)).collect();
    let probe = Probe::new(steps, options(dir)).unwrap();
    fs::write(dir.join("other"), vec![1; 90 << 20]).unwrap();
    let text = probe.run().unwrap_err().to_string();
    for part in ["step ", "write of 1048576 bytes", "tmpfs", "os error 28", dir.to_str().unwrap()] {
        assert!(text.contains(part), "no {part:?} in: {text}");
    }
    assert_eq!(entries(dir), 1);
    fs::write(dir.join("other"), b"").unwrap();
    probe.run().unwrap();
}

#[test]
fn a_directory_that_may_not_be_written_is_refused() {
    let [dir, _] = directories();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o555)).unwrap();
    let refused = thread::scope(|scope| {
        let attempt = || {
            // SAFETY: the call takes no pointers. It changes only this thread's file access, from
            // root to nobody; without root the mode of the directory suffices.
            unsafe { libc::setfsuid(65534) };
            Probe::new(vec![step(0, Op::Write, 0, 0, 1)], options(dir.path())).err()
        };
        scope.spawn(attempt).join().unwrap()
    });
    assert!(matches!(refused, Some(ProbeError::NotWritable { .. })), "{refused:?}");
}

#[test]
fn a_read_only_file_system_is_refused() {
    let Some(mount) = Mount::tmpfs("a_read_only_file_system_is_refused", "ro") else { return };
    let plan = vec![step(0, Op::Write, 0, 0, 1)];
    let refused = Probe::new(plan, options(mount.dir.path())).err();
    assert!(matches!(refused, Some(ProbeError::NotWritable { .. })), "{refused:?}");
}

#[test]
fn invalid_plans_and_directories_are_refused() {
    let [dir, _] = directories();
    let refuse =
        |steps: &[Step], dir: &Path| Probe::new(steps.to_vec(), options(dir)).err().unwrap();
    let good = step(0, Op::Write, 0, 0, 1);
    assert!(matches!(refuse(&[], dir.path()), ProbeError::Empty));
    for bad in [
        step(0, Op::Null, 0, 0, 1),
        step(0, Op::Read, 0, 0, 0),
        step(0, Op::Read, 0, 0, u32::MAX),
        step(0, Op::Read, 0, u64::MAX, 1),
    ] {
        let refused = refuse(&[good.clone(), bad], dir.path());
        assert!(matches!(refused, ProbeError::BadStep { step: 1, .. }), "{refused}");
    }
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    for place in [file, dir.path().join("nothing")] {
        let refused = refuse(slice::from_ref(&good), &place);
        assert!(matches!(refused, ProbeError::NotADirectory { .. }), "{refused}");
    }
}

#[test]
fn a_directory_that_cannot_hold_files_is_refused() {
    let plan = vec![step(0, Op::Write, 0, 0, 1)];
    let refused = Probe::new(plan, options("/proc/self".as_ref())).err();
    assert!(matches!(refused, Some(ProbeError::NotWritable { .. })), "{refused:?}");
}
