//! Turns the reports of a capture into waits: finds the file of each descriptor, the offset in it,
//! and whether it is temp.

mod changes;
mod deferred;
mod opened;
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
use crate::proc::numbers_in;
use crate::system::now_ns;
use crate::wait::{NameId, Op, RowNames, Wait};
use deferred::DeferredBlocks;
use opened::Descriptor;

/// The event of a thread that left the CPU voluntarily outside of its I/O.
const BLOCKED: &str = "blocked";

/// The events of a thread that waited for I/O of the kernel outside of its calls.
const WRITEBACK: &str = "writeback";
const OTHER_IO: &str = "other I/O";

/// The event of a thread that polled for the I/O of another thread.
const SPINNING: &str = "spinning";

/// Limit of raw waits in memory, some 800,000. Above it, waits are dropped and counted; the seconds
/// stay complete.
const WAITS_MAX_BYTES: usize = 20 << 20;

/// Turns the reports of one recording into rows.
pub(crate) struct Assembler {
    origin_ns: u64,
    pub(crate) rules: TempRules,
    files: Files,
    descriptors: FxHashMap<(i32, i32), Descriptor>,
    /// By process, when all its open files were looked up.
    snapshots: FxHashMap<i32, u64>,
    /// Descriptors that change in the current batch, and the position of their last change.
    changes: FxHashMap<(i32, i32), usize>,
    /// Position of the current event in the batch.
    at: usize,
    /// CPU time of calls without a row, per thread: it is added to the time before the next row.
    carried_cpu_ns: FxHashMap<i32, u64>,
    /// CPU time in calls that change files other than temp files. They have no rows, but the source
    /// excludes it like the time inside rows.
    pub(crate) other_changes_cpu_ns: u64,
    /// The last call of each thread, if it opened a file that the source has not reported yet.
    pending_opens: FxHashMap<i32, (Call, Inside)>,
    deferred: DeferredBlocks,
    pub spinning: Spinning,
    pub stacks: Stacks,
    /// Files by device and inode, as last looked up; None if the look-up failed.
    by_identity: FxHashMap<(u64, u64), Option<File>>,
    /// Ends of files that a descriptor appends to, by device and inode.
    ends: FxHashMap<(u64, u64), i64>,
    pub names: Arc<Mutex<RowNames>>,
    pub waits: Packed,
    /// Raw waits that were dropped.
    pub dropped: u64,
    pub seconds: Seconds,
    pub counts: Counts,
}

