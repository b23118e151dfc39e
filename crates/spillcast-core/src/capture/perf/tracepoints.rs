//! The numbers of the kernel's tracepoints: read from tracefs, or discovered without it.
//!
//! Root reads tracefs through a private mount that no other process sees. An ordinary user cannot
//! read it, but may trace the system calls of their own processes, and only those tracepoints
//! accept raw samples from them. So each number is opened on this process, each call is issued once
//! with a bad descriptor, and the samples show which number belongs to which call.
//!
//! Closing an event takes the kernel some 30 ms. So the search jumps, tries neighbours first, and
//! closes events in the background. A command that an ordinary user records still ends some 3 s
//! later.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use perf_event_open_sys::bindings as sys;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use spillcast_calls::CallKind;

use super::open::{self, Also, THIS_THREAD};
use super::ring::{Ring, page_bytes};
use crate::native::{u32_at, u64_at};
use crate::proc::in_first_namespace;

/// Whether a tracepoint is at the entry or the exit of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edge {
    Enter,
    Exit,
}

/// Tracepoint numbers of the observed calls; calls that the kernel does not know are absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tracepoints {
    list: Vec<(u16, CallKind, Edge)>,
    by_id: Vec<Option<(CallKind, Edge)>>,
    /// `sched:sched_waking` and the thread that is woken. None without tracefs, and in a PID
    /// namespace, because the tracepoint reports ids of the initial namespace.
    pub(crate) waking: Option<Field>,
    /// `task:task_rename` and the new name; None without tracefs.
    pub(crate) renaming: Option<Field>,
}

/// A tracepoint and one of its fields.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Field {
    pub id: u16,
    /// Offset of the field in its raw data.
    pub at: usize,
}

impl Tracepoints {
    fn add(&mut self, id: u16, kind: CallKind, edge: Edge) {
        if self.by_id.len() <= id as usize {
            self.by_id.resize(id as usize + 1, None);
        }
        self.by_id[id as usize] = Some((kind, edge));
        self.list.push((id, kind, edge));
    }

    pub fn of(&self, id: u16) -> Option<(CallKind, Edge)> {
        *self.by_id.get(id as usize)?
    }

    /// Whether entry and exit of each call are known that a recording cannot do without.
    fn complete(&self) -> bool {
        let needed = |kind: &CallKind| {
            use CallKind::*;
            kind.is_io() || matches!(kind, Lseek | Openat | Close | Ftruncate)
        };
        let sides = |kind| self.list.iter().filter(|&&(_, other, _)| other == kind).count();
        CallKind::ALL.iter().filter(|kind| needed(kind)).all(|&kind| sides(kind) == 2)
    }

    /// The tracepoints by which `calls` are observed, and what each does in addition. Each costs
    /// the kernel some 0.3 us at a context switch of an observed thread, so useless ones are
    /// skipped: exits of close, and calls on paths, because no event reports the path.
    pub(crate) fn of_calls(&self, calls: &[CallKind]) -> Vec<(u16, Also)> {
        let needless =
            |kind: CallKind, edge| (kind.closes() && edge == Edge::Exit) || kind.names_file();
        let needed = self
            .list
            .iter()
            .filter(|&&(_, kind, edge)| calls.contains(&kind) && !needless(kind, edge));
        let also = |kind: CallKind, edge| match (kind.opens(), edge) {
            (true, Edge::Enter) => Also::Stack,
            (true, Edge::Exit) => Also::Wakes,
            (false, _) => Also::Nothing,
        };
        needed.map(|&(id, kind, edge)| (id, also(kind, edge))).collect()
    }

    /// Determines the numbers, from tracefs if it can be read and by trying otherwise.
    pub fn find() -> io::Result<Tracepoints> {
        for directory in ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"] {
            if let Some(tracepoints) = from_directory(Path::new(directory)) {
                return Ok(tracepoints);
            }
        }
        match from_own_mount() {
            Some(tracepoints) => Ok(tracepoints),
            None => by_trying(),
        }
    }
}

