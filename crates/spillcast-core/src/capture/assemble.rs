//! Reports of a capture -> waits: what each descriptor stood for, where in the file, temp or not.

mod changes;
mod held;
mod requests;

use std::sync::{Arc, Mutex, MutexGuard};

use rustc_hash::FxHashMap;
use spillcast_calls::{Call, CallKind};

use super::counts::{Counts, Io};
use super::descriptor;
use super::event::{Block, Event, FileIdentity, Inside};
use super::files::Files;
use super::seconds::Seconds;
use super::spinning::{Spinning, Spun};
use super::stacks::Stacks;
use super::temp::TempRules;
use crate::packed::Packed;
use crate::system::now_ns;
use crate::wait::{NameId, Op, RowNames, Wait};
use held::Held;

/// The event of a thread that had left the CPU by itself outside of its I/O.
const BLOCKED: &str = "blocked";

/// The events of a thread for which the kernel did I/O outside of its calls.
const WRITEBACK: &str = "writeback";
const OTHER_IO: &str = "other I/O";

/// The event of a thread that used its core only to ask whether another had done its I/O.
const SPINNING: &str = "spinning";

/// Raw waits that wait to be taken, some 800,000; beyond it they are dropped and counted, the
/// seconds stay whole.
const WAITS_MAX_BYTES: usize = 20 << 20;

/// Turns the reports of one recording into rows.
pub struct Assembler {
    origin_ns: u64,
    pub rules: TempRules,
    files: Files,
    descriptors: FxHashMap<(i32, i32), Descriptor>,
    /// When all that a process had open was looked at.
    snapshots: FxHashMap<i32, u64>,
    /// Descriptors that change in the batch being taken, and the position of their last change.
    changes: FxHashMap<(i32, i32), usize>,
    /// Position in the batch.
    at: usize,
    /// CPU time of calls that made no row, per thread: it belongs before the next row.
    carried_cpu_ns: FxHashMap<i32, u64>,
    /// CPU time in calls that change files other than temp files: the source counts it as inside.
    pub other_changes_cpu_ns: u64,
    /// The last call of each thread, where it opened a file of which nothing is known yet.
    just_opened: FxHashMap<i32, (Call, Inside)>,
    held: Held,
    pub spinning: Spinning,
    pub stacks: Stacks,
    /// Files by device and inode, as they were last seen; None for one that was not found.
    by_identity: FxHashMap<(u64, u64), Option<File>>,
    pub names: Arc<Mutex<RowNames>>,
    pub waits: Packed,
    /// Raw waits that found no room.
    pub dropped: u64,
    pub seconds: Seconds,
    pub counts: Counts,
}

#[derive(Clone, Debug, Default)]
struct Descriptor {
    file: Option<File>,
    /// Where the next read or write without an offset begins, if that is known.
    position: Option<i64>,
}

#[derive(Clone, Copy, Debug)]
struct File {
    name: NameId,
    /// Device and inode.
    identity: (u64, u64),
    regular: bool,
    in_memory: bool,
    /// The file was looked at again when it was first used: programs unlink right after opening.
    settled: bool,
}

impl Assembler {
    /// `origin_ns` is the start of the recording on the clock of the calls.
    pub fn new(origin_ns: u64, rules: TempRules) -> Assembler {
        Assembler {
            origin_ns,
            rules,
            files: Files::new(),
            descriptors: FxHashMap::default(),
            snapshots: FxHashMap::default(),
            changes: FxHashMap::default(),
            at: 0,
            carried_cpu_ns: FxHashMap::default(),
            other_changes_cpu_ns: 0,
            just_opened: FxHashMap::default(),
            held: Held::default(),
            spinning: Spinning::default(),
            stacks: Stacks::default(),
            by_identity: FxHashMap::default(),
            names: Arc::default(),
            waits: Packed::default(),
            dropped: 0,
            seconds: Seconds::default(),
            counts: Counts::default(),
        }
    }

    /// Looks at all that a process has open, so that later calls need no look-up; returns how many
    /// temp files are among it.
    pub fn snapshot(&mut self, pid: i32) -> u64 {
        self.snapshots.insert(pid, now_ns());
        self.rules.observe(pid);
        let open = descriptor::open_files(pid).into_iter();
        open.map(|(fd, file)| self.identified(pid, fd, file, true) as u64).sum()
    }

    /// Takes what a source reported, in the order of time.
    pub fn take(&mut self, events: &mut Vec<Event>) {
        let changed = events.iter().enumerate().filter_map(|(at, e)| Some((e.changes()?, at)));
        self.changes = changed.collect();
        for (at, event) in events.drain(..).enumerate() {
            self.at = at;
            self.take_one(event);
        }
    }

