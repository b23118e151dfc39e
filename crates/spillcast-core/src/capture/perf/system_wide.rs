//! System-wide events, which root may open: their cost does not grow with the threads.
//!
//! Root, or a process with CAP_PERFMON, opens each tracepoint once for each CPU: some 50
//! descriptors for each CPU. Attaching a thread costs nothing. The kernel filters by the name of
//! the thread (`comm`; for a waking that of the woken thread), and the reader filters by process.
//! Forks of observed processes are in the same records, in chronological order.
//!
//! A perf event accepts one filter only. So a new name opens further events, and after a few names
//! one set of events passes all other names; no call passes two filters. A tracepoint reports the
//! renaming of a thread and wakes the reader. Calls in the milliseconds until then are missed, so a
//! command that spillcast starts, whose later names are not known in advance, is observed without a
//! filter.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::CString;
use std::fs;
use std::io;
use std::sync::{Arc, Mutex};

use super::super::source::{self, Forks};
use super::events::Events;
use super::forks;
use super::record::{Payload, Record};
use crate::lock::lock;
use crate::proc::{parent, threads_of};
use crate::system::{now_ns, raise_descriptor_limit};

/// Observes processes, or single threads, by their ids.
pub(crate) struct SystemWide {
    events: Arc<Events>,
    /// Start of the observation of each id (CLOCK_MONOTONIC).
    observed: Mutex<HashMap<i32, u64>>,
    /// None until the first process is attached: until then there is nothing to read.
    names: Mutex<Option<Names>>,
}

impl SystemWide {
    pub fn new(events: Arc<Events>) -> SystemWide {
        SystemWide { events, observed: Mutex::default(), names: Mutex::default() }
    }

    /// Keeps the records of observed processes and drops the others. They are in chronological
    /// order, so that a process is known before its first own record.
    pub fn keep(&self, records: &mut Vec<Record>) {
        let mut observed = lock(&self.observed);
        records.retain(|record| match record.payload {
            // Any thread may be the waker; the woken thread's own records show whether it is
            // observed.
            Payload::Lost { .. } | Payload::Waking { .. } => true,
            Payload::Fork { parent } if parent != record.pid => {
                // Ids are reused: from now on this is another process. A process attached after the
                // fork is the forked process itself, and stays observed.
                if observed.get(&record.pid).is_some_and(|&since_ns| since_ns < record.time_ns) {
                    observed.remove(&record.pid);
                }
                let followed = observed.contains_key(&parent);
                if followed {
                    observed.insert(record.pid, record.time_ns);
                }
                followed
            }
            // By process id, or by thread id if the thread was attached alone.
            _ => [record.pid, record.tid]
                .iter()
                .filter_map(|number| observed.get(number))
                .any(|&since_ns| since_ns <= record.time_ns),
        });
    }

    /// Processes that observed processes start in `records`, which are in chronological order.
    pub(crate) fn new_pids(&self, records: &[Record]) -> HashSet<i32> {
        let observed = lock(&self.observed);
        let mut new_pids = HashSet::new();
        for record in records {
            if let Payload::Fork { parent } = record.payload
                && parent != record.pid
                && (observed.contains_key(&parent) || new_pids.contains(&parent))
            {
                new_pids.insert(record.pid);
            }
        }
        new_pids
    }

    /// Whether the process or thread is already known to be observed.
    pub fn observes(&self, number: i32) -> bool {
        lock(&self.observed).contains_key(&number)
    }

    /// Lets threads that have taken a new name pass the filter.
    pub fn rename(&self, name: &[u8]) -> io::Result<()> {
        let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
        self.open(|names| names.widen([name.to_vec()]))
    }

