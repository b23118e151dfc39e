//! Capture with perf events: syscall tracepoints, context switches and wakings, one ring a CPU.
//!
//! Works as root, and without privilege for one's own processes at perf_event_paranoid <= 2.

mod births;
mod open;
mod record;
mod ring;
mod threads;
mod tracepoints;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::call::{CallKind, Event, FileIdentity};
use super::descriptor;
use crate::system::{now_ns, raise_descriptor_limit};
pub use births::Births;
use open::Scope;
use record::{Record, What};
use ring::{Ring, page_bytes};
use threads::Threads;
pub use tracepoints::Tracepoints;

/// Ring sizes to try, largest first; an ordinary user is granted about 512 KiB a CPU.
const RING_BYTES: [usize; 4] = [8 << 20, 2 << 20, 512 << 10, 128 << 10];
/// Records younger than this wait for the next drain: another CPU may still be writing older ones.
const SETTLE_NS: u64 = 50_000;

/// Opens perf events on processes; any thread may, while another reads the rings.
pub struct Observer {
    tracepoints: Tracepoints,
    /// Numbers of what is opened on each thread.
    opened: Vec<(u16, CallKind)>,
    /// One a CPU: the events that carry the rings.
    holders: Vec<OwnedFd>,
    events: Mutex<Vec<OwnedFd>>,
}

/// Perf events on a set of processes, and the rings they write to.
pub struct PerfSource {
    observer: Arc<Observer>,
    rings: Vec<Ring>,
    ring_bytes: usize,
    pending: Vec<Record>,
    /// For each pending record of an open, by thread and time: None where the look came too late.
    looks: HashMap<(i32, u64), Option<Look>>,
    threads: Threads,
    lost: u64,
}

/// What an opened descriptor stood for just afterwards.
struct Look {
    file: FileIdentity,
    at_ns: u64,
}

impl PerfSource {
    /// Prepares the rings for these calls; nothing is observed yet.
    pub fn new(calls: &[CallKind]) -> io::Result<PerfSource> {
        let tracepoints = Tracepoints::find()?;
        let cpus = online_cpus()?;
        let mut holders = Vec::new();
        for &cpu in &cpus {
            holders.push(open::dummy(0, cpu, Scope::ThisThread)?);
        }
        let (rings, ring_bytes) = map_rings(&holders)?;
        let observer = Observer {
            opened: tracepoints.of_calls(calls),
            tracepoints,
            holders,
            events: Mutex::default(),
        };
        Ok(PerfSource {
            observer: Arc::new(observer),
            rings,
            ring_bytes,
            pending: Vec::new(),
            looks: HashMap::new(),
            threads: Threads::default(),
            lost: 0,
        })
    }

    /// What further processes are observed with.
    pub fn observer(&self) -> Arc<Observer> {
        self.observer.clone()
    }

    /// Sleeps until a ring has something that should be read, or the time is over.
    pub fn wait(&self, timeout: Duration) {
        let mut polled: Vec<libc::pollfd> = self
            .observer
            .holders
            .iter()
            .map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 })
            .collect();
        let timeout_ms = timeout.as_millis().min(i32::MAX as u128) as i32;
        unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, timeout_ms) };
    }

    /// Appends what happened since the last drain, in the order of time. `last` takes everything.
    pub fn drain(&mut self, out: &mut Vec<Event>, last: bool) {
        self.read_rings();
        let until_ns = if last { u64::MAX } else { now_ns().saturating_sub(SETTLE_NS) };
        self.look_at_opened();
        self.pending.sort_by_key(|record| record.time_ns);
        let ready = self.pending.partition_point(|record| record.time_ns <= until_ns);
        for record in self.pending.drain(..ready) {
            if let What::Lost { count } = record.what {
                self.lost += count;
            }
            self.threads.take(&record, out);
            if let Some(fd) = opened(&record)
                && let Some(Some(look)) = self.looks.remove(&(record.tid, record.time_ns))
            {
                out.push(Event::File { pid: record.pid, fd, file: look.file });
            }
        }
    }

    fn read_rings(&mut self) {
        let (tracepoints, pending) = (&self.observer.tracepoints, &mut self.pending);
        for ring in &mut self.rings {
            ring.drain(|bytes| pending.extend(record::parse(bytes, tracepoints)));
        }
    }

    /// Looks up what opened descriptors stand for, before they can be closed, as far as that can be
    /// known: where the number was used again before the look, nothing is said.
    fn look_at_opened(&mut self) {
        loop {
            let changed = self.last_changes();
            let mut looked = false;
            for record in &self.pending {
                let Some(fd) = opened(record) else { continue };
                let Entry::Vacant(place) = self.looks.entry((record.tid, record.time_ns)) else {
                    continue;
                };
                let again = changed.get(&(record.pid, fd)).is_some_and(|&ns| ns > record.time_ns);
                let file = if again { None } else { descriptor::identify(record.tid, fd) };
                looked |= file.is_some();
                place.insert(file.map(|file| Look {
                    file: FileIdentity { position: None, ..file },
                    at_ns: now_ns(),
                }));
            }
            if !looked {
                return;
            }
            self.read_rings();
            let changed = self.last_changes();
            for record in &self.pending {
                let Some(fd) = opened(record) else { continue };
                let Some(look) = self.looks.get_mut(&(record.tid, record.time_ns)) else {
                    continue;
                };
                let last_ns = changed.get(&(record.pid, fd)).copied().unwrap_or(0);
                if look.as_ref().is_some_and(|l| (record.time_ns + 1..=l.at_ns).contains(&last_ns))
                {
                    *look = None;
                }
            }
        }
    }

    /// When each descriptor last came to stand for something else, among the pending records.
    fn last_changes(&self) -> HashMap<(i32, i32), u64> {
        let mut last = HashMap::new();
        for record in &self.pending {
            let fd = match record.what {
                What::Enter { kind: CallKind::Close, fd, .. } => fd,
                What::Exit { kind, ret } if ret >= 0 && (kind.opens() || kind.duplicates()) => {
                    ret as i32
                }
                _ => continue,
            };
            let time_ns: &mut u64 = last.entry((record.pid, fd)).or_default();
            *time_ns = record.time_ns.max(*time_ns);
        }
        last
    }

    /// Records the kernel could not write because a ring was full.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    pub fn ring_bytes(&self) -> usize {
        self.ring_bytes
    }

    /// CPU time of all observed threads outside their I/O calls, since they were first seen.
    pub fn cpu_ns(&self) -> u64 {
        self.threads.cpu_ns()
    }
}

