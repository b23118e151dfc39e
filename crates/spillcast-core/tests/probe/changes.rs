//! Replays of calls on files: each call is made, and reads still meet data.

use std::collections::BTreeMap;

use proptest::prelude::*;
use spillcast_core::capture::CallKind;
use spillcast_core::probe::{Probe, ProbeError, Step};
use spillcast_core::wait::Op;

use crate::{Mount, directories, entries, few_cases, options, run, step};

const MIB: u32 = 1 << 20;

fn change(thread: u32, kind: CallKind, file: u32, offset: u64) -> Step {
    Step { change: Some(kind), ..step(thread, Op::Null, file, offset, 0) }
}

#[test]
fn each_call_is_made_and_removed_data_is_rewritten_before_reads() {
    use CallKind::*;
    let steps = [
        change(0, Openat, 7, 0),
        step(0, Op::Write, 7, 0, MIB),
        change(0, Ftruncate, 7, 8192),
        // All but two blocks were truncated.
        step(0, Op::Read, 7, 0, MIB),
        change(0, Fallocate, 7, u64::from(MIB)),
        change(0, Fsync, 7, 0),
        change(0, Fdatasync, 7, 0),
        change(0, SyncFileRange, 7, 0),
        change(0, Stat, 7, 0),
        change(0, Newfstatat, 7, 0),
        change(0, Unlink, 7, 0),
        // The whole file was removed.
        step(0, Op::Read, 7, 0, MIB),
        change(0, Unlinkat, 9, 0),
        change(0, Ftruncate, 9, 0),
    ];
    for dir in directories() {
        let outcome = run(&steps, options(dir.path()));
        let counts: BTreeMap<&str, u64> =
            outcome.changes.iter().map(|(&name, histogram)| (name, histogram.count())).collect();
        let mut expected: BTreeMap<&str, u64> = BTreeMap::new();
        for kind in steps.iter().filter_map(|step| step.change) {
            *expected.entry(kind.name()).or_default() += 1;
        }
        assert_eq!(counts, expected);
        assert_eq!(outcome.prefilled_bytes, 2 * u64::from(MIB) - 8192);
        // Reads and writes are counted as without the changes.
        assert_eq!((outcome.steps_replayed, outcome.steps_skipped), (3, 0));
        assert_eq!(entries(dir.path()), 0);
    }
}

#[test]
fn a_file_is_created_once_and_later_opened_for_reading() {
    use CallKind::*;
    let steps = [
        change(0, Openat, 7, 0),
        step(0, Op::Write, 7, 0, MIB),
        change(0, Openat, 7, 0),
        change(0, Openat, 7, 0),
        change(0, Unlink, 7, 0),
        change(0, Openat, 7, 0),
    ];
    let [dir, _] = directories();
    let path = std::ffi::CString::new(dir.path().to_str().unwrap()).unwrap();
    // SAFETY: the path and the buffer live as long as their calls.
    let watched = unsafe {
        let watch = libc::inotify_init1(libc::IN_NONBLOCK);
        assert!(libc::inotify_add_watch(watch, path.as_ptr(), libc::IN_CLOSE_NOWRITE) >= 0);
        let outcome = run(&steps, options(dir.path()));
        assert_eq!(outcome.changes["openat"].count(), 4);
        let mut events = [0u8; 4096];
        let bytes = libc::read(watch, events.as_mut_ptr().cast(), events.len());
        libc::close(watch);
        events[..bytes.max(0) as usize].to_vec()
    };
    let (mut at, mut read_only) = (0, 0);
    while at < watched.len() {
        let field = |from: usize| u32::from_ne_bytes(watched[from..from + 4].try_into().unwrap());
        // The directory itself is also opened and closed.
        read_only += usize::from(field(at + 4) & libc::IN_ISDIR == 0);
        at += 16 + field(at + 12) as usize;
    }
    assert_eq!(read_only, 2);
}

#[test]
fn an_allocation_takes_only_the_space_of_reads_and_writes() {
    // No file system here has room for all bytes before the write.
    let steps = [change(0, CallKind::Fallocate, 7, 0), step(0, Op::Write, 7, 15 << 40, MIB)];
    for dir in directories() {
        assert_eq!(run(&steps, options(dir.path())).changes["fallocate"].count(), 1);
    }
}

#[test]
fn neither_do_many_allocations() {
    let test = "neither_do_many_allocations";
    let Some(mount) = Mount::tmpfs(test, "size=80m") else { return };
    let mut steps = vec![step(0, Op::Write, 7, 1 << 30, MIB)];
    steps.extend((0..100).map(|at| change(0, CallKind::Fallocate, 7, at * u64::from(2 * MIB))));
    // Space released by a truncation may be allocated again.
    steps.push(change(0, CallKind::Ftruncate, 7, 0));
    steps.push(change(0, CallKind::Fallocate, 7, 0));
    let outcome = run(&steps, options(mount.dir.path()));
    assert_eq!(outcome.changes["fallocate"].count(), 101);
}

#[test]
fn an_invalid_call_is_refused() {
    let [dir, _] = directories();
    let refused = |bad: Step| {
        let steps = vec![step(0, Op::Write, 0, 0, 1), bad];
        let error = Probe::new(steps, options(dir.path())).err().unwrap();
        assert!(matches!(error, ProbeError::BadStep { step: 1, .. }), "{error}");
    };
    refused(change(0, CallKind::Close, 0, 0));
    refused(Step { change: Some(CallKind::Unlink), ..step(0, Op::Write, 0, 0, 1) });
    refused(change(0, CallKind::Ftruncate, 0, 1 << 60));
}

proptest! {
    #![proptest_config(few_cases())]

    /// Whatever threads do to each other's files, no read is short.
    #[test]
    fn threads_may_truncate_and_remove_files_that_others_read(
        places in prop::collection::vec(
            (0u32..4, 0u8..6, 0u32..2, 0u64..100, 1u32..70_000), 1..300,
        )
    ) {
        let steps: Vec<Step> = places
            .iter()
            .map(|&(thread, draw, file, block, bytes)| match draw {
                0 => change(thread, CallKind::Ftruncate, file, block * 8192),
                1 => change(thread, CallKind::Unlink, file, 0),
                2 | 3 => step(thread, Op::Read, file, block * 8192, bytes),
                _ => step(thread, Op::Write, file, block * 8192, bytes),
            })
            .chain([step(0, Op::Write, 0, 0, 1)])
            .collect();
        for dir in directories() {
            let outcome = run(&steps, options(dir.path()));
            let changes: u64 = outcome.changes.values().map(|histogram| histogram.count()).sum();
            let moved = steps.iter().filter(|step| step.op != Op::Null).count() as u64;
            prop_assert_eq!(outcome.steps_replayed, moved);
            prop_assert_eq!(changes, steps.len() as u64 - moved);
            prop_assert_eq!(entries(dir.path()), 0);
        }
    }
}
