//! Capture with eBPF: programs in the kernel pair the start and the end of each call and wait.
//!
//! Works as root, or with CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE, where the kernel has BTF.
//!
//! The programs keep the state of each observed thread: its current call, when it was scheduled in,
//! since when it waits and who woke it. One report leaves the kernel for each finished call and
//! each wait. That is half as many as reports of starts and ends, and they need no sorting.
//!
//! A thread is observed if it is in the kernel's map. A fork of an observed thread adds the child
//! before its first instruction. So attaching takes one map entry for each thread and no
//! descriptor.
//!
//! The report of an open holds the path that the program gave, and the device, inode and type of
//! the file. So a file that is removed a moment later is identified as well.
//!
//! No helper shows whether a waking came from the current thread or from an interrupt. But an
//! interrupt runs on its own stack, and the context of a program lies on the stack that it runs on.
//!
//! The ring does not wake its reader, because a wake-up would cost the observed thread about a
//! microsecond. The reader polls it a hundred times a second.

mod btf;
mod load;
mod observer;
mod record;

use std::collections::HashMap;
use std::fs;
use std::io;
use std::mem;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use spillcast_calls::{Call, CallKind};

use super::event::{Block, Event, FileIdentity, Inside, Request, StackSample};
use super::paths::{Paths, is_link};
use super::source::{self, Observed, Source};
use crate::proc::in_first_namespace;
use crate::system::now_ns;
use crate::wait::Op;
use load::Reports;
use observer::Observer;
use record::{Named, Record};

/// Polling interval of the ring, which wakes no reader: at most a tenth of it fills meanwhile.
const NAP: Duration = Duration::from_millis(10);
/// The same while a new child of a server is undecided, and while the ring fills fast.
const SHORT_NAP: Duration = Duration::from_millis(1);
/// The ring fills fast if a drain takes this many reports: a quarter of what it holds.
const MANY: usize = 12_000;

/// Indices of the programs' counters.
const LOST: u32 = 0;
const CALLS: u32 = 1;
const SWITCHES: u32 = 2;
const UNSEEN: u32 = 3;
const FILE_FAULTS: u32 = 4;
const FILE_FAULT_NS: u32 = 5;

/// The programs in the kernel, and the processing of their reports.
struct BpfSource {
    reports: Reports,
    observer: Arc<Observer>,
    paths: Paths,
    /// By thread, the waits in its current call, except the last one.
    inside: HashMap<i32, Vec<Block>>,
    /// Events of children that are not known to be wanted.
    undecided: HashMap<i32, Vec<Event>>,
    cpu_ns: u64,
    damaged: u64,
    /// Number of reports in the last drain.
    last_look: usize,
}

/// Loads the programs. Errors are those of [`load::load`], and EOPNOTSUPP in a container with a PID
/// namespace of its own.
pub fn open(calls: &[CallKind]) -> io::Result<Box<dyn Source>> {
    if !in_first_namespace() {
        return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
    }
    let (loaded, threads, reports) = load::load(calls)?;
    Ok(Box::new(BpfSource {
        reports,
        observer: Arc::new(Observer {
            threads: Mutex::new(threads),
            children: Mutex::default(),
            _loaded: loaded,
        }),
        paths: Paths::default(),
        inside: HashMap::new(),
        undecided: HashMap::new(),
        cpu_ns: 0,
        damaged: 0,
        last_look: 0,
    }))
}

impl Source for BpfSource {
    fn wait(&self) {
        let calm = self.undecided.is_empty() && self.last_look < MANY;
        thread::sleep(if calm { NAP } else { SHORT_NAP });
    }

    fn drain(&mut self, out: &mut Vec<Event>, last: bool) {
        // Later reports can wait: busy programs must not keep the reader in this loop.
        let until_ns = now_ns();
        self.last_look = 0;
        // Stacks first: the code of a process cannot be read after its end is reported.
        self.drain_stacks(out);
        while let Some(record) = self.reports.ring.next().map(|item| record::parse(&item)) {
            self.last_look += 1;
            if self.take(record, out) > until_ns && !last {
                break;
            }
        }
        self.decide(out);
        if last {
            self.cpu_ns += self.observer.unreported_cpu_ns();
        }
    }

    fn observed(&self) -> Observed {
        let Reports { every_call, requests, samples, file_faults, .. } = self.reports;
        Observed {
            lost: self.damaged + self.counted(LOST),
            calls: self.counted(CALLS),
            switches: Some(self.counted(SWITCHES)),
            cpu_ns: Some(self.cpu_ns),
            every_call,
            sees_io_uring: requests && self.counted(UNSEEN) == 0,
            samples,
            file_faults: file_faults.then(|| self.counted(FILE_FAULTS)),
            file_fault_ns: file_faults.then(|| self.counted(FILE_FAULT_NS)),
            connected: true,
            sampled: None,
        }
    }

