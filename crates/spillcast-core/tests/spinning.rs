//! Threads that only poll for another's temp I/O wait for it; threads that compute beside it work.

use std::fs::{File, OpenOptions};
use std::hint::black_box;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use spillcast_core::capture::{CallKind, Capture, SOURCES, TempRules};
use spillcast_core::wait::{Op, Wait};

/// CPU time of a thread beside the spill: enough samples even on a busy machine.
const BURNED_NS: u64 = 250_000_000;
/// A capture observes all threads of this process, so tests run one at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn tid() -> i64 {
    rustix::thread::gettid().as_raw_nonzero().get().into()
}

/// CPU time that a thread of this process has used.
fn burned_ns(tid: i64) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/self/task/{tid}/schedstat"));
    text.ok().and_then(|text| text.split(' ').next()?.parse().ok()).unwrap_or(0)
}

/// Writes to the storage until the threads `busy` have burned enough, then sets `done`.
fn spill(file: &File, done: &AtomicBool, busy: &[AtomicI64]) -> i64 {
    while busy.iter().any(|tid| burned_ns(tid.load(Ordering::Relaxed)) < BURNED_NS) {
        file.write_all_at(&[7; 8192], 0).unwrap();
    }
    done.store(true, Ordering::Release);
    tid()
}

/// Polls a state with a locked instruction.
fn spin(done: &AtomicBool) {
    while done.compare_exchange(true, true, Ordering::AcqRel, Ordering::Acquire).is_err() {}
}

/// A loop within two cache lines of code that does work, and polls rarely.
fn compute(done: &AtomicBool) {
    let mut state = 1u64;
    while !done.load(Ordering::Acquire) {
        for _ in 0..1 << 16 {
            state = black_box(state ^ state << 13 ^ state >> 7);
        }
    }
}

/// The threads, rows with event names, and `spun_ns`.
type Observed = ([i64; 3], Vec<(String, Wait)>, u64);

/// The rows of a spilling thread, a thread that spins for it, and a thread that computes; None if
/// the source cannot be used or takes no samples.
fn observed(source: &str) -> Option<Observed> {
    let open = SOURCES.iter().find(|(name, _)| *name == source).unwrap().1;
    let capture_source = open(CallKind::ALL).ok()?;
    let folder = std::env::temp_dir().join(format!("spinning-{source}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("pgsql_tmp1.0");
    // Each write waits for the storage.
    let mut options = OpenOptions::new();
    options.create(true).truncate(true).read(true).write(true).custom_flags(libc::O_DSYNC);
    let file = options.open(&path).unwrap();
    let pid = std::process::id() as i32;
    let mut capture = Capture::start(capture_source, &[pid], TempRules::default()).unwrap();
    let done = AtomicBool::new(false);
    let busy = [AtomicI64::new(0), AtomicI64::new(0)];
    let then_read = |number: usize, busies: fn(&AtomicBool)| {
        busy[number].store(tid(), Ordering::Relaxed);
        file.read_at(&mut [0; 8], 0).unwrap();
        busies(&done);
        file.read_at(&mut [0; 8], 0).unwrap();
        tid()
    };
    let tids = thread::scope(|scope| {
        let spinner = scope.spawn(|| then_read(0, spin));
        let worker = scope.spawn(|| then_read(1, compute));
        let spiller = scope.spawn(|| spill(&file, &done, &busy));
        [spiller, spinner, worker].map(|thread| thread.join().unwrap())
    });
    capture.stop();
    std::fs::remove_dir_all(&folder).unwrap();
    let (batch, status) = (capture.take(), capture.status());
    let names = batch.waits.names.lock().unwrap();
    let event = |wait: &Wait| names.events.list()[wait.event as usize].clone();
    let rows = batch.waits.rows.iter().map(|wait| (event(&wait), wait)).collect();
    Some((tids, rows, status.spun_ns?))
}

fn check(source: &str) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(([spiller, spinner, worker], rows, spun_ns)) = observed(source) else {
        return eprintln!("skipped: {source} takes no samples here");
    };
    let spinning: Vec<_> = rows.iter().filter(|(event, _)| event == "spinning").collect();
    assert!(spinning.iter().all(|(_, wait)| wait.session == spinner), "{spinning:?}");
    assert!(spun_ns > BURNED_NS / 2, "{spun_ns} {spinning:?}");
    for (_, wait) in spinning {
        assert_eq!((wait.op, wait.woken_by, wait.blocked), (Op::Null, Some(spiller), Some(false)));
    }
    // CPU time before its last read is not counted twice.
    let last = |tid: i64| rows.iter().rfind(|(_, wait)| wait.session == tid).unwrap();
    let burned_ns = |tid: i64| last(tid).1.cpu_before_ns.unwrap() as u64;
    assert!(burned_ns(spinner) < burned_ns(worker) / 2, "{rows:?}");
}

#[test]
fn spinning_is_a_wait_under_ebpf() {
    check("bpf");
}

#[test]
fn spinning_is_a_wait_under_perf_events() {
    check("perf");
}
