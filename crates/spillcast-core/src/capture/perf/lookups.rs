//! Identifies opened descriptors: by /proc while they are open, otherwise by the path of the open.
//!
//! A call that returns a descriptor wakes the reader, which looks at /proc/PID/fd before the
//! program can close it. A lookup counts only if no record shows an earlier change of the
//! descriptor. Later lookups fall back on the path, which comes with the record if it was on the
//! caller's stack. Opens that stay unidentified are counted.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::RangeInclusive;

use spillcast_calls::CallKind;

use super::super::descriptor::{self, closed_range};
use super::super::event::FileIdentity;
use super::super::paths::Paths;
use super::open_path::OpenPath;
use super::record::{Payload, Record};
use crate::system::now_ns;

/// Opens by thread and time.
type Opens<T> = HashMap<(i32, u64), T>;

/// Lookups of the opens among pending records.
#[derive(Default)]
pub(crate) struct Lookups {
    made: Opens<Lookup>,
    /// The path of the open call that each thread is in.
    open_paths: HashMap<i32, OpenPath>,
    paths: Paths,
}

/// The result of looking up an opened descriptor.
struct Lookup {
    /// The file that it referred to.
    file: Option<FileIdentity>,
    /// The path that the call was given.
    path: Option<OpenPath>,
    at_ns: u64,
}

/// When an open was followed by a change, after which a lookup is not valid for it.
#[derive(Clone, Copy, Default)]
struct Next {
    /// The descriptor is closed, or refers to something else.
    change_ns: Option<u64>,
    /// The thread opens something else, and may give the path in the same memory.
    open_ns: Option<u64>,
}

impl Lookups {
    /// Looks up each new open in `pending`, which is in chronological order, if `observes` is true
    /// for it; returns whether anything was seen that may have changed meanwhile.
    pub fn look(&mut self, pending: &[Record], observes: impl Fn(&Record) -> bool) -> bool {
        let later = next(pending);
        let mut seen = false;
        for record in pending {
            let tid = record.tid;
            let given = match &record.payload {
                Payload::Enter { path: Some(path), .. } => {
                    self.open_paths.insert(tid, path.clone());
                    continue;
                }
                Payload::Exit { kind, .. } if kind.opens() => self.open_paths.remove(&tid),
                _ => continue,
            };
            let Some(fd) = opened(record).filter(|_| observes(record)) else { continue };
            let open = (tid, record.time_ns);
            let Entry::Vacant(place) = self.made.entry(open) else { continue };
            let next = later[&open];
            // Memory is lost with the process, which may be about to end.
            let path = given
                .filter(|given| given.on_stack || next.open_ns.is_none())
                .and_then(|given| given.read(tid, &mut self.paths));
            let file = match next.change_ns {
                None => descriptor::identify(tid, fd),
                Some(_) => None,
            };
            seen |= file.is_some() || path.as_ref().is_some_and(|path| !path.on_stack);
            place.insert(Lookup { file, path, at_ns: now_ns() });
        }
        seen
    }

    /// Forgets the results of lookups that came too late, as records read since then show.
    pub fn check(&mut self, pending: &[Record]) {
        for (open, next) in next(pending) {
            if let Some(lookup) = self.made.get_mut(&open) {
                lookup.forget_since(next);
            }
        }
    }

    /// Removes the lookup of the open of a record; returns the descriptor and its file, or no file
    /// if the descriptor changed before the lookup.
    pub fn take(&mut self, record: &Record) -> Option<(i32, Option<FileIdentity>)> {
        let fd = opened(record)?;
        let Lookup { file, path, .. } = self.made.remove(&(record.tid, record.time_ns))?;
        Some((fd, file.or_else(|| path?.file((record.pid, record.tid), &mut self.paths))))
    }

    /// Forgets a thread that has ended.
    pub(crate) fn forget(&mut self, tid: i32) {
        self.open_paths.remove(&tid);
        self.paths.forget(tid);
    }
}

impl Lookup {
    /// Forgets what may belong to something opened later.
    fn forget_since(&mut self, next: Next) {
        let is_past = |at_ns: Option<u64>| at_ns.is_some_and(|ns| ns <= self.at_ns);
        let (changed, opened) = (is_past(next.change_ns), is_past(next.open_ns));
        self.file.take_if(|_| changed);
        self.path.take_if(|path| opened && !path.on_stack);
    }
}

/// The descriptor that an open returned.
fn opened(record: &Record) -> Option<i32> {
    match record.payload {
        Payload::Exit { kind, ret } if kind.opens() && ret >= 0 => Some(ret as i32),
        _ => None,
    }
}

