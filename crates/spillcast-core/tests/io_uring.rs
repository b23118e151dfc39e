//! Real io_uring requests, observed by the eBPF programs: exactly one row for each.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use io_uring::{IoUring, opcode, squeue, types};
use spillcast_core::capture::{Batch, CallKind, Capture, SOURCES, Status, TempRules};
use spillcast_core::wait::{Op, Wait};

/// Each test observes the whole process, so tests run one at a time.
static OBSERVED: Mutex<()> = Mutex::new(());
const BLOCK: u32 = 8192;
const ALL: &[CallKind] = CallKind::ALL;
/// Whether the file is registered with the ring, and its descriptor closed.
const REGISTERED: bool = true;

/// A requested operation: operation, offset, bytes.
type Operation = (Op, i64, i64);

/// The requests of one thread on one file.
struct Work {
    ring: IoUring,
    /// None if it is registered with the ring, and closed.
    file: Option<File>,
    buffers: Vec<Vec<u8>>,
    operations: Vec<Operation>,
}

impl Work {
    fn new(path: &Path, registered: bool) -> Work {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path).unwrap();
        let ring = IoUring::new(16).unwrap();
        if registered {
            ring.submitter().register_files(&[file.as_raw_fd()]).unwrap();
        }
        let buffers = vec![vec![7; 2 * BLOCK as usize]; 16];
        Work { ring, file: (!registered).then_some(file), buffers, operations: Vec::new() }
    }

    fn entry(&mut self, slot: usize, op: Op, offset: u64, bytes: u32) -> squeue::Entry {
        let buffer = self.buffers[slot].as_mut_ptr();
        let (fd, flags) = match &self.file {
            Some(file) => (types::Fd(file.as_raw_fd()), squeue::Flags::empty()),
            None => (types::Fd(0), squeue::Flags::FIXED_FILE),
        };
        let entry = match op {
            Op::Write => opcode::Write::new(fd, buffer, bytes).offset(offset).build(),
            _ => opcode::Read::new(fd, buffer, bytes).offset(offset).build(),
        };
        entry.flags(flags)
    }

    /// Submits all operations in one call, and waits for their completion.
    fn at_once(&mut self, operations: &[Operation]) {
        for (slot, &(op, offset, bytes)) in operations.iter().enumerate() {
            let entry = self.entry(slot, op, offset as u64, bytes as u32);
            // SAFETY: the buffer of the slot lives until all have completed, as awaited below.
            unsafe { self.ring.submission().push(&entry) }.unwrap();
        }
        self.ring.submit_and_wait(operations.len()).unwrap();
        let results: Vec<i32> = self.ring.completion().map(|done| done.result()).collect();
        assert_eq!(results.len(), operations.len());
        assert!(results.iter().all(|&result| result > 0), "{results:?}");
        self.operations.extend(operations);
    }
}

/// Observes this process while `work` uses a temp file of this name; None if that is impossible.
fn observed(
    calls: &[CallKind],
    name: &str,
    registered: bool,
    work: impl FnOnce(&mut Work) + Send + 'static,
) -> Option<(Vec<Wait>, Vec<Operation>, Batch, Status)> {
    let (_, open) = SOURCES.iter().find(|(source, _)| *source == "bpf")?;
    let source = match open(calls) {
        Ok(source) => source,
        Err(error) => {
            eprintln!("SKIPPED: no eBPF here: {error}");
            return None;
        }
    };
    let _serial = OBSERVED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().canonicalize().unwrap().join(name);
    let pid = std::process::id() as i32;
    let mut capture = Capture::start(source, &[pid], TempRules::default()).unwrap();
    let operations = std::thread::spawn({
        let path = path.clone();
        move || {
            let mut doing = Work::new(&path, registered);
            work(&mut doing);
            doing.operations
        }
    });
    let operations = operations.join().unwrap();
    capture.stop();
    let batch = capture.take();
    let names = batch.waits.names.lock().unwrap().clone();
    let file = names.files.list().iter().position(|known| Path::new(&**known) == path);
    let file = file.unwrap() as u32;
    let of_file = |wait: &Wait| wait.file == Some(file) && wait.op != Op::Null;
    let waits = batch.waits.rows.iter().filter(of_file).collect();
    Some((waits, operations, batch, capture.status()))
}

/// Checks that each requested operation has one row, in any order.
fn check_rows(waits: &[Wait], operations: &[Operation], batch: &Batch) {
    let order = |rows: Vec<Operation>| {
        let mut rows = rows;
        rows.sort();
        rows
    };
    let observed_operations =
        waits.iter().map(|wait| (wait.op, wait.offset.unwrap(), wait.bytes.unwrap()));
    assert_eq!(order(observed_operations.collect()), order(operations.to_vec()));
    for wait in waits {
        let event = if wait.op == Op::Read { "io_uring_read" } else { "io_uring_write" };
        assert_eq!(event_of(batch, wait), event);
        assert!(wait.temp, "{wait:?}");
        assert_eq!(wait.session, waits[0].session);
    }
}

fn event_of(batch: &Batch, wait: &Wait) -> String {
    batch.waits.names.lock().unwrap().events.list()[wait.event as usize].to_string()
}

fn blocks(op: Op, count: i64) -> Vec<Operation> {
    // Each size is different, and the offsets are not in order.
    let block = i64::from(BLOCK);
    (0..count).map(|n| (op, (n * 37 % count) * 2 * block, block + n)).collect()
}

/// Checks that no rows of the thread overlap, so its time is counted once.
fn check_apart(batch: &Batch, session: i64) {
    let rows = batch.waits.rows.iter();
    let mut of_session: Vec<Wait> = rows.filter(|wait| wait.session == session).collect();
    of_session.sort_by_key(|wait| wait.start_ns);
    for pair in of_session.windows(2) {
        assert!(pair[0].start_ns + pair[0].elapsed_ns <= pair[1].start_ns, "{pair:?}");
    }
}

