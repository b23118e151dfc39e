//! Grids on real directories: their measurements, their leftovers, and refusals.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use spillcast_core::probe::grid::{Cell, Grid, Options, Outcome, cells, measure_file};
use spillcast_core::probe::{Access, Pattern, ProbeError};
use spillcast_core::wait::Op;

use crate::{Mount, check_blocks, directories, entries};

const ROOM_BYTES: u64 = 96 << 20;

fn options(dir: &Path, budget_ms: u64) -> Options {
    let budget = Duration::from_millis(budget_ms);
    Options { budget, budget_bytes: Some(ROOM_BYTES), dir: dir.to_owned(), psync: false }
}

fn run(options: Options) -> Outcome {
    Grid::new(options).unwrap().run().unwrap()
}

fn check(outcome: &Outcome) {
    let mut seen = HashSet::new();
    for group in &outcome.groups {
        let kind = (group.op, group.size_class_bytes, group.depth, group.pattern, group.access);
        assert!(seen.insert(kind), "{kind:?} twice");
        assert!(cells().iter().any(|cell| {
            kind == (cell.op, cell.bytes.into(), cell.depth, cell.pattern, cell.access)
        }));
        assert!(group.histogram.count() > 0);
        assert_eq!(group.bytes, group.histogram.count() * group.size_class_bytes);
        assert!(group.elapsed_ns.unwrap() > 0);
        assert!(group.block_means_ns.len() <= outcome.rounds as usize);
        check_blocks(group);
    }
    let left_out = outcome.cells_without_time + outcome.cells_without_room;
    assert_eq!(outcome.groups.len() as u64 + left_out, outcome.cells);
    let direct = if outcome.direct_refusal.is_none() { 2 } else { 1 };
    assert_eq!(outcome.cells, 144 * direct);
    assert!(outcome.file_bytes <= ROOM_BYTES);
    if let Some(sustained) = &outcome.sustained {
        assert!(sustained.bytes > 0 && sustained.bytes <= ROOM_BYTES);
        assert!(sustained.burst_bytes_per_s > 0.0);
    }
}

#[test]
fn every_cell_is_measured_by_either_engine() {
    for dir in directories() {
        for psync in [false, true] {
            // On a busy machine a cell may get no time; it is then counted.
            let outcome = run(Options { psync, ..options(dir.path(), 6_000) });
            check(&outcome);
            assert!(outcome.cells_without_time < 48, "{}", outcome.cells_without_time);
            assert_eq!(outcome.cells_without_room, 0);
            assert!(outcome.sustained.is_some());
            if psync {
                assert!(outcome.io_uring_refusal.is_some());
            }
            assert_eq!(entries(dir.path()), 0);
        }
    }
}

/// Makes the kernel refuse io_uring_enter, and no other system call, to this thread.
fn refuse_io_uring_enter() {
    let step = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let denied = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let number = libc::SYS_io_uring_enter as u32;
    let mut steps = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        libc::sock_filter { jf: 1, ..step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, number) },
        step(libc::BPF_RET | libc::BPF_K, denied),
        step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: the kernel copies the program, which lives until the call returns.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program), 0);
    }
}

#[test]
fn threads_replace_a_ring_that_can_be_created_but_not_entered() {
    let [dir, _] = directories();
    let outcome = thread::scope(|scope| {
        let refused = || {
            refuse_io_uring_enter();
            run(options(dir.path(), 1_000))
        };
        scope.spawn(refused).join().unwrap()
    });
    check(&outcome);
    assert!(outcome.io_uring_refusal.is_some() && !outcome.registered_buffers);
}

#[test]
fn cells_without_room_are_counted() {
    let [dir, _] = directories();
    let small = Options { budget_bytes: Some(8 << 20), ..options(dir.path(), 2_000) };
    let outcome = Grid::new(small).unwrap().run().unwrap();
    assert_eq!(outcome.file_bytes, 8 << 20);
    // 1 MiB at depths 16 and 32: two ops, two patterns, one or two accesses.
    let direct = if outcome.direct_refusal.is_none() { 2 } else { 1 };
    assert_eq!(outcome.cells_without_room, 8 * direct);
}

#[test]
fn a_budget_without_any_time_or_room_is_refused() {
    let [dir, _] = directories();
    let brief = Grid::new(options(dir.path(), 0)).unwrap();
    assert!(matches!(brief.run(), Err(ProbeError::NoTime { .. })));
    assert_eq!(entries(dir.path()), 0);
    let tiny = Options { budget_bytes: Some(1 << 20), ..options(dir.path(), 1_000) };
    assert!(matches!(Grid::new(tiny), Err(ProbeError::BudgetTooSmall { .. })));
    let nowhere = options(&dir.path().join("nowhere"), 1_000);
    assert!(matches!(Grid::new(nowhere), Err(ProbeError::NotADirectory { .. })));
}

#[test]
fn cancel_ends_a_grid_and_no_file_is_ever_listed() {
    for dir in directories() {
        let grid = Grid::new(options(dir.path(), 3_600_000)).unwrap();
        thread::scope(|scope| {
            let running = scope.spawn(|| grid.run());
            while grid.progress().bytes == 0 {
                thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(entries(dir.path()), 0);
            grid.cancel();
            assert!(matches!(running.join().unwrap(), Err(ProbeError::Cancelled)));
        });
        assert!(matches!(grid.run(), Err(ProbeError::Cancelled)));
    }
}

#[test]
fn a_file_system_that_fills_up_meanwhile_ends_it() {
    let test = "a_file_system_that_fills_up_meanwhile_ends_it";
    let Some(mount) = Mount::tmpfs(test, "size=100m") else { return };
    let dir = mount.dir.path();
    let grid = Grid::new(Options { budget_bytes: None, ..options(dir, 1_000) }).unwrap();
    fs::write(dir.join("other"), vec![1; 90 << 20]).unwrap();
    let text = grid.run().unwrap_err().to_string();
    assert!(text.contains("tmpfs") && text.contains("os error 28"), "{text}");
    assert_eq!(entries(dir), 1);
    fs::write(dir.join("other"), b"").unwrap();
    // With room it continues as far as a busy machine leaves it time.
    assert!(matches!(grid.run(), Ok(_) | Err(ProbeError::NoTime { .. })));
}

#[test]
fn a_cell_reaches_the_whole_file_and_overwrites_nothing_else() {
    let [dir, _] = directories();
    let path = dir.path().join("file");
    // The last block is incomplete, so no operation may use it.
    fs::write(&path, vec![0; (1 << 20) + 100]).unwrap();
    let file = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    for (op, pattern) in [(Op::Read, Pattern::Sequential), (Op::Write, Pattern::Random)] {
        let cell = Cell { op, bytes: 8192, depth: 4, pattern, access: Access::Buffered };
        let (group, refusal) = measure_file(&file, cell, Duration::from_millis(100), true).unwrap();
        assert!(refusal.is_some());
        assert_eq!((group.op, group.depth, group.pattern), (op, 4, pattern));
    }
    let after = fs::read(&path).unwrap();
    assert_eq!(after.len(), (1 << 20) + 100);
    assert_eq!(after[1 << 20..], [0; 100]);
    let untouched = after[..1 << 20].chunks(4096).filter(|block| block.iter().all(|&b| b == 0));
    assert_eq!(untouched.count(), 0);
}