/// The changes after each open in `pending`, which is in chronological order.
fn next(pending: &[Record]) -> Opens<Next> {
    let (mut changes, mut opens) = (HashMap::new(), HashMap::new());
    let mut ranges = Vec::new();
    let mut next = Opens::new();
    for record in pending.iter().rev() {
        let &Record { time_ns, pid, tid, .. } = record;
        if let Some(fd) = opened(record) {
            let closed = |(other, fds, _): &&(i32, RangeInclusive<u32>, u64)| {
                *other == pid && fds.contains(&(fd as u32))
            };
            let range_ns = ranges.iter().rev().find(closed).map(|&(_, _, time_ns)| time_ns);
            let change_ns = changes.get(&(pid, fd)).copied().into_iter().chain(range_ns).min();
            next.insert((tid, time_ns), Next { change_ns, open_ns: opens.get(&tid).copied() });
        }
        match record.payload {
            Payload::Enter { kind: CallKind::Close, fd, .. } => {
                changes.insert((pid, fd), time_ns);
            }
            Payload::Enter { kind: CallKind::CloseRange, fd, offset, .. } => {
                ranges.push((pid, closed_range(fd, offset), time_ns));
            }
            Payload::Enter { kind, .. } if kind.opens() => {
                opens.insert(tid, time_ns);
            }
            Payload::Exit { kind, ret } if ret >= 0 && (kind.opens() || kind.duplicates()) => {
                changes.insert((pid, ret as i32), time_ns);
            }
            _ => (),
        }
    }
    next
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd;

    use super::*;

    const KIND: CallKind = CallKind::Openat;

    /// Records of this process, from a time long past.
    fn records(payloads: Vec<Payload>) -> Vec<Record> {
        let me = std::process::id() as i32;
        let record = |(at, payload)| Record { time_ns: 1 + at as u64, pid: me, tid: me, payload };
        payloads.into_iter().enumerate().map(record).collect()
    }

    fn enter(path: &[u8], on_stack: bool) -> Payload {
        let path = OpenPath::new(libc::AT_FDCWD, path.as_ptr() as u64, on_stack.then_some(path));
        Payload::Enter { kind: KIND, fd: -1, offset: None, path: Some(path) }
    }

    fn close(fd: i32) -> Payload {
        Payload::Enter { kind: CallKind::Close, fd, offset: None, path: None }
    }

    /// The path known of the first open, if the records from `before` on are read after the lookup.
    fn first_open(payloads: Vec<Payload>, before: usize) -> Option<String> {
        let (pending, mut lookups) = (records(payloads), Lookups::default());
        lookups.look(&pending[..before], |_| true);
        lookups.check(&pending);
        let exit = pending.iter().find(|record| opened(record).is_some()).unwrap();
        lookups.take(exit)?.1.map(|file| file.path)
    }

    #[test]
    fn a_path_on_the_stack_names_a_closed_descriptor() {
        let opened = Payload::Exit { kind: KIND, ret: 3 };
        let (path, other) = (b"/tmp/part-1\0", b"/tmp/part-2\0");
        let calls = |on_stack| vec![enter(path, on_stack), opened.clone(), close(3)];
        assert_eq!(first_open(calls(true), 3).unwrap(), "/tmp/part-1");
        assert_eq!(first_open(calls(false), 3).unwrap(), "/tmp/part-1");
        // The thread has opened another since: memory may hold its path, the record does not.
        let two =
            |on_stack| [calls(on_stack), vec![enter(other, on_stack), opened.clone()]].concat();
        assert_eq!(first_open(two(true), 5).unwrap(), "/tmp/part-1");
        assert_eq!(first_open(two(false), 5), None);
        // Nothing is known of an open whose entry was not observed, whatever came before.
        let mut lookups = Lookups::default();
        let pending = records(vec![enter(path, true), opened.clone(), close(3), opened.clone()]);
        lookups.look(&pending, |_| true);
        let file = lookups.take(&pending[3]).and_then(|(_, file)| file);
        assert!(file.is_none_or(|file| file.path != "/tmp/part-1"));
        assert_eq!(first_open(two(false), 3), None);
    }

    #[test]
    fn a_descriptor_closed_before_the_lookup_has_no_file() {
        let file = File::open("/proc/self/exe").unwrap();
        let fd = file.as_raw_fd();
        let opened = Payload::Exit { kind: KIND, ret: fd.into() };
        let exe = std::env::current_exe().unwrap().canonicalize().unwrap();
        let alone = vec![enter(b"/tmp/part-1\0", true), opened.clone()];
        assert_eq!(first_open(alone.clone(), 2).unwrap(), exe.to_str().unwrap());
        // Closed and opened again before the lookup; then closed again, after it.
        let after = Record { time_ns: u64::MAX, ..records(vec![close(fd)]).remove(0) };
        let again = [alone, vec![close(fd), opened.clone()]].concat();
        assert_eq!(first_open(again.clone(), 2).unwrap(), "/tmp/part-1");
        let (mut lookups, mut pending) = (Lookups::default(), records(again));
        lookups.look(&pending[..2], |_| true);
        pending.push(after);
        lookups.check(&pending);
        assert_eq!(lookups.take(&pending[1]).unwrap().1.unwrap().path, "/tmp/part-1");
    }
}
