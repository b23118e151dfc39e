//! The source for containers that refuse perf events: programs report through the preload library.
//!
//! The ring is an anonymous memory file of spillcast, which commands open by its path under /proc.
//! If spillcast dies, no file is left behind and the command continues.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use spillcast_calls::CallKind;
use spillcast_calls::record::{FileRecord, Record, Words, path_of_words};
use spillcast_calls::ring::{RING_NAME, RING_VARIABLE, Ring};

use super::event::{Event, FileIdentity, Inside};
use super::source::{Observed, Source};
use crate::system::now_ns;

const RING_BYTES: usize = 16 << 20;
/// Polling interval of the ring, which does not wake its reader.
const NAP: Duration = Duration::from_millis(5);

/// How long a reserved slot may stay uncommitted before its producer is considered dead.
const UNCOMMITTED_MAX: Duration = Duration::from_secs(1);

/// The reading end of the ring that the preload library writes to.
///
/// Start a program with `LD_PRELOAD` naming the library and [`Source::environment`] set, then drain
/// often enough that the ring does not fill. A static binary never loads the library.
pub struct PreloadSource {
    ring: Ring,
    /// The programs open this descriptor by its path under /proc.
    memory: File,
    tail: u64,
    stall: Option<Stall>,
    calls: u64,
}

/// Whether a process has mapped the ring of a recorder; false if its mappings may not be read, None
/// for a process that has ended, which has no mappings.
pub fn is_connected(pid: i32) -> Option<bool> {
    let mappings = match std::fs::read(format!("/proc/{pid}/maps")) {
        Ok(mappings) if mappings.is_empty() => return None,
        Ok(mappings) => mappings,
        Err(error) => return (error.kind() == io::ErrorKind::PermissionDenied).then_some(false),
    };
    let name = format!("/memfd:{}", RING_NAME.to_string_lossy());
    Some(mappings.windows(name.len()).any(|bytes| bytes == name.as_bytes()))
}

/// Opens a ring for the reports of the library, which always reports all calls.
pub fn open(_calls: &[CallKind]) -> io::Result<Box<dyn Source>> {
    Ok(Box::new(PreloadSource::create(RING_BYTES)?))
}

/// A slot that is reserved but not committed.
struct Stall {
    position: u64,
    /// The head when the stall was noticed: all slots before it were reserved by then.
    head: u64,
    since: Instant,
}

impl PreloadSource {
    /// Creates a ring of at least `capacity_bytes` (64 per call), all of it allocated at once.
    pub fn create(capacity_bytes: usize) -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let memory = File::from(memfd_create(RING_NAME, flags)?);
        let ring = Ring::create(&memory, capacity_bytes)?;
        ring.look(now_ns());
        // A memory file that cannot shrink never makes an access by a program fail.
        fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok(PreloadSource { ring, memory, tail: 0, stall: None, calls: 0 })
    }

    /// The record at the tail and its number of slots; None while any of them is not committed.
    ///
    /// A slot that starts no record (the rest of a path whose start was skipped) gives no event.
    fn next_record(&self) -> Option<(Option<Event>, u64)> {
        let Some(record) = Record::from_words(&self.ring.get(self.tail)?) else {
            return Some((None, 1));
        };
        let slots = record.slots();
        let event = match record {
            Record::Call(call) => Some(Event::Call(call, Inside::default())),
            // A program without /proc does not know its path.
            Record::File { path_bytes: 0, .. } => None,
            Record::File { file, path_bytes } => {
                Some(file_of(file, self.path_at_tail(slots, path_bytes)?))
            }
            Record::Named { call, path_bytes } => {
                let path = self.path_at_tail(slots, path_bytes)?;
                Some(Event::Named { call, inside: Inside::default(), path })
            }
        };
        Some((event, slots))
    }

    /// The path of the record at the tail; None while any of its slots is not committed.
    fn path_at_tail(&self, slots: u64, path_bytes: u16) -> Option<String> {
        let words: Option<Vec<Words>> =
            (self.tail + 1..self.tail + slots).map(|at| self.ring.get(at)).collect();
        let mut bytes: Vec<u8> = words?.into_iter().flat_map(path_of_words).collect();
        bytes.truncate(path_bytes as usize);
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Skips the uncommitted slots at the tail once they are too old; returns whether it did.
    fn skip_dead_producer(&mut self, head: u64) -> bool {
        let tail = self.tail;
        let stall = match &self.stall {
            Some(stall) if stall.position == tail => stall,
            _ => {
                self.stall = Some(Stall { position: tail, head, since: Instant::now() });
                return false;
            }
        };
        if stall.since.elapsed() < UNCOMMITTED_MAX {
            return false;
        }
        // If the start of a path is committed but its rest is not, the start is skipped as well.
        self.tail = (tail + 1..stall.head)
            .find(|&position| self.ring.get(position).is_some())
            .unwrap_or(stall.head);
        self.ring.count_lost(1);
        self.stall = None;
        true
    }
}

