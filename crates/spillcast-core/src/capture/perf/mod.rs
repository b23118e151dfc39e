//! Capture with perf events: syscall tracepoints, context switches and wakings, one ring for each
//! CPU.
//!
//! Works as root, and without privilege for one's own processes at perf_event_paranoid <= 2.
//!
//! The kernel schedules the events of a thread in and out at each context switch, which is their
//! main cost. So only the entry of a close is observed, and in PostgreSQL only the calls that temp
//! files need, at a third of the cost.

mod by_thread;
mod events;
mod forks;
mod lookups;
mod open;
mod open_path;
mod record;
mod ring;
mod system_wide;
mod threads;
mod tracepoints;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use spillcast_calls::CallKind;

use super::event::Event;
use super::source::{self, Observed, Source};
use crate::system::now_ns;
use by_thread::ByThread;
use events::Events;
use lookups::Lookups;
use record::{Payload, Record};
use ring::{Ring, page_bytes};
use system_wide::SystemWide;
use threads::Threads;

/// Ring sizes to try, largest first; an ordinary user is granted about 512 KiB per CPU.
const RING_BYTES: [usize; 5] = [8 << 20, 2 << 20, 1 << 20, 512 << 10, 128 << 10];
/// Limit of all rings together where there are many CPUs; a ring has at least 512 KiB.
const RINGS_BYTES: usize = 64 << 20;
/// Records younger than this wait for the next drain: another CPU may still be writing older ones.
const SETTLE_NS: u64 = 50_000;
/// How long the reader sleeps when no ring wakes it.
const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// The same while a thread has a new name whose calls are not passed yet.
const SHORT_NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

/// Perf events, and the rings they write to.
struct PerfSource {
    events: Arc<Events>,
    way: Way,
    rings: Vec<Ring>,
    pending: Vec<Record>,
    lookups: Lookups,
    threads: Threads,
    lost: u64,
}

/// How processes are observed: all at once where permitted, otherwise thread by thread.
enum Way {
    SystemWide(Arc<SystemWide>),
    ByThread(Arc<ByThread>),
}

/// Determines the tracepoints and maps the rings. Errors say why perf events cannot be used.
pub fn open(calls: &[CallKind]) -> io::Result<Box<dyn Source>> {
    let events = Arc::new(Events::new(calls)?);
    let way = match events.may_observe_all() {
        true => Way::SystemWide(Arc::new(SystemWide::new(events.clone()))),
        false => Way::ByThread(Arc::new(ByThread::new(events.clone()))),
    };
    Ok(Box::new(PerfSource {
        rings: map_rings(&events.holders)?,
        events,
        way,
        pending: Vec::new(),
        lookups: Lookups::default(),
        threads: Threads::default(),
        lost: 0,
    }))
}

impl Source for PerfSource {
    fn wait(&self) {
        let readable = |holder| PollFd::new(holder, PollFlags::IN);
        let mut holders: Vec<PollFd> = self.events.holders.iter().map(readable).collect();
        let is_renaming = |record: &Record| matches!(record.payload, Payload::Renaming { .. });
        let nap = if self.pending.iter().any(is_renaming) { SHORT_NAP } else { NAP };
        // A signal ends the poll early, which does no harm.
        let _ = poll(&mut holders, Some(&nap));
    }

    fn drain(&mut self, out: &mut Vec<Event>, last: bool) {
        // Read before the rings, so that all records of these processes are drained with them.
        let ended = self.threads.ended_processes();
        // Also before the rings: if a thread moves to another CPU while they are read, its older
        // records may be in a ring that was already read. They come with the next drain.
        let until_ns = now_ns().saturating_sub(if last { 0 } else { SETTLE_NS });
        self.read_rings();
        self.look_at_opened();
        let ready = self.pending.partition_point(|record| record.time_ns <= until_ns);
        let mut ready: Vec<Record> = self.pending.drain(..ready).collect();
        if let Way::SystemWide(everyone) = &self.way {
            everyone.keep(&mut ready);
        }
        for record in ready {
            match (&record.payload, &self.way) {
                (Payload::Lost { count }, _) => self.lost += count,
                // Calls under that name are lost if there is no room for more events.
                (Payload::Renaming { name }, Way::SystemWide(everyone)) => {
                    self.lost += everyone.rename(name).is_err() as u64;
                }
                (Payload::ThreadExit, _) => self.lookups.forget(record.tid),
                _ => (),
            }
            self.threads.take(&record, out);
            let pid = record.pid;
            out.extend(self.lookups.take(&record).map(|(fd, file)| match file {
                Some(file) => Event::File { pid, fd, file },
                None => Event::Unidentified { pid, fd },
            }));
        }
        out.extend(ended.into_iter().map(|pid| Event::ProcessExit { pid }));
    }

    fn observed(&self) -> Observed {
        let sampled = match &self.way {
            Way::SystemWide(_) => None,
            Way::ByThread(threads) => threads.sampled(),
        };
        Observed {
            lost: self.lost + self.threads.lost,
            calls: self.threads.calls,
            switches: Some(self.threads.switches),
            cpu_ns: Some(self.threads.cpu_ns()),
            every_call: self.events.every_call && sampled.is_none(),
            samples: self.events.samples(),
            connected: true,
            sampled,
            ..Observed::default()
        }
    }

    fn observer(&self) -> Option<Arc<dyn source::Observer>> {
        Some(match &self.way {
            Way::SystemWide(everyone) => everyone.clone(),
            Way::ByThread(threads) => threads.clone(),
        })
    }
}

impl PerfSource {
    fn read_rings(&mut self) {
        let (tracepoints, pending) = (&self.events.tracepoints, &mut self.pending);
        for ring in &mut self.rings {
            ring.drain(|bytes| pending.extend(record::parse(bytes, tracepoints)));
        }
        pending.sort_by_key(|record| record.time_ns);
    }

    /// Looks up the files of opened descriptors before they can be closed, as far as possible.
    fn look_at_opened(&mut self) {
        loop {
            let (pending, lookups) = (&self.pending, &mut self.lookups);
            let looked_at = match &self.way {
                Way::SystemWide(everyone) => {
                    let new_pids = everyone.new_pids(pending);
                    lookups.look(pending, |Record { pid, tid, .. }| {
                        new_pids.contains(pid) || everyone.observes(*pid) || everyone.observes(*tid)
                    })
                }
                Way::ByThread(_) => lookups.look(pending, |_| true),
            };
            if !looked_at {
                return;
            }
            self.read_rings();
            self.lookups.check(&self.pending);
        }
    }
}

fn map_rings(holders: &[OwnedFd]) -> io::Result<Vec<Ring>> {
    let mut refused = io::Error::from_raw_os_error(libc::EPERM);
    let most = (RINGS_BYTES / holders.len()).max(512 << 10);
    let fits = |bytes: &usize| *bytes <= most && bytes.is_multiple_of(page_bytes());
    for bytes in RING_BYTES.into_iter().filter(fits) {
        match holders.iter().map(|holder| Ring::map(holder.as_fd(), bytes)).collect() {
            Ok(rings) => return Ok(rings),
            Err(error) => refused = error,
        }
    }
    Err(refused)
}