fn from_directory(tracefs: &Path) -> Option<Tracepoints> {
    let mut tracepoints = Tracepoints::default();
    for &kind in CallKind::ALL {
        for (edge, word) in [(Edge::Enter, "enter"), (Edge::Exit, "exit")] {
            let path = tracefs.join(format!("events/syscalls/sys_{word}_{}/id", kind.name()));
            if let Some(id) = fs::read_to_string(path).ok().and_then(|s| s.trim().parse().ok()) {
                tracepoints.add(id, kind, edge);
            }
        }
    }
    tracepoints.waking =
        field(tracefs, "sched/sched_waking", "pid").filter(|_| in_first_namespace());
    tracepoints.renaming = field(tracefs, "task/task_rename", "newcomm");
    (!tracepoints.list.is_empty()).then_some(tracepoints)
}

fn field(tracefs: &Path, tracepoint: &str, name: &str) -> Option<Field> {
    let read = |file| fs::read_to_string(tracefs.join("events").join(tracepoint).join(file)).ok();
    let at = offset(&read("format")?, name)?;
    Some(Field { id: read("id")?.trim().parse().ok()?, at })
}

/// Offset of a field in raw data, from lines such as `field:pid_t pid; offset:24; size:4;`.
fn offset(format: &str, field: &str) -> Option<usize> {
    let ending = format!(" {field}");
    let name = |line: &str| Some(line.split(';').next()?.split('[').next()?.ends_with(&ending));
    let declared = |line: &&str| name(line) == Some(true);
    let line = format.lines().find(declared)?;
    line.split(';').find_map(|part| part.trim().strip_prefix("offset:"))?.parse().ok()
}

/// Reads tracefs through a private mount that ends with its descriptor.
fn from_own_mount() -> Option<Tracepoints> {
    let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC).ok()?;
    fsconfig_create(context.as_fd()).ok()?;
    let attributes = MountAttrFlags::empty();
    let mount = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes).ok()?;
    from_directory(Path::new(&format!("/proc/self/fd/{}", mount.as_raw_fd())))
}

/// Tracepoints are numbered from 1; kernels with all drivers have some 3,000.
const ID_MAX: u16 = 6_000;
/// Consecutive misses after which a run of numbers is considered to have ended.
const MISSES_MAX: usize = 4;
/// How far from a hit the calls of the next source file are searched first, and in what steps.
const NEAR: i32 = 160;
const NEAR_STEP: usize = 4;

/// The search without tracefs: which numbers were tried, and the events that opened.
struct Search {
    holder: OwnedFd,
    ring: Ring,
    tried: Vec<bool>,
    events: Vec<OwnedFd>,
    tracepoints: Tracepoints,
}

/// Tries numbers far apart until one is known, then its neighbours: calls defined in one kernel
/// source file, or in two that are linked together, have adjacent numbers. Every opened event costs
/// the kernel some 30 ms when it is closed, so few are opened.
///
/// Calls that duplicate descriptors are elsewhere and may be missed; the required ones are not.
fn by_trying() -> io::Result<Tracepoints> {
    let holder = open::dummy(-1)?;
    let ring = Ring::map(holder.as_fd(), 64 * page_bytes())?;
    let tried = vec![false; ID_MAX as usize + 1];
    let mut search =
        Search { holder, ring, tried, events: Vec::new(), tracepoints: Tracepoints::default() };
    for step in [16, 8, 4, 2, 1] {
        for id in (1..=ID_MAX).step_by(step) {
            if search.tracepoints.complete() {
                break;
            }
            search.follow(id)?;
        }
    }
    let Search { events, tracepoints, .. } = search;
    std::thread::spawn(move || drop(events));
    match tracepoints.complete() {
        true => Ok(tracepoints),
        false => Err(io::Error::from_raw_os_error(libc::EACCES)),
    }
}

impl Search {
    /// Opens number `id` on this thread, once; returns whether it belongs to an observed call. Most
    /// numbers are refused, which costs little.
    fn open(&mut self, id: u16) -> io::Result<bool> {
        if !std::mem::replace(&mut self.tried[id as usize], true) {
            match open::tracepoint(id, THIS_THREAD, -1, Also::Nothing) {
                Ok(event) => {
                    open::redirect(&event, &self.holder)?;
                    self.events.push(event);
                    self.learn();
                }
                Err(error) if error.raw_os_error() == Some(libc::EMFILE) => return Err(error),
                Err(_) => (),
            }
        }
        Ok(self.tracepoints.of(id).is_some())
    }