    fn observer(&self) -> Option<Arc<dyn source::Observer>> {
        Some(self.observer.clone())
    }
}

impl BpfSource {
    fn counted(&self, counter: u32) -> u64 {
        self.reports.counts.get(&counter, 0).map_or(0, |of_cpus| of_cpus.iter().sum())
    }

    fn drain_stacks(&mut self, out: &mut Vec<Event>) {
        while let Some(record) = self.reports.stacks.next().map(|item| record::parse(&item)) {
            self.take(record, out);
        }
    }

    /// Turns a report into events, or counts it as damaged; returns its time on the clock of the
    /// calls, 0 if it has none.
    fn take(&mut self, record: Option<Record>, out: &mut Vec<Event>) -> u64 {
        let Some(record) = record else {
            self.damaged += 1;
            return 0;
        };
        match record {
            Record::Call(call, block) => {
                let (finished, inside) = self.finished(&call, block);
                self.push(call.header.pid, Event::Call(finished, inside), out);
                call.end_ns
            }
            Record::Named(named) => {
                let (call, inside) = self.finished(&named.call, None);
                let path = named
                    .path()
                    .and_then(|path| self.paths.absolute(call.pid, named.call.fd, &path));
                let event = match path {
                    Some(path) => Event::Named { call, inside, path },
                    None => Event::Call(call, inside),
                };
                self.push(call.pid, event, out);
                call.end_ns
            }
            Record::Opened(named) => {
                let (call, inside) = self.finished(&named.call, None);
                let (pid, fd) = (call.pid, call.ret as i32);
                self.push(pid, Event::Call(call, inside), out);
                if let Some(file) = self.file_of(&named) {
                    self.push(pid, Event::File { pid, fd, file }, out);
                }
                call.end_ns
            }
            Record::Blocked(header, block) => {
                let (inside, tid) = (block.inside, header.tid);
                let block = waited(block);
                if inside == record::IN_CALL {
                    self.inside.entry(tid).or_default().push(block);
                } else if inside == record::IN_ONE_REQUEST {
                    self.push(header.pid, Event::BlockedInRequest { tid, block }, out);
                } else {
                    self.cpu_ns += block.cpu_before_ns;
                    let event = match inside {
                        record::WRITEBACK => Event::BlockedOnIo { tid, block, writeback: true },
                        record::OTHER_IO => Event::BlockedOnIo { tid, block, writeback: false },
                        _ => Event::Blocked { tid, block },
                    };
                    self.push(header.pid, event, out);
                }
                block.end_ns
            }
            Record::Request(request) => {
                self.cpu_ns += request.cpu_before_ns;
                self.push(request.header.pid, Event::Request(ended(&request)), out);
                request.end_ns
            }
            Record::Sample(sample) => {
                let record::Sample { header, time_ns, ip, .. } = sample;
                let (pid, tid) = (header.pid, header.tid);
                self.push(pid, Event::Sample { pid, tid, time_ns, ip }, out);
                time_ns
            }
            Record::Stack(stack) => {
                let record::Stack { header, time_ns, ip, sp, fp, lr, .. } = *stack;
                let sample = StackSample { ip, sp, fp, lr, stack: stack.bytes().to_vec() };
                let (pid, tid, sample) = (header.pid, header.tid, Box::new(sample));
                self.push(pid, Event::Stack { pid, tid, time_ns, sample }, out);
                time_ns
            }
            Record::Fork(life) => {
                let (parent, child) = (life.header.pid, life.child);
                self.paths.started(parent, child);
                if life.role & load::OBSERVED == 0 {
                    self.observer.add_forked(parent, child);
                    self.undecided.insert(child, Vec::new());
                } else if self.undecided.contains_key(&parent) {
                    self.undecided.insert(child, Vec::new());
                }
                self.push(parent, Event::Fork { parent, child }, out);
                0
            }
            Record::Exec(life) => {
                let pid = life.header.pid;
                self.paths.look(pid);
                self.push(pid, Event::Exec { pid }, out);
                0
            }
            Record::ThreadExit(life) => {
                let (pid, tid) = (life.header.pid, life.header.tid);
                self.cpu_ns += life.cpu_ns;
                self.inside.remove(&tid);
                if life.live == 0 && life.role & load::OBSERVED != 0 {
                    self.paths.forget(pid);
                    self.push(pid, Event::ProcessExit { pid }, out);
                }
                0
            }
        }
    }