#[derive(Clone, Copy, Debug)]
struct File {
    name: NameId,
    /// Device and inode.
    identity: (u64, u64),
    regular: bool,
    in_memory: bool,
    /// Whether it was looked up again at its first use: programs unlink files right after open.
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
            pending_opens: FxHashMap::default(),
            deferred: DeferredBlocks::default(),
            spinning: Spinning::default(),
            stacks: Stacks::default(),
            by_identity: FxHashMap::default(),
            ends: FxHashMap::default(),
            names: Arc::default(),
            waits: Packed::default(),
            dropped: 0,
            seconds: Seconds::default(),
            counts: Counts::default(),
        }
    }

    /// Looks up all open files of a process, so that later calls need no look-up; returns how many
    /// of them are temp.
    pub(crate) fn snapshot(&mut self, pid: i32) -> u64 {
        self.snapshots.insert(pid, now_ns());
        self.rules.observe(pid);
        let mut temp_files = 0;
        for (fd, file) in descriptor::open_files(pid) {
            let looked_ns = now_ns();
            if self.rules.kind(pid, &file).may_be_temp(file.unlinked) {
                self.received((pid, fd), &file);
            }
            temp_files += u64::from(self.set_file(pid, fd, file, true));
            if let Some(descriptor) = self.descriptors.get(&(pid, fd)) {
                descriptor.opened().looked_ns = looked_ns;
            }
        }
        temp_files
    }

    /// Processes the reports of a source, which are in chronological order.
    pub fn take(&mut self, events: &mut Vec<Event>) {
        let changed = events.iter().enumerate().filter_map(|(at, e)| Some((e.changes()?, at)));
        self.changes = changed.collect();
        for (at, event) in events.drain(..).enumerate() {
            self.at = at;
            self.process(event);
        }
    }

    fn process(&mut self, event: Event) {
        self.settle_pending_open(&event);
        match event {
            Event::Call(call, inside) if call.kind.is_io() => self.io(call, inside),
            Event::Call(call, inside) if call.kind.copies() => self.copy(call, inside),
            Event::Call(call, inside) if call.kind.opens() => {
                self.descriptor_call(call);
                self.file_opened(call, inside);
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
                self.received((pid, fd), &file);
                self.set_file(pid, fd, file, false);
                self.opened(pid, fd);
            }
            Event::Unidentified { pid, fd } => {
                self.descriptors.entry((pid, fd)).or_default().unidentified = true;
            }
            Event::Fork { parent, child } => self.fork(parent, child),
            Event::Exec { pid } => {
                self.close_on_exec(pid);
                self.rules.exec(pid);
                self.stacks.forget(pid);
                self.spinning.forget(pid);
            }
            Event::ProcessExit { pid } => {
                self.descriptors.retain(|key, _| key.0 != pid);
                self.pending_opens.retain(|_, (call, _)| call.pid != pid);
                self.rules.exit(pid);
                self.stacks.forget(pid);
                self.spinning.forget(pid);
            }
        }
    }

    /// Notes the file of a descriptor; returns whether it is temp.
    fn set_file(&mut self, pid: i32, fd: i32, identity: FileIdentity, settled: bool) -> bool {
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
        if descriptor.file.is_some_and(|known| known.identity != file.identity) {
            descriptor.opened = Arc::default();
        }
        descriptor.file = Some(file);
        let mut opened = descriptor.opened();
        opened.position = identity.position.or(opened.position);
        if let Some(end) = identity.append_at {
            opened.appends = true;
            self.ends.insert(file.identity, end);
        }
        drop(opened);
        self.files.is_temp(name)
    }

    /// Drops descriptors, which exec may have closed, except those of temp files that a look-up
    /// shows to be open. If it comes too late, the file becomes unknown. The standard streams are
    /// kept: a shell passes files by them.
    fn close_on_exec(&mut self, pid: i32) {
        let has_ended = numbers_in(&format!("/proc/{pid}/fd")).is_ok_and(|fds| fds.is_empty());
        let (files, changes, at) = (&self.files, &self.changes, self.at);
        self.descriptors.retain(|key, descriptor| {
            if key.0 != pid || key.1 <= libc::STDERR_FILENO {
                return true;
            }
            let is_temp = |file: &File| file.regular && files.is_temp(file.name);
            let Some(file) = descriptor.file.filter(is_temp) else { return false };
            match descriptor::identify(pid, key.1) {
                Some(now) => (now.dev, now.ino) == file.identity,
                None => {
                    *descriptor = Descriptor::default();
                    has_ended || changes.get(key).is_some_and(|&change| change > at)
                }
            }
        });
    }

    fn fork(&mut self, parent: i32, child: i32) {
        let copies: Vec<_> = self
            .descriptors
            .iter()
            .filter(|(key, _)| key.0 == parent)
            .map(|(key, descriptor)| ((child, key.1), descriptor.copied()))
            .collect();
        self.descriptors.extend(copies);
        self.rules.fork(parent, child);
        self.stacks.fork(parent, child);
    }

    fn io(&mut self, call: Call, inside: Inside) {
        // Without an open it is a pipe or a socket, unless it was closed before the snapshot, or the
        // call gave an offset, which those refuse: then it was received or opened by a handle.
        let opened = call.offset >= Some(0)
            || self.descriptors.contains_key(&(call.pid, call.fd))
            || self.precedes_snapshot(&call);
        let file = self.file_of(&call);
        if call.ret < 0 || !file.is_some_and(|file| file.regular) {
            self.counts.unknown_file += (call.ret >= 0 && file.is_none() && opened) as u64;
            return self.add_blocks(call, inside);
        }
        let offset = self.offset_of(&call, file);
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
        self.push_transfer(wait, file, (call.pid, call.fd));
    }

    /// Adds a row of bytes that a process moved to or from a file.
    fn push_transfer(&mut self, mut wait: Wait, file: Option<File>, (pid, fd): (i32, i32)) {
        let io = Io::of(&wait, file.is_some_and(|file| file.in_memory));
        let counts = &mut self.counts;
        let used = file.map(|file| self.files.used(file.name, wait.op, io, (pid, fd), counts));
        wait.temp = used.unwrap_or(false);
        self.counts.add(io, wait.temp);
        self.push(wait);
    }

    /// Adds a copy in the kernel. Between two files it becomes a read and a write, each with half
    /// of the time, because the kernel alternates between them. To or from a socket or a pipe it
    /// has no row, because it also waits for these.
    fn copy(&mut self, call: Call, inside: Inside) {
        let other = call.offset.map_or(-1, |fd| fd as i32);
        let (from, to) = match call.kind {
            CallKind::Sendfile => (other, call.fd),
            _ => (call.fd, other),
        };
        let sides = [(from, Op::Read), (to, Op::Write)].map(|(fd, op)| {
            let file = if call.ret > 0 { self.file_of(&Call { fd, ..call }) } else { None };
            if let Some(descriptor) = self.descriptors.get(&(call.pid, fd)) {
                // It is unknown whether the call was given offsets.
                descriptor.opened().position = None;
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
            return self.add_blocks(call, inside);
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
            self.push_transfer(wait, file, (call.pid, fd));
        }
    }

    /// Decides at the end which files are temp; the processes in `running` have not ended.
    pub(crate) fn settle(&mut self, running: &[i32]) {
        let mut names = self.names.lock().expect("no holder panics");
        names.temp = self.files.settle(&names.files, running, &mut self.counts);
    }

    /// Whether a file that may be temp is output, by its use so far.
    pub(crate) fn is_output(&self, path: &str) -> bool {
        self.names().files.get(path).is_some_and(|name| self.files.is_output(name))
    }

    /// The common fields of a row of a call, with the CPU time before it.
    fn row(&mut self, call: &Call, op: Op) -> Wait {
        let before_ns =
            self.work_before_ns(call.tid, call.start_ns, call.cpu_before_ns.unwrap_or(0));
        let event = self.names().events.id(call.kind.name());
        Wait {
            blocked: call.blocked,
            cpu_before_ns: call.cpu_before_ns.map(|_| before_ns as i64),
            ..Wait::new(call.tid.into(), event, op, self.span(call.start_ns, call.end_ns))
        }
    }

    /// Turns the blocks of a call into rows; the call has none, because it moved no bytes of a
    /// file.
    fn add_blocks(&mut self, call: Call, inside: Inside) {
        let before_ns =
            self.work_before_ns(call.tid, call.start_ns, call.cpu_before_ns.unwrap_or(0));
        self.carried_cpu_ns.insert(call.tid, before_ns);
        for block in inside.blocks {
            self.blocked(call.tid, block);
        }
        *self.carried_cpu_ns.entry(call.tid).or_default() += inside.cpu_ns;
    }

    fn blocked(&mut self, tid: i32, block: Block) {
        self.waited(tid, block, BLOCKED);
    }

    /// Adds a row of a thread that left the CPU outside of the timed calls. Writeback counts as
    /// temp I/O if most writes were to temp files.
    fn waited(&mut self, tid: i32, block: Block, event: &str) {
        let before_ns = self.work_before_ns(tid, block.start_ns, block.cpu_before_ns);
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

    /// CPU time of a thread since its last row, of which `own_ns` is since its last event. Spinning
    /// is excluded and becomes a row.
    fn work_before_ns(&mut self, tid: i32, until_ns: u64, own_ns: u64) -> u64 {
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

    /// Start, counted from the start of the recording, and duration.
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
        let descriptor = self.descriptors.get(&key);
        let known = descriptor.and_then(|descriptor| descriptor.file);
        let final_or_temp =
            |file: File| file.settled || !file.regular || self.files.is_temp(file.name);
        if known.is_some_and(final_or_temp) {
            return known;
        }
        // A file that was closed before the snapshot cannot be looked up any more.
        let unidentified = descriptor.is_some_and(|descriptor| descriptor.unidentified);
        if known.is_none() && (unidentified || self.precedes_snapshot(call)) {
            return None;
        }
        // This look-up comes after the call: the position follows from the calls instead, and by
        // now the descriptor may refer to another file than when it was opened.
        if self.changes.get(&key).is_some_and(|&change| change > self.at) {
            return known;
        }
        let same =
            |now: &FileIdentity| known.is_none_or(|file| file.identity == (now.dev, now.ino));
        if let Some(now) = descriptor::identify(call.tid, call.fd).filter(same) {
            self.received(key, &now);
            self.set_file(call.pid, call.fd, now, true);
        } else if let Some(Descriptor { file: Some(file), .. }) = self.descriptors.get_mut(&key) {
            file.settled = true;
        }
        self.descriptors.get(&key).and_then(|descriptor| descriptor.file)
    }

    /// Whether a call began before the snapshot of its process.
    fn precedes_snapshot(&self, call: &Call) -> bool {
        self.snapshots.get(&call.pid).is_some_and(|&at_ns| call.start_ns < at_ns)
    }
}