    fn open_for(&self, pid: i32) -> io::Result<()> {
        let names = names_of(pid)?;
        if names.is_empty() {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        // A command started by spillcast executes another program, and its helpers do so again.
        // Their names would pass the filter only some time after they start.
        match parent(pid) == Some(std::process::id() as i32) {
            true => self.open(Names::widen_to_all),
            false => self.open(|known| known.widen(names)),
        }
    }

    fn open(&self, widen: impl FnOnce(&mut Names) -> Option<Pass>) -> io::Result<()> {
        let mut names = lock(&self.names);
        if names.is_none() {
            raise_descriptor_limit();
            self.events.open_switches()?;
        }
        match widen(names.get_or_insert_default()) {
            Some(pass) => self.events.open_calls(|field| pass.filter(field)),
            None => Ok(()),
        }
    }
}

impl source::Observer for SystemWide {
    fn attach(&self, pid: i32) -> io::Result<()> {
        // Before its children are listed, so that later ones are known from their forks.
        lock(&self.observed).entry(pid).or_insert_with(now_ns);
        let opened = self.open_for(pid);
        if opened.is_err() {
            lock(&self.observed).remove(&pid);
        }
        opened
    }

    fn forks(&self, parent: i32, title: &str) -> io::Result<Forks> {
        forks::forks(parent, title)
    }
}

/// Names of the threads of a process; empty if it has ended.
fn names_of(pid: i32) -> io::Result<Vec<Name>> {
    let name = |tid| {
        let mut name = fs::read(format!("/proc/{tid}/comm")).ok()?;
        name.pop_if(|last| *last == b'\n');
        Some(name)
    };
    Ok(threads_of(pid)?.into_iter().filter_map(name).collect())
}

/// Above this number of names, or of openings, there is no filter.
const NAMES_MAX: usize = 16;
const OPENINGS_MAX: usize = 3;

/// The name of a thread in the kernel: at most 15 bytes, without NUL.
type Name = Vec<u8>;

/// Kernel filters by the names of threads, and the names that pass so far: each new name opens
/// further events, and no call passes two of them.
#[derive(Default)]
struct Names {
    known: BTreeSet<Name>,
    openings: usize,
    all: bool,
}

/// The names that further events must pass.
#[derive(Debug, PartialEq)]
enum Pass {
    These(Vec<Name>),
    AllBut(Vec<Name>),
}

impl Names {
    /// Also passes the threads called `names`; returns None if they already pass.
    fn widen(&mut self, names: impl IntoIterator<Item = Name>) -> Option<Pass> {
        let new: BTreeSet<Name> = names.into_iter().filter(|n| !self.known.contains(n)).collect();
        if self.all || new.is_empty() {
            return None;
        }
        let many = self.openings == OPENINGS_MAX || self.known.len() + new.len() > NAMES_MAX;
        // A filter expression cannot contain such a character in a name.
        if many || new.iter().flatten().any(|byte| matches!(byte, b'"' | b'\\')) {
            return self.widen_to_all();
        }
        self.openings += 1;
        self.known.extend(new.iter().cloned());
        Some(Pass::These(new.into_iter().collect()))
    }

