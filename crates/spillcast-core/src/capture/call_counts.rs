//! Notices reads and writes that the kernel counted but the source did not report.
//!
//! /proc/PID/io counts the calls of a process, and those of each child once the process, or the one
//! that adopted the child, has waited for it. So the reports for a process that has ended are added
//! to those of its parent, and the sums of all processes are compared. A reported call that the
//! kernel does not count, such as a call on an invalid descriptor, hides a missing one. A core dump
//! counts as many writes.

use std::iter::successors;
use std::path::Path;

use rustc_hash::FxHashMap;
use spillcast_calls::CallKind;

use super::event::Event;
use crate::proc::{children, moved_in, moved_path, parent, process_of, threads_of};

/// Reads by the kernel during execve, which are counted as reads of the process.
const READS_OF_EXEC: u64 = 16;

/// The counts of all observed processes, and of threads that are observed alone.
#[derive(Default)]
pub(crate) struct CallCounts {
    processes: FxHashMap<i32, Process>,
    is_compared: bool,
    /// The largest number of unreported calls in any comparison.
    pub unreported: u64,
}

#[derive(Default)]
struct Process {
    parent: i32,
    /// File with the kernel's counts of its calls: finding it costs more than reading it.
    path: String,
    /// Calls reported by the source, plus the kernel's count when the process was attached.
    reported: u64,
    /// The kernel's count at the last look.
    counted: u64,
}

impl CallCounts {
    /// Starts to count processes, each listed before its children, or a thread.
    pub fn attach(&mut self, ids: &[i32]) {
        // A child that ends meanwhile is counted before its parent. A child that ended before is
        // not observed, and its parent has yet to wait for it.
        for &id in ids.iter().rev() {
            let children = if process_of(id) == id { children(id) } else { Vec::new() };
            children.into_iter().chain([id]).for_each(|id| self.add_counted(id));
        }
    }

    fn add_counted(&mut self, id: i32) {
        let path = moved_path(id);
        let counted = counted(&path).unwrap_or(u64::MAX / 2);
        let Some(parent) = parent(id) else { return };
        // A call that a thread is in is counted when it ends, but not reported.
        let in_flight = threads_of(id).map_or(0, |threads| threads.len());
        let reported = counted + in_flight as u64;
        self.processes.entry(id).or_insert(Process { parent, path, reported, counted: 0 });
    }

    /// Counts the reports of a source.
    pub fn take(&mut self, events: &[Event]) {
        for event in events {
            match event {
                Event::Call(call, _) if call.kind.is_io() => self.add(call.pid, call.tid, 1),
                Event::Call(call, _) if call.kind.copies() && call.kind != CallKind::Splice => {
                    self.add(call.pid, call.tid, 2)
                }
                Event::Exec { pid } => self.add(*pid, *pid, READS_OF_EXEC),
                Event::Fork { parent, child } => {
                    self.end(&[*child]);
                    let (parent, path) = (*parent, format!("/proc/{child}/io"));
                    let process = Process { parent, path, ..Process::default() };
                    self.processes.insert(*child, process);
                }
                _ => (),
            }
        }
    }

    /// Reads the kernel's counts, before the reports up to now are taken.
    pub fn look(&mut self) {
        for process in self.processes.values_mut() {
            process.counted = counted(&process.path).unwrap_or(0);
        }
        self.is_compared = false;
    }

    /// Compares the last look with the reports, which have been taken up to that look.
    pub fn compare(&mut self) {
        if std::mem::replace(&mut self.is_compared, true) {
            return;
        }
        let is_gone = |id: &i32| !Path::new("/proc").join(id.to_string()).exists();
        let gone: Vec<i32> = self.processes.keys().copied().filter(is_gone).collect();
        self.end(&gone);
        let sum = |count: fn(&Process) -> u64| {
            self.processes.values().map(count).fold(0, u64::saturating_add)
        };
        let missing =
            sum(|process| process.counted).saturating_sub(sum(|process| process.reported));
        self.unreported = self.unreported.max(missing);
    }

    fn add(&mut self, pid: i32, tid: i32, calls: u64) {
        let id = if self.processes.contains_key(&tid) { tid } else { pid };
        if let Some(process) = self.processes.get_mut(&id) {
            process.reported = process.reported.saturating_add(calls);
        }
    }

    /// Removes processes that their parents, or the processes that adopted them, have waited for.
    fn end(&mut self, ids: &[i32]) {
        let remove = |id: &i32| self.processes.remove_entry(id);
        let ended: FxHashMap<i32, Process> = ids.iter().filter_map(remove).collect();
        if ended.is_empty() {
            return;
        }
        // A reused process id must not lead in a circle.
        let heir = |process: &Process| {
            let parent = |id: &i32| ended.get(id).map(|process| process.parent);
            successors(Some(process.parent), parent).take(ended.len() + 1).last().unwrap_or(0)
        };
        for process in self.processes.values_mut() {
            process.parent = heir(process);
        }
        for process in ended.values() {
            let id = heir(process);
            self.add(id, id, process.reported);
        }
    }
}

/// Calls since the start of a process; None if it has ended or /proc refuses access.
fn counted(path: &str) -> Option<u64> {
    moved_in(path).map(|moved| moved.reads + moved.writes)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use spillcast_calls::Call;

    use super::super::event::Inside;
    use super::*;

    /// Makes 1,000 calls in a child of the shell.
    const COPIES: &str = "read go; dd if=/dev/zero of=/dev/null bs=1 count=500 2>&-; read end";

    #[test]
    fn calls_of_unreported_children_are_counted_as_missed() {
        let mut shell =
            Command::new("sh").args(["-c", COPIES]).stdin(Stdio::piped()).spawn().unwrap();
        let (pid, child) = (shell.id() as i32, i32::MAX);
        let [mut blind, mut seeing] = [CallCounts::default(), CallCounts::default()];
        blind.attach(&[pid]);
        seeing.attach(&[pid]);
        let path = moved_path(pid);
        let before = counted(&path).unwrap();
        shell.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        while counted(&path).unwrap() < before + 1_000 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let call = Call::of((child, child), CallKind::Read, 0, (1, 2), 1);
        let mut events = vec![Event::Fork { parent: pid, child }, Event::Exec { pid: child }];
        events.resize(1_020, Event::Call(call, Inside::default()));
        seeing.take(&events);
        for counts in [&mut blind, &mut seeing] {
            counts.look();
            counts.compare();
        }
        shell.kill().unwrap();
        shell.wait().unwrap();
        assert_eq!(seeing.unreported, 0);
        assert!((1_000..1_100).contains(&blind.unreported), "{}", blind.unreported);
    }
}