    fn take_one(&mut self, event: Event) {
        self.open_was_of_no_temp_file(&event);
        match event {
            Event::Call(call, inside) if call.kind.is_io() => self.io(call, inside),
            Event::Call(call, inside) if call.kind.copies() => self.copied(call, inside),
            Event::Call(call, inside) if call.kind.opens() => {
                self.descriptor_call(call);
                self.open_ended(call, inside);
            }
            Event::Call(call, inside) if call.kind.changes_file() => {
                self.change_by_descriptor(call, inside)
            }
            Event::Call(call, _) => self.descriptor_call(call),
            Event::Named { call, inside, path } => self.change_by_path(call, inside, path),
            Event::Blocked { tid, block } => self.waited(tid, block, BLOCKED),
            Event::BlockedOnIo { tid, block, writeback: true } => {
                self.waited(tid, block, WRITEBACK)
            }
            Event::BlockedOnIo { tid, block, .. } => self.waited(tid, block, OTHER_IO),
            Event::BlockedInRequest { tid, block } => self.blocked_in_request(tid, block),
            Event::Request(request) => self.request(request),
            Event::Sample { pid, tid, time_ns, ip } => {
                self.spinning.sample(pid, tid, time_ns, ip);
            }
            Event::Stack { pid, tid, time_ns, sample } => {
                if time_ns >= self.origin_ns {
                    self.stacks.sample((pid, tid), time_ns, &sample);
                }
            }
            Event::File { pid, fd, file } => {
                self.identified(pid, fd, file, false);
                self.opened(pid, fd);
            }
            Event::Fork { parent, child } => self.fork(parent, child),
            // Descriptors marked close-on-exec are closed now; which, a fresh look tells. A program
            // too short for one has its standard streams, by which a shell gives it files.
            Event::Exec { pid } => {
                self.descriptors.retain(|key, _| key.0 != pid || key.1 <= libc::STDERR_FILENO);
                self.rules.renew(pid);
                self.stacks.forget(pid);
            }
            Event::ProcessExit { pid } => {
                self.descriptors.retain(|key, _| key.0 != pid);
                self.just_opened.retain(|_, (call, _)| call.pid != pid);
                self.rules.forget(pid);
                self.stacks.forget(pid);
            }
        }
    }

    /// Returns whether it is a temp file.
    fn identified(&mut self, pid: i32, fd: i32, identity: FileIdentity, settled: bool) -> bool {
        let name = self.names().files.id(&identity.path);
        let file = File {
            name,
            identity: (identity.dev, identity.ino),
            regular: identity.regular,
            in_memory: identity.in_memory(),
            settled,
        };
        let joined = settled && identity.position.is_some();
        self.files.seen(name, &identity, joined, || self.rules.kind(pid, &identity));
        if file.regular {
            self.by_identity.insert(file.identity, Some(file));
        }
        let descriptor = self.descriptors.entry((pid, fd)).or_default();
        descriptor.file = Some(file);
        descriptor.position = identity.position.or(descriptor.position);
        self.files.is_temp(name)
    }

    fn fork(&mut self, parent: i32, child: i32) {
        let copies: Vec<_> = self
            .descriptors
            .iter()
            .filter(|(key, _)| key.0 == parent)
            .map(|(key, descriptor)| ((child, key.1), descriptor.clone()))
            .collect();
        self.descriptors.extend(copies);
        self.rules.started(parent, child);
        self.stacks.fork(parent, child);
    }

    fn descriptor_call(&mut self, call: Call) {
        if call.ret < 0 {
            return;
        }
        let (given, returned) = ((call.pid, call.fd), (call.pid, call.ret as i32));
        match call.kind {
            kind if kind.opens() => {
                self.descriptors.entry(returned).or_default().position = Some(0);
            }
            kind if kind.duplicates() && given != returned => {
                match self.descriptors.get(&given).cloned() {
                    Some(descriptor) => self.descriptors.insert(returned, descriptor),
                    None => self.descriptors.remove(&returned),
                };
            }
            CallKind::Close => drop(self.descriptors.remove(&given)),
            CallKind::Lseek => {
                self.descriptors.entry(given).or_default().position = Some(call.ret);
            }
            _ => (),
        }
    }