    fn push(&mut self, pid: i32, event: Event, out: &mut Vec<Event>) {
        match self.undecided.get_mut(&pid) {
            Some(held) => held.push(event),
            None => out.push(event),
        }
    }

    fn finished(&mut self, call: &record::Call, block: Option<record::Block>) -> (Call, Inside) {
        let kind = CallKind::from_u8(call.kind as u8).expect("the programs were told of no other");
        let (pid, tid) = (call.header.pid, call.header.tid);
        let timed = kind.is_timed();
        if timed {
            self.cpu_ns += call.cpu_before_ns;
        }
        let mut blocks = self.inside.get_mut(&tid).map(mem::take).unwrap_or_default();
        blocks.extend(block.map(waited));
        let cpu_ns = call.inside_cpu_ns;
        // In a call with a path, `call.fd` is the folder that the path starts from.
        let fd = if kind.opens() || kind.names_file() { -1 } else { call.fd };
        let finished = Call {
            offset: (call.offset >= 0).then_some(call.offset),
            cpu_before_ns: timed.then_some(call.cpu_before_ns),
            blocked: timed.then_some(call.blocked != 0),
            ..Call::of((pid, tid), kind, fd, (call.start_ns, call.end_ns), call.ret)
        };
        (finished, if timed { Inside { blocks, cpu_ns } } else { Inside::default() })
    }

    /// The file of an opened descriptor, as the kernel had it when the open returned; None if the
    /// path was that of a link that leads elsewhere by now.
    fn file_of(&mut self, named: &Named) -> Option<FileIdentity> {
        let (pid, call) = (named.call.header.pid, &named.call);
        let mut path = self.paths.absolute(pid, call.fd, &named.path()?)?;
        if named.file.links == 0 && Path::new(&path).is_dir() {
            // A nameless file (O_TMPFILE) has the folder's path here: /proc shows it like this.
            path = format!("{path}/#{}", named.file.ino);
        }
        if is_regular(&named.file) && is_link(pid, &path) {
            path = followed(&path, &named.file)?;
        }
        if named.file.mode & libc::S_IFMT == libc::S_IFDIR {
            self.paths.opened(pid, call.ret as i32, &path);
        }
        let file = FileIdentity {
            path,
            dev: device(&named.file),
            ino: named.file.ino,
            regular: is_regular(&named.file),
            unlinked: named.file.links == 0,
            append_at: (named.append_at >= 0).then_some(named.append_at),
            ..FileIdentity::default()
        };
        Some(file)
    }

    /// Releases the events held for children that are now decided, and for the processes that these
    /// have started.
    fn decide(&mut self, out: &mut Vec<Event>) {
        let mut decided = self.observer.decide();
        while let Some((pid, wanted)) = decided.pop() {
            let held = self.undecided.remove(&pid).unwrap_or_default();
            decided.extend(held.iter().filter_map(|event| match event {
                Event::Fork { child, .. } => Some((*child, wanted)),
                _ => None,
            }));
            if wanted {
                out.extend(held);
            } else {
                self.observer.forget(pid);
            }
        }
    }
}

fn ended(request: &record::Request) -> Request {
    let record::Request { header, start_ns, end_ns, ref file, .. } = *request;
    Request {
        pid: header.pid,
        tid: header.tid,
        start_ns,
        end_ns,
        op: if request.write != 0 { Op::Write } else { Op::Read },
        offset: request.offset,
        ret: request.ret.into(),
        file: (device(file), file.ino),
        regular: is_regular(file),
        unlinked: file.links == 0,
        at_once: request.most.into(),
        cpu_before_ns: request.cpu_before_ns,
        busy_ns: request.busy_ns,
    }
}

fn device(file: &record::Identity) -> u64 {
    libc::makedev(file.device >> 20, file.device & 0xfffff)
}

fn is_regular(file: &record::Identity) -> bool {
    file.mode & libc::S_IFMT == libc::S_IFREG
}

/// The path to which a link leads; None unless it leads to this file.
fn followed(link: &str, file: &record::Identity) -> Option<String> {
    let path = fs::canonicalize(link).ok()?;
    let stat = fs::metadata(&path).ok()?;
    let is_same = (stat.dev(), stat.ino()) == (device(file), file.ino);
    is_same.then(|| path.to_string_lossy().into_owned())
}

fn waited(block: record::Block) -> Block {
    let record::Block { start_ns, end_ns, cpu_before_ns, woken_by, .. } = block;
    Block { start_ns, end_ns, cpu_before_ns, woken_by: (woken_by != 0).then_some(woken_by) }
}
