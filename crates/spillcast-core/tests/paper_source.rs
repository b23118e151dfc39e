//! A fake capture source: the events that it reports become waits, seconds and counts.

use std::io;
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::time::{Duration, Instant};

use spillcast_core::capture::{
    Block, Call, CallKind, Capture, Event, FileIdentity, Forks, Inside, Observed, Observer, Source,
    TempRules,
};
use spillcast_core::wait::Op;

/// Reports the given events once, and allows all processes but one to be attached.
struct Paper {
    events: Vec<Event>,
    attached: Arc<Attached>,
}

#[derive(Default)]
struct Attached(Mutex<Vec<i32>>);

/// Processes that do not exist, so that all information about them comes from `Paper`.
const PID: i32 = i32::MAX;
const JOINING: i32 = PID - 1;
const REFUSED: i32 = PID - 2;
const FORKED: i32 = PID - 3;
const OBSERVED: Observed = Observed {
    lost: 3,
    calls: 7,
    switches: Some(11),
    cpu_ns: Some(500),
    every_call: false,
    sees_io_uring: false,
    samples: false,
    file_faults: None,
    file_fault_ns: None,
    connected: true,
    sampled: None,
};

impl Source for Paper {
    fn wait(&self) {
        std::thread::sleep(Duration::from_millis(1));
    }

    fn drain(&mut self, out: &mut Vec<Event>, _last: bool) {
        out.append(&mut self.events);
    }

    fn observed(&self) -> Observed {
        OBSERVED
    }

    fn observer(&self) -> Option<Arc<dyn Observer>> {
        Some(self.attached.clone())
    }
}

impl Observer for Attached {
    fn attach(&self, pid: i32) -> io::Result<()> {
        if pid == REFUSED {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
        self.0.lock().unwrap().push(pid);
        Ok(())
    }

    fn forks(&self, _parent: i32, _title: &str) -> io::Result<Forks> {
        let mut forked = vec![FORKED, REFUSED];
        Ok(Box::new(move || std::mem::take(&mut forked)))
    }
}

fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn events(begin_ns: u64) -> Vec<Event> {
    let path = "/data/pgsql_tmp/pgsql_tmp1.0".to_owned();
    let file = FileIdentity { position: Some(100), ..FileIdentity::named(path, false) };
    let at = |ns: u64, length_ns: u64| (begin_ns + ns, begin_ns + ns + length_ns);
    let call = |kind, fd, span_ns, ret| {
        Event::Call(Call::of((PID, PID), kind, fd, span_ns, ret), Inside::default())
    };
    let (start_ns, end_ns) = at(50_000, 7_000);
    let block = Block { start_ns, end_ns, cpu_before_ns: 40, woken_by: Some(9) };
    vec![
        Event::File { pid: PID, fd: 5, file: file.clone() },
        call(CallKind::Write, 5, at(10_000, 2_000), 8192),
        call(CallKind::Read, 5, at(20_000, 1_000), 4096),
        Event::Blocked { tid: PID, block },
        Event::File { pid: PID, fd: 6, file: FileIdentity { path: "/data/base/1".into(), ..file } },
        call(CallKind::Write, 6, at(70_000, 300), 512),
        // No event tells which file was opened as 7, or that 8 was opened.
        call(CallKind::Openat, -1, at(79_000, 300), 7),
        call(CallKind::Write, 7, at(80_000, 300), 512),
        call(CallKind::Write, 8, at(81_000, 300), 512),
        Event::ProcessExit { pid: PID },
    ]
}

#[test]
fn events_of_a_source_become_waits_seconds_and_counts() {
    // As if the events happened within the recording, which begins in a moment.
    let attached = Arc::<Attached>::default();
    let begin_ns = now_ns() + 1_000_000_000;
    let paper = Paper { events: events(begin_ns), attached: attached.clone() };
    let mut capture = Capture::start(Box::new(paper), &[PID], TempRules::default()).unwrap();
    capture.stop();
    let (batch, status) = (capture.take(), capture.status());

    let names = batch.waits.names.lock().unwrap().clone();
    let rows: Vec<_> = batch.waits.rows.iter().collect();
    let rows_read: Vec<_> = rows
        .iter()
        .map(|wait| {
            let since_ns = wait.start_ns + capture.origin_ns as i64 - begin_ns as i64;
            let event = names.events.list()[wait.event as usize].clone();
            (event, wait.op, wait.temp, since_ns, wait.elapsed_ns, wait.offset, wait.bytes)
        })
        .collect();
    let event = |name: &str| name.to_owned();
    assert_eq!(
        rows_read,
        [
            (event("write"), Op::Write, true, 10_000, 2_000, Some(100), Some(8192)),
            (event("read"), Op::Read, true, 20_000, 1_000, Some(8292), Some(4096)),
            (event("blocked"), Op::Null, false, 50_000, 7_000, None, None),
            (event("write"), Op::Write, false, 70_000, 300, Some(100), Some(512)),
        ]
    );
    assert_eq!(rows[2].woken_by, Some(9));
    assert_eq!(batch.seconds.iter().map(|row| row.count).sum::<i64>(), 4);
    let counts = status.counts;
    assert_eq!((counts.temp_writes, counts.temp_reads, counts.temp_bytes), (1, 1, 12_288));
    assert_eq!((counts.temp_ns, counts.other_io, counts.unknown_file), (3_000, 1, 1));
    assert_eq!(counts.other_writes, 1);
    assert_eq!((status.observed, status.cpu_ns), (OBSERVED, Some(500)));
    assert_eq!(*attached.0.lock().unwrap(), [PID]);
}

/// Numbers of rows and of calls on unknown files: `opened` is opened and not identified, duplicated
/// to `copy`, and `read`.
fn unidentified(opened: i32, copy: i32, read: i32) -> (usize, u64) {
    let (pid, begin_ns) = (std::process::id() as i32, now_ns() + 1_000_000_000);
    let call = |kind, fd, at_ns, ret| {
        let span_ns = (begin_ns + at_ns, begin_ns + at_ns + 300);
        Event::Call(Call::of((pid, pid), kind, fd, span_ns, ret), Inside::default())
    };
    let events = vec![
        call(CallKind::Openat, -1, 0, opened.into()),
        Event::Unidentified { pid, fd: opened },
        call(CallKind::Dup2, opened, 1_000, copy.into()),
        call(CallKind::Read, read, 2_000, 64),
    ];
    let paper = Paper { events, attached: Arc::default() };
    let mut capture = Capture::start(Box::new(paper), &[pid], TempRules::default()).unwrap();
    capture.stop();
    (capture.take().waits.rows.iter().count(), capture.status().counts.unknown_file)
}

#[test]
fn a_file_that_the_source_did_not_identify_is_looked_up_only_by_another_number() {
    // When the calls are taken, a number that was closed is another file's.
    let file = tempfile::tempfile().unwrap();
    let (fd, closed) = (file.as_raw_fd(), 1 << 20);
    assert_eq!(unidentified(fd, closed, fd), (0, 1));
    assert_eq!(unidentified(closed, fd, fd), (1, 0));
}

#[test]
fn processes_are_attached_through_the_source_and_may_be_refused() {
    let attached = Arc::<Attached>::default();
    let paper = Paper { events: Vec::new(), attached: attached.clone() };
    let mut capture = Capture::start(Box::new(paper), &[PID], TempRules::default()).unwrap();
    capture.attach(JOINING).unwrap();
    capture.attach(JOINING).unwrap();
    assert_eq!(capture.attach(REFUSED).unwrap_err().raw_os_error(), Some(libc::EPERM));
    capture.attach_children(PID, "worker").unwrap();
    let begin = Instant::now();
    while attached.0.lock().unwrap().len() < 3 && begin.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(1));
    }
    capture.stop();
    assert_eq!(*attached.0.lock().unwrap(), [PID, JOINING, FORKED]);
    let joined: Vec<i32> = capture.joined().iter().map(|process| process.pid).collect();
    assert_eq!(joined, [JOINING, FORKED]);
    assert_eq!(capture.attach(PID - 4).unwrap_err().raw_os_error(), Some(libc::ENOTSUP));

    let refused = Paper { events: Vec::new(), attached: Arc::default() };
    let refused = Capture::start(Box::new(refused), &[REFUSED], TempRules::default());
    assert_eq!(refused.err().unwrap().raw_os_error(), Some(libc::EPERM));
}