    fn io(&mut self, call: Call, inside: Inside) {
        // What nobody opened is a pipe or a socket, but for what was closed before the first look.
        let opened = self.descriptors.contains_key(&(call.pid, call.fd)) || self.is_older(&call);
        let file = self.file_of(&call);
        if call.ret < 0 || !file.is_some_and(|file| file.regular) {
            self.counts.unknown_file += (call.ret >= 0 && file.is_none() && opened) as u64;
            return self.no_row(call, inside);
        }
        let offset = self.offset_of(&call);
        if call.start_ns < self.origin_ns {
            return;
        }
        let op = if call.kind.reads() { Op::Read } else { Op::Write };
        let wait = Wait {
            file: file.map(|file| file.name),
            offset,
            bytes: Some(call.ret),
            ..self.row(&call, op)
        };
        self.moved(wait, file, (call.pid, call.fd));
    }

    /// A row of bytes that a process moved to or from a file by a descriptor.
    fn moved(&mut self, mut wait: Wait, file: Option<File>, (pid, fd): (i32, i32)) {
        let io = Io::of(&wait, file.is_some_and(|file| file.in_memory));
        let counts = &mut self.counts;
        let used = file.map(|file| self.files.used(file.name, wait.op, io, (pid, fd), counts));
        wait.temp = used.unwrap_or(false);
        self.counts.add(io, wait.temp);
        self.push(wait);
    }

    /// A copy in the kernel reads as much as it writes. Between two files it is a row of each, which
    /// have half of its time, for the kernel reads and writes by turns. To or from a socket or a pipe
    /// it is no row, because it waits for these, too.
    fn copied(&mut self, call: Call, inside: Inside) {
        let other = call.offset.map_or(-1, |fd| fd as i32);
        let (from, to) = match call.kind {
            CallKind::Sendfile => (other, call.fd),
            _ => (call.fd, other),
        };
        let sides = [(from, Op::Read), (to, Op::Write)].map(|(fd, op)| {
            let file = if call.ret > 0 { self.file_of(&Call { fd, ..call }) } else { None };
            if let Some(descriptor) = self.descriptors.get_mut(&(call.pid, fd)) {
                // Whether the call was given offsets is not known.
                descriptor.position = None;
            }
            (fd, op, file.filter(|file| file.regular))
        });
        if call.start_ns < self.origin_ns {
            return;
        }
        if sides.iter().any(|(_, _, file)| file.is_none()) {
            let io = Io { copies: 1, copied_bytes: call.ret.max(0) as u64, ..Io::default() };
            for (fd, op, file) in sides {
                if let Some(file) = file {
                    let temp = self.files.used(file.name, op, io, (call.pid, fd), &mut self.counts);
                    self.counts.add(io, temp);
                }
            }
            return self.no_row(call, inside);
        }
        let middle_ns = call.start_ns.midpoint(call.end_ns);
        let cpu_before_ns = call.cpu_before_ns.map(|_| 0);
        let halves = [
            Call { end_ns: middle_ns, ..call },
            Call { start_ns: middle_ns, cpu_before_ns, ..call },
        ];
        for (half, (fd, op, file)) in halves.into_iter().zip(sides) {
            let file_name = file.map(|file| file.name);
            let wait = Wait { file: file_name, bytes: Some(call.ret), ..self.row(&half, op) };
            self.moved(wait, file, (call.pid, fd));
        }
    }

    /// Decides which files are temp, at the end, when the processes `running` go on.
    pub fn settle(&mut self, running: &[i32]) {
        let mut names = self.names.lock().expect("no holder panics");
        names.temp = self.files.settle(&names.files, running, &mut self.counts);
    }

    /// What every row of a call has, with the CPU time before it.
    fn row(&mut self, call: &Call, op: Op) -> Wait {
        let before_ns = self.worked_ns(call.tid, call.start_ns, call.cpu_before_ns.unwrap_or(0));
        let event = self.names().events.id(call.kind.name());
        Wait {
            blocked: call.blocked,
            cpu_before_ns: call.cpu_before_ns.map(|_| before_ns as i64),
            ..Wait::new(call.tid.into(), event, op, self.span(call.start_ns, call.end_ns))
        }
    }

    /// A call that moved no bytes of a file, as on a pipe: what it waited for are rows of their own.
    fn no_row(&mut self, call: Call, inside: Inside) {
        let before_ns = self.worked_ns(call.tid, call.start_ns, call.cpu_before_ns.unwrap_or(0));
        self.carried_cpu_ns.insert(call.tid, before_ns);
        for block in inside.blocks {
            self.blocked(call.tid, block);
        }
        *self.carried_cpu_ns.entry(call.tid).or_default() += inside.cpu_ns;
    }

    fn blocked(&mut self, tid: i32, block: Block) {
        self.waited(tid, block, BLOCKED);
    }