    /// Tries a number; if it is known, also tries the numbers around it.
    fn follow(&mut self, id: u16) -> io::Result<()> {
        if !self.open(id)? {
            return Ok(());
        }
        self.try_neighbours(id, 1)?;
        self.try_neighbours(id, -1)?;
        for distance in (0..NEAR).step_by(NEAR_STEP) {
            for near in [id as i32 - distance, id as i32 + distance] {
                let in_range = (1..=ID_MAX as i32).contains(&near);
                if !self.tracepoints.complete() && in_range && self.open(near as u16)? {
                    self.try_neighbours(near as u16, 1)?;
                    self.try_neighbours(near as u16, -1)?;
                }
            }
        }
        Ok(())
    }

    /// Tries the numbers beside a hit until `MISSES_MAX` in a row are misses.
    fn try_neighbours(&mut self, id: u16, direction: i32) -> io::Result<()> {
        let (mut next, mut misses) = (id as i32 + direction, 0);
        while misses < MISSES_MAX && (1..=ID_MAX as i32).contains(&next) {
            misses = if self.open(next as u16)? { 0 } else { misses + 1 };
            next += direction;
        }
        Ok(())
    }

    /// Issues every call once with a bad descriptor and sees under which numbers it is reported.
    fn learn(&mut self) {
        for &kind in CallKind::ALL {
            // close_range succeeds with such arguments, so its entry and exit look the same.
            let tried = kind.number().filter(|_| kind != CallKind::CloseRange);
            let Some(number) = tried else { continue };
            self.ring.drain(|_| ());
            // SAFETY: each call fails on its descriptor, or on a path at address -1.
            unsafe { libc::syscall(number, -1, -1, 0, -1, 1, 0) };
            let mut seen = Vec::new();
            self.ring.drain(|record| seen.extend(raw_syscall(record)));
            for (id, nr, value) in seen {
                if nr == number && self.tracepoints.of(id).is_none() {
                    // Exits hold a small negative errno, which is not a first argument here.
                    let failed = (-4095..-1).contains(&value);
                    self.tracepoints.add(id, kind, if failed { Edge::Exit } else { Edge::Enter });
                }
            }
        }
    }
}

/// (tracepoint number, syscall number, first argument or return value) of a sample.
fn raw_syscall(record: &[u8]) -> Option<(u16, libc::c_long, i64)> {
    if u32_at(record, 0)? != sys::PERF_RECORD_SAMPLE {
        return None;
    }
    let raw = record.get(28..)?;
    let id = u16::from_ne_bytes(*raw.first_chunk()?);
    Some((id, u32_at(raw, 8)? as i32 as libc::c_long, u64_at(raw, 16)? as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_the_offsets_of_the_format() {
        let format = "name: sched_waking\nID: 375\nformat:\n\
            \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
            \tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
            \tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n\n\
            print fmt: \"comm=%s pid=%d\", REC->comm, REC->pid\n";
        assert_eq!(offset(format, "pid"), Some(24));
        assert_eq!(offset(format, "comm"), Some(8));
        assert_eq!(offset(format, "common_pid"), Some(4));
        assert_eq!(offset(format, "prio"), None);
    }

    #[test]
    fn trying_finds_what_tracefs_says() {
        let Some(mut known) = from_own_mount() else {
            eprintln!("SKIP trying_finds_what_tracefs_says: mounting tracefs needs CAP_SYS_ADMIN");
            return;
        };
        // The search relies on an ordinary user being able to open only syscall tracepoints.
        let tracepoints = std::thread::spawn(|| {
            // SAFETY: no pointer is passed; the raw system call changes only this thread.
            let none = unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) };
            assert_eq!(none, 0);
            by_trying()
        });
        let mut tracepoints = tracepoints.join().unwrap().unwrap();
        eprintln!("{} of {} numbers", tracepoints.list.len(), known.list.len());
        assert!(tracepoints.complete());
        assert_eq!((tracepoints.waking, tracepoints.renaming), (None, None));
        known.list.sort_by_key(|entry| entry.0);
        tracepoints.list.sort_by_key(|entry| entry.0);
        assert!(
            tracepoints.list.iter().all(|entry| known.list.contains(entry)),
            "{tracepoints:?} {known:?}"
        );
    }
}