impl Source for PreloadSource {
    fn wait(&self) {
        std::thread::sleep(NAP);
    }

    fn drain(&mut self, out: &mut Vec<Event>, _last: bool) {
        if !self.ring.look(now_ns()) {
            // The number of calls made meanwhile is unknown.
            self.ring.count_lost(1);
        }
        // Read once: producers that never pause must not keep the reader here forever.
        let head = self.ring.head();
        while self.tail < head {
            match self.next_record() {
                Some((event, slots)) => {
                    self.calls += u64::from(matches!(event, Some(Event::Call(..))));
                    out.extend(event);
                    self.tail += slots;
                    self.stall = None;
                }
                None => {
                    if !self.skip_dead_producer(head) {
                        break;
                    }
                }
            }
            self.ring.release_until(self.tail);
        }
    }

    fn observed(&self) -> Observed {
        let (lost, connected) = (self.ring.lost(), self.ring.attached() > 0);
        Observed { lost, calls: self.calls, connected, ..Observed::default() }
    }

    fn environment(&self) -> Option<(&'static str, String)> {
        let value = format!("/proc/{}/fd/{}", std::process::id(), self.memory.as_raw_fd());
        Some((RING_VARIABLE, value))
    }
}

impl Drop for PreloadSource {
    fn drop(&mut self) {
        self.ring.close();
    }
}

fn file_of(record: FileRecord, path: String) -> Event {
    let file = FileIdentity {
        path,
        dev: record.dev,
        ino: record.ino,
        born_ns: None,
        regular: record.regular,
        unlinked: record.unlinked,
        position: record.position,
        append_at: record.append_at,
    };
    Event::File { pid: record.pid, fd: record.fd, file }
}

#[cfg(test)]
mod tests {
    use spillcast_calls::Call;

    use super::*;