    /// A row of a thread that left the CPU outside of the timed calls. Writeback counts as temp I/O
    /// where temp files have most of what was written.
    fn waited(&mut self, tid: i32, block: Block, event: &str) {
        let before_ns = self.worked_ns(tid, block.start_ns, block.cpu_before_ns);
        if block.start_ns < self.origin_ns {
            return;
        }
        let temp = event == WRITEBACK && self.counts.temp_writes > self.counts.other_writes;
        let event = self.names().events.id(event);
        self.push(Wait {
            temp,
            blocked: Some(true),
            cpu_before_ns: Some(before_ns as i64),
            woken_by: block.woken_by.map(i64::from),
            ..Wait::new(tid.into(), event, Op::Null, self.span(block.start_ns, block.end_ns))
        });
    }

    /// CPU time of a thread since its last row, `own_ns` of it since its last event, that was no
    /// spinning: that becomes a row.
    fn worked_ns(&mut self, tid: i32, until_ns: u64, own_ns: u64) -> u64 {
        let carried_ns = self.carried_cpu_ns.remove(&tid).unwrap_or(0);
        let Some(spun) = self.spinning.end_of(tid, until_ns, own_ns) else {
            return carried_ns + own_ns;
        };
        let Spun { start_ns, end_ns, before_ns, cpu_ns, waits_for } = spun;
        if start_ns >= self.origin_ns {
            let event = self.names().events.id(SPINNING);
            self.push(Wait {
                blocked: Some(false),
                cpu_before_ns: Some((carried_ns + before_ns) as i64),
                woken_by: Some(waits_for.into()),
                ..Wait::new(tid.into(), event, Op::Null, self.span(start_ns, end_ns))
            });
        }
        own_ns - before_ns - cpu_ns
    }

    /// When something began on the clock of the recording, and how long it took.
    fn span(&self, start_ns: u64, end_ns: u64) -> (i64, i64) {
        (start_ns as i64 - self.origin_ns as i64, end_ns as i64 - start_ns as i64)
    }

    fn push(&mut self, wait: Wait) {
        debug_assert!(wait.start_ns >= 0, "before the recording began: {wait:?}");
        wait.check();
        let undecided = wait.file.filter(|&name| self.files.is_undecided(name));
        self.seconds.add(&wait, undecided);
        if wait.op != Op::Null && (wait.temp || undecided.is_some()) {
            self.spinning.temp_io(wait.session as i32, wait.elapsed_ns as u64);
        }
        if self.waits.size_bytes() < WAITS_MAX_BYTES {
            self.waits.push(&wait);
        } else {
            self.dropped += 1;
        }
    }

    fn names(&self) -> MutexGuard<'_, RowNames> {
        self.names.lock().expect("no holder panics")
    }

    fn file_of(&mut self, call: &Call) -> Option<File> {
        let key = (call.pid, call.fd);
        let known = self.descriptors.get(&key).and_then(|descriptor| descriptor.file);
        let final_or_temp =
            |file: File| file.settled || !file.regular || self.files.is_temp(file.name);
        if known.is_some_and(final_or_temp) {
            return known;
        }
        // What was closed again before the snapshot left no trace but this call.
        if known.is_none() && self.is_older(call) {
            return None;
        }
        // This look comes after the call: the position stays what the calls said, and by now the
        // number may stand for another file than the one that was seen when it was opened.
        if self.changes.get(&key).is_some_and(|&change| change > self.at) {
            return known;
        }
        let same =
            |now: &FileIdentity| known.is_none_or(|file| file.identity == (now.dev, now.ino));
        if let Some(now) = descriptor::identify(call.tid, call.fd).filter(same) {
            self.identified(call.pid, call.fd, now, true);
        } else if let Some(Descriptor { file: Some(file), .. }) = self.descriptors.get_mut(&key) {
            file.settled = true;
        }
        self.descriptors.get(&key).and_then(|descriptor| descriptor.file)
    }

    /// Whether a call came before all that its process has open was looked at.
    fn is_older(&self, call: &Call) -> bool {
        self.snapshots.get(&call.pid).is_some_and(|&at_ns| call.start_ns < at_ns)
    }

    fn offset_of(&mut self, call: &Call) -> Option<i64> {
        if call.offset.is_some() || matches!(call.kind, CallKind::Pread64 | CallKind::Pwrite64) {
            return call.offset;
        }
        let descriptor = self.descriptors.get_mut(&(call.pid, call.fd))?;
        let start = descriptor.position?;
        descriptor.position = Some(start + call.ret);
        Some(start)
    }
}