/// Attaches the first process at once, any other between two meetings at the barrier.
struct Slow(Barrier);

impl Observer for Slow {
    fn attach(&self, pid: i32) -> io::Result<()> {
        if pid != PID {
            self.0.wait();
            self.0.wait();
        }
        Ok(())
    }

    fn forks(&self, _parent: i32, _title: &str) -> io::Result<Forks> {
        unimplemented!()
    }
}

/// Panics when drained for the last time.
struct Torn(Arc<Slow>);

impl Source for Torn {
    fn wait(&self) {
        std::thread::sleep(Duration::from_millis(1));
    }

    fn drain(&mut self, _out: &mut Vec<Event>, last: bool) {
        assert!(!last, "torn paper");
    }

    fn observed(&self) -> Observed {
        OBSERVED
    }

    fn observer(&self) -> Option<Arc<dyn Observer>> {
        Some(self.0.clone())
    }
}

#[test]
fn attached_processes_can_be_queried_during_an_attachment() {
    let slow = Arc::new(Slow(Barrier::new(2)));
    let source = Box::new(Torn(slow.clone()));
    let capture = Arc::new(Capture::start(source, &[PID], TempRules::default()).unwrap());
    let (answer, answered) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| capture.attach(JOINING).unwrap());
        slow.0.wait();
        let shared = capture.clone();
        let reader = std::thread::spawn(move || answer.send(shared.joined().len()));
        let joined = answered.recv_timeout(Duration::from_secs(60));
        slow.0.wait();
        reader.join().unwrap().unwrap();
        assert_eq!(joined, Ok(0));
    });
    assert_eq!(capture.joined().len(), 1);
    // `stop` passes on the panic of its thread; a later drop does not.
    let mut capture = Arc::into_inner(capture).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| capture.stop())).is_err());
    let slow = Arc::new(Slow(Barrier::new(2)));
    let other = Capture::start(Box::new(Torn(slow)), &[PID], TempRules::default()).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| drop(other))).is_ok());
}