impl Observer {
    /// Observes a process with all its threads, and all that it starts from now on.
    ///
    /// Errors: ESRCH when there is no such process, EACCES or EPERM when it may not be observed.
    pub fn attach(&self, pid: i32) -> io::Result<()> {
        // Every thread takes an event per call and CPU; the usual soft limit would be too low.
        raise_descriptor_limit();
        let mut seen = HashSet::new();
        // Threads that start while the list is read are missed by one look, not by two in a row.
        loop {
            let new: Vec<i32> = tasks(pid)?.into_iter().filter(|tid| seen.insert(*tid)).collect();
            if new.is_empty() {
                return if seen.is_empty() { Err(no_such_process()) } else { Ok(()) };
            }
            for tid in new {
                match self.attach_thread(tid) {
                    // The thread ended in between.
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) => (),
                    Err(error) => return Err(error),
                    Ok(()) => (),
                }
            }
        }
    }

    fn attach_thread(&self, tid: i32) -> io::Result<()> {
        let mut opened = Vec::new();
        for (holder, cpu) in self.holders.iter().zip(online_cpus()?) {
            let switches = open::switches(tid, cpu)?;
            open::redirect(&switches, holder)?;
            opened.push(switches);
            // Where they are refused, switches alone tell how long a thread waited.
            if let Some(waking) = self.tracepoints.waking
                && let Ok(wakings) = open::wakings(waking.id, tid, cpu)
            {
                open::redirect(&wakings, holder)?;
                opened.push(wakings);
            }
            for &(id, kind) in &self.opened {
                let event = if kind.opens() {
                    open::urgent_tracepoint(id, tid, cpu, Scope::Descendants)?
                } else {
                    open::tracepoint(id, tid, cpu, Scope::Descendants)?
                };
                open::redirect(&event, holder)?;
                opened.push(event);
            }
        }
        self.events.lock().expect("no holder panics").append(&mut opened);
        Ok(())
    }
}

/// The descriptor that a call returned for a path.
fn opened(record: &Record) -> Option<i32> {
    match record.what {
        What::Exit { kind, ret } if kind.opens() && ret >= 0 => Some(ret as i32),
        _ => None,
    }
}

fn map_rings(holders: &[OwnedFd]) -> io::Result<(Vec<Ring>, usize)> {
    let mut refused = io::Error::from_raw_os_error(libc::EPERM);
    for bytes in RING_BYTES.into_iter().filter(|bytes| bytes % page_bytes() == 0) {
        let rings: io::Result<Vec<Ring>> =
            holders.iter().map(|fd| Ring::map(fd.as_raw_fd(), bytes)).collect();
        match rings {
            Ok(rings) => return Ok((rings, bytes)),
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

/// The threads of a process; empty when it has ended.
fn tasks(pid: i32) -> io::Result<Vec<i32>> {
    let entries = match fs::read_dir(format!("/proc/{pid}/task")) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    Ok(entries.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok()).collect())
}

/// CPU numbers from a list such as `0-3,8`.
fn online_cpus() -> io::Result<Vec<i32>> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online")?;
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<i32>().ok()?..=last.parse::<i32>().ok()?)
    };
    Ok(text.trim().split(',').filter_map(range).flatten().collect())
}

fn no_such_process() -> io::Error {
    io::Error::from_raw_os_error(libc::ESRCH)
}