    #[test]
    fn an_ended_process_is_neither_connected_nor_unreachable() {
        // This process has rings of other tests.
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id() as i32;
        assert_eq!(is_connected(pid), Some(false));
        child.kill().unwrap();
        // The process has not been waited for: it stays in /proc.
        let has_ended = || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
            stat.rsplit(") ").next().unwrap().starts_with('Z')
        };
        while !has_ended() {
            std::thread::yield_now();
        }
        assert_eq!(is_connected(pid), None);
        child.wait().unwrap();
        assert_eq!(is_connected(pid), None);
    }

    fn call(index: u64) -> Call {
        Call {
            pid: 7,
            tid: 8,
            kind: CallKind::Pread64,
            start_ns: index,
            end_ns: index + 1,
            fd: -1,
            offset: Some(-5),
            ret: -9,
            cpu_before_ns: index.is_multiple_of(2).then_some(index),
            blocked: [None, Some(false), Some(true)][index as usize % 3],
        }
    }

    fn file(path: &str) -> (FileRecord, FileIdentity) {
        let record = FileRecord {
            pid: 7,
            fd: 1 << 20,
            dev: u64::MAX,
            ino: 3,
            regular: true,
            unlinked: false,
            position: Some(1 << 40),
            append_at: Some(1 << 41),
        };
        let identity = FileIdentity {
            path: path.to_owned(),
            dev: u64::MAX,
            ino: 3,
            born_ns: None,
            regular: true,
            unlinked: false,
            position: Some(1 << 40),
            append_at: Some(1 << 41),
        };
        (record, identity)
    }

    #[test]
    fn records_survive_many_laps_of_the_ring() {
        let mut source = PreloadSource::create(64 * 64).unwrap();
        let producer = Ring::attach(&source.memory).unwrap();
        assert!(source.observed().connected);
        for round in 0..1_000u64 {
            let path = "/spill/é".repeat(1 + round as usize % 40);
            let (record, identity) = file(&path);
            producer.push_file(&record, path.as_bytes());
            producer.push_call(&call(round));
            let named = Call { kind: CallKind::Truncate, ..call(round) };
            producer.push_named(&named, path.as_bytes());
            let mut events = Vec::new();
            source.drain(&mut events, false);
            let file = Event::File { pid: 7, fd: 1 << 20, file: identity };
            let call = Event::Call(call(round), Inside::default());
            let named = Event::Named { call: named, inside: Inside::default(), path };
            assert_eq!(events, [file, call, named]);
        }
        assert_eq!(source.observed().lost, 0);
    }

    #[test]
    fn lost_records_are_counted() {
        let mut source = PreloadSource::create(64 * 64).unwrap();
        (0..100).for_each(|index| source.ring.push_call(&call(index)));
        let mut events = Vec::new();
        source.drain(&mut events, false);
        assert_eq!(events.len(), 64);
        assert_eq!(source.observed().lost, 36);
    }

    #[test]
    fn every_record_of_racing_producers_arrives_or_is_counted() {
        let mut source = PreloadSource::create(64 * 256).unwrap();
        let producer = Ring::attach(&source.memory).unwrap();
        let (producers, each) = (4, 50_000u64);
        let mut events = Vec::new();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..producers)
                .map(|pid| {
                    let producer = &producer;
                    scope.spawn(move || {
                        for index in 0..each {
                            producer.push_call(&Call { pid, ..call(index) });
                        }
                    })
                })
                .collect();
            while threads.iter().any(|thread| !thread.is_finished()) {
                source.drain(&mut events, false);
            }
        });
        source.drain(&mut events, true);
        assert_eq!(events.len() as u64 + source.observed().lost, producers as u64 * each);
        for pid in 0..producers {
            let starts: Vec<u64> = events
                .iter()
                .filter_map(|event| match event {
                    Event::Call(call, _) if call.pid == pid => Some(call.start_ns),
                    _ => None,
                })
                .collect();
            assert!(starts.is_sorted_by(|a, b| a < b));
        }
    }

    #[test]
    fn a_reader_reopens_a_closed_ring_and_counts_a_loss() {
        let mut source = PreloadSource::create(64 * 64).unwrap();
        let producer = Ring::attach(&source.memory).unwrap();
        assert!(producer.unread_ns(now_ns()) < 1_000_000_000);
        producer.close();
        source.drain(&mut Vec::new(), false);
        assert!(!producer.is_closed());
        assert_eq!(source.observed().lost, 1);
        source.drain(&mut Vec::new(), false);
        assert_eq!(source.observed().lost, 1);
        drop(source);
        assert!(producer.is_closed());
    }

    #[test]
    fn a_producer_that_died_does_not_block_the_reader() {
        let mut source = PreloadSource::create(64 * 64).unwrap();
        let (record, _) = file("/spill/of/a/path/that/takes/more/than/one/slot/because/it/is/long");
        source.ring.reserve(3).unwrap();
        source.ring.push_call(&call(1));
        source.ring.push_file(&record, b"/whole");
        let mut events = Vec::new();
        source.drain(&mut events, false);
        assert_eq!(events, []);
        std::thread::sleep(UNCOMMITTED_MAX);
        source.drain(&mut events, false);
        assert_eq!(events.len(), 2);
        assert_eq!(source.observed().lost, 1);
    }
}