    /// Passes all threads; returns None if all already pass.
    fn widen_to_all(&mut self) -> Option<Pass> {
        let before = std::mem::replace(&mut self.all, true);
        (!before).then(|| Pass::AllBut(self.known.iter().cloned().collect()))
    }
}

impl Pass {
    /// The filter expression of the kernel on `field`, which holds the name; None passes all.
    fn filter(&self, field: &str) -> Option<CString> {
        let (names, compare, join) = match self {
            Pass::These(names) => (names, "==", " || "),
            Pass::AllBut(names) => (names, "!=", " && "),
        };
        let mut text = Vec::new();
        for name in names {
            if !text.is_empty() {
                text.extend_from_slice(join.as_bytes());
            }
            text.extend_from_slice(format!("{field} {compare} \"").as_bytes());
            text.extend_from_slice(name);
            text.push(b'"');
        }
        (!text.is_empty()).then(|| CString::new(text).expect("a name holds no NUL"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AWAY: Payload = Payload::SwitchOut { preempted: false };

    fn record(time_ns: u64, pid: i32, payload: Payload) -> Record {
        Record { time_ns, pid, tid: pid, payload }
    }

    fn kept(everyone: &SystemWide, records: &[Record]) -> Vec<u64> {
        let mut records = records.to_vec();
        everyone.keep(&mut records);
        records.iter().map(|record| record.time_ns).collect()
    }

    #[test]
    fn what_observed_processes_start_is_kept_and_nothing_else() {
        let Ok(events) = Events::new(&[]) else {
            eprintln!("SKIP what_observed_processes_start_is_kept: perf events are refused");
            return;
        };
        let everyone = SystemWide::new(Arc::new(events));
        everyone.observed.lock().unwrap().insert(7, 100);
        let fork = |parent| Payload::Fork { parent };
        let records = [
            record(90, 7, AWAY),
            record(110, 7, AWAY),
            record(120, 8, AWAY),
            record(130, 8, fork(7)),
            record(140, 8, AWAY),
            // A thread, a grandchild, another's child; an id that is reused.
            record(150, 8, fork(8)),
            record(160, 9, fork(8)),
            record(170, 9, AWAY),
            record(180, 10, fork(3)),
            record(190, 10, AWAY),
            record(200, 9, fork(3)),
            record(210, 9, AWAY),
        ];
        assert_eq!(everyone.new_pids(&records), HashSet::from([8, 9]));
        assert_eq!(kept(&everyone, &records), [110, 130, 140, 150, 160, 170]);
        assert!(everyone.observes(8) && !everyone.observes(9));
        // Attached before the record of its fork is read.
        everyone.observed.lock().unwrap().insert(11, 100);
        assert_eq!(
            kept(
                &everyone,
                &[record(90, 11, fork(3)), record(95, 11, AWAY), record(105, 11, AWAY)]
            ),
            [105]
        );
        assert!(everyone.observes(11));
        let others = [
            record(220, 3, Payload::Waking { woken: 7, interrupt: false }),
            record(230, 0, Payload::Lost { count: 1 }),
        ];
        assert_eq!(kept(&everyone, &others), [220, 230]);
    }

    fn names(list: &[&str]) -> Vec<Name> {
        list.iter().map(|name| name.as_bytes().to_vec()).collect()
    }

    fn text(pass: Option<Pass>) -> Option<String> {
        pass?.filter("comm").map(|filter| filter.into_string().unwrap())
    }

    #[test]
    fn a_name_is_added_to_the_filter_once() {
        let mut known = Names::default();
        let first = known.widen(names(&["postgres", "duckdb", "postgres"]));
        assert_eq!(text(first).unwrap(), "comm == \"duckdb\" || comm == \"postgres\"");
        assert_eq!(known.widen(names(&["postgres"])), None);
        let second = known.widen(names(&["postgres", "my worker"]));
        assert_eq!(text(second).unwrap(), "comm == \"my worker\"");
        assert_eq!(
            text(known.widen_to_all()).unwrap(),
            "comm != \"duckdb\" && comm != \"my worker\" && comm != \"postgres\""
        );
        assert_eq!(known.widen(names(&["another"])), None);
    }

    #[test]
    fn too_many_names_and_invalid_ones_end_the_filter() {
        let many: Vec<Name> = (0..=NAMES_MAX).map(|n| format!("w{n}").into_bytes()).collect();
        assert_eq!(Names::default().widen(many), Some(Pass::AllBut(vec![])));
        assert_eq!(Names::default().widen(names(&["a\"b"])).unwrap().filter("comm"), None);
        let mut known = Names::default();
        for name in ["a", "b", "c"] {
            assert_eq!(known.widen(names(&[name])), Some(Pass::These(names(&[name]))));
        }
        assert_eq!(known.widen(names(&["d"])), Some(Pass::AllBut(names(&["a", "b", "c"]))));
    }
}