fn one_at_a_time(name: &str, registered: bool) {
    let Some((waits, operations, batch, status)) = observed(ALL, name, registered, |work| {
        for operation in blocks(Op::Write, 100) {
            work.at_once(&[operation]);
        }
        for operation in blocks(Op::Read, 100) {
            work.at_once(&[operation]);
        }
    }) else {
        return;
    };
    check_rows(&waits, &operations, &batch);
    assert!(waits.iter().all(|wait| wait.blocked.is_some() && wait.cpu_before_ns.is_some()));
    check_apart(&batch, waits[0].session);
    assert_eq!(status.counts.io_uring_depth, 1);
    // Nothing ran between submission and completion, which are in one call.
    assert_eq!(status.counts.io_uring_busy_ns, 0);
    assert_eq!((status.observed.lost, status.io_uring), (0, false));
}

#[test]
fn a_single_request_is_recorded_like_a_call() {
    one_at_a_time("duckdb_temp_one", !REGISTERED);
}

#[test]
fn a_registered_file_is_identified_by_its_inode() {
    one_at_a_time("duckdb_temp_registered", REGISTERED);
}

#[test]
fn eight_concurrent_requests_are_separate_rows() {
    for registered in [REGISTERED, !REGISTERED] {
        let Some((waits, operations, batch, status)) =
            observed(ALL, "duckdb_temp_eight", registered, |work| {
                for op in [Op::Write, Op::Read] {
                    blocks(op, 104).chunks(8).for_each(|eight| work.at_once(eight));
                }
            })
        else {
            return;
        };
        check_rows(&waits, &operations, &batch);
        let alone = |wait: &&Wait| wait.blocked.is_some() || wait.cpu_before_ns.is_some();
        // The kernel may complete seven before it starts the eighth, which is then like a call.
        assert!(waits.iter().filter(alone).count() <= waits.len() / 10, "{waits:?}");
        assert_eq!(status.counts.io_uring_depth, 8);
        assert_eq!(status.observed.lost, 0);
    }
}

#[test]
fn a_request_without_an_offset_uses_the_position_of_the_file() {
    let Some((waits, _, _, _)) = observed(ALL, "duckdb_temp_position", !REGISTERED, |work| {
        for _ in 0..5 {
            work.at_once(&[(Op::Write, -1, BLOCK.into())]);
        }
    }) else {
        return;
    };
    let offsets: Vec<i64> = waits.iter().map(|wait| wait.offset.unwrap()).collect();
    assert_eq!(offsets, [0, 1, 2, 3, 4].map(|n| n * i64::from(BLOCK)));
}

#[test]
fn copies_by_a_ring_are_reported_as_unseen() {
    let Some((_, _, _, status)) = observed(ALL, "duckdb_temp_copied", !REGISTERED, |work| {
        work.at_once(&[(Op::Write, 0, BLOCK.into())]);
        let (_near, far) = std::io::pipe().unwrap();
        let [from, to] = [work.file.as_ref().unwrap().as_raw_fd(), far.as_raw_fd()].map(types::Fd);
        let entry = opcode::Splice::new(from, 0, to, -1, BLOCK).build();
        // SAFETY: the request refers to no memory.
        unsafe { work.ring.submission().push(&entry) }.unwrap();
        work.ring.submit_and_wait(1).unwrap();
        assert_eq!(work.ring.completion().next().unwrap().result(), BLOCK as i32);
    }) else {
        return;
    };
    assert!(!status.observed.sees_io_uring);
}

#[test]
fn requests_are_not_rows_if_calls_are_named() {
    let calls = [CallKind::Pwrite64, CallKind::Openat];
    let observed = observed(&calls, "duckdb_temp_called", !REGISTERED, |work| {
        work.file.as_ref().unwrap().write_all_at(&[7; 100], 0).unwrap();
        work.at_once(&[(Op::Write, 0, BLOCK.into())]);
    });
    let Some((waits, _, batch, _)) = observed else { return };
    let events = waits.iter().map(|wait| event_of(&batch, wait));
    assert_eq!(events.collect::<Vec<_>>(), ["pwrite64"]);
}

#[test]
fn cpu_time_with_requests_in_flight_is_reported() {
    // On a busy machine the kernel's thread may take the core of the working thread.
    let seen = (0..5).any(|_| busy_ns().is_none_or(|busy_ns| busy_ns > 0));
    assert!(seen, "no work in five runs");
}

/// CPU time of a thread with requests in flight; None if nothing can be observed.
fn busy_ns() -> Option<i64> {
    let (waits, _, _, status) = observed(ALL, "duckdb_temp_busy", !REGISTERED, |work| {
        for n in 0..100 {
            // A kernel thread executes the request.
            let entry = work.entry(0, Op::Write, n * u64::from(BLOCK), BLOCK);
            let entry = entry.flags(squeue::Flags::ASYNC);
            // SAFETY: the buffer lives until the request has completed, as awaited below.
            unsafe { work.ring.submission().push(&entry) }.unwrap();
            work.ring.submit().unwrap();
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_micros(500) {}
            work.ring.submit_and_wait(1).unwrap();
            work.ring.completion().for_each(drop);
        }
    })?;
    assert_eq!((waits.len(), status.counts.io_uring_depth), (100, 1));
    let elapsed_ns: i64 = waits.iter().map(|wait| wait.elapsed_ns).sum();
    let busy_ns = status.counts.io_uring_busy_ns as i64;
    assert!(busy_ns <= elapsed_ns, "{busy_ns} of {elapsed_ns} ns");
    Some(busy_ns)
}
