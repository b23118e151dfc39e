//! Watches the observed processes in /proc for run-queue delay and for I/O without system calls.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use super::call_counts::CallCounts;
use super::event::FileIdentity;
use super::run_queue::RunQueue;
use super::temp::TempRules;
use crate::proc::{DELETED_MARK, Mapped, descriptors, ended, read_text};
use crate::system::now_ns;

/// The largest page of any architecture; data that does not fit in memory takes more.
const LARGEST_PAGE_BYTES: u64 = 64 << 10;

/// How soon a process is looked at after it begins, and the longest time between two looks.
const FIRST_LOOK_NS: u64 = 100_000_000;
const LOOKS_APART_MAX_NS: u64 = 5_000_000_000;
/// How soon it is looked at after it has resized a file, which programs do before they map one.
const RESIZED_NS: u64 = 500_000_000;

/// When a process began, and when its next look is due (CLOCK_MONOTONIC).
pub(crate) struct Schedule {
    begun_ns: u64,
    due_ns: u64,
}

/// The observed processes, and findings about them in /proc.
#[derive(Default)]
pub struct Watch {
    pub(crate) pids: BTreeMap<i32, Schedule>,
    pub(crate) calls: CallCounts,
    pub(crate) run_queue: RunQueue,
    pub io_uring: bool,
    /// Whether a process uses io_submit (libaio), whose requests no source reports.
    pub(crate) libaio: bool,
    /// Temp files mapped shared, for writing or reading: this I/O makes no system calls.
    pub(crate) mapped: BTreeSet<String>,
}

impl Watch {
    /// The observed processes that have not ended.
    pub fn running(&self) -> Vec<i32> {
        self.pids.keys().copied().filter(|&pid| !ended(pid)).collect()
    }

    /// Adds a process, or notes that it has executed another program.
    pub(crate) fn begin(&mut self, pid: i32) {
        let begun_ns = now_ns();
        self.pids.insert(pid, Schedule { begun_ns, due_ns: begun_ns + FIRST_LOOK_NS });
    }

    /// Notes that a process has resized a file.
    pub(crate) fn resized(&mut self, pid: i32) {
        if let Some(schedule) = self.pids.get_mut(&pid) {
            schedule.due_ns = schedule.due_ns.min(now_ns() + RESIZED_NS);
        }
    }

    /// Looks for mapped temp files and io_uring in the processes whose look is due; with `last`, in
    /// all.
    pub(crate) fn look_for_blind_spots(&mut self, rules: &mut TempRules, last: bool) {
        let now_ns = now_ns();
        for (pid, schedule) in &mut self.pids {
            if now_ns < schedule.due_ns && !last {
                continue;
            }
            let age_ns = now_ns - schedule.begun_ns;
            schedule.due_ns = now_ns + age_ns.clamp(FIRST_LOOK_NS, LOOKS_APART_MAX_NS);
            self.io_uring |=
                descriptors(*pid).any(|(_, shown)| shown.as_os_str() == "anon_inode:[io_uring]");
            let maps = read_text(format!("/proc/{pid}/maps")).unwrap_or_default();
            self.libaio |= maps.contains(" /[aio]");
            let files = maps.lines().filter_map(shared_file);
            let temp = files
                .filter(|file| rules.kind(*pid, file).may_be_temp(file.unlinked))
                .map(|file| file.path);
            self.mapped.extend(temp);
        }
    }
}

/// The file of a line of /proc/PID/maps, if it is mapped shared and larger than a semaphore or a
/// counter. An unlinked file in /dev/shm need not be a temp file: shared memory is unlinked, too.
fn shared_file(line: &str) -> Option<FileIdentity> {
    let Mapped { start, end, permissions, name: shown, .. } = Mapped::parse(line)?;
    let shared_memory = shown.starts_with("/dev/shm/");
    let device = shown.starts_with("/dev/") && !shared_memory;
    let memory = device || shown.starts_with("/memfd:") || shown.starts_with("/SYSV");
    let small = end.saturating_sub(start) <= LARGEST_PAGE_BYTES;
    if !shown.starts_with('/')
        || memory
        || small
        || !permissions.starts_with('r')
        || !permissions.ends_with('s')
    {
        return None;
    }
    let path = shown.strip_suffix(DELETED_MARK);
    let (path, unlinked) = (path.unwrap_or(shown).to_owned(), path.is_some());
    Some(FileIdentity::named(path, unlinked && !shared_memory))
}

/// Up to this many threads are read often: the delay of a thread after its last look is lost.
const FEW_THREADS: usize = 16;

/// Schedule of the reads of /proc: delays of few threads four times a second, of more threads once
/// a second; counts of calls soon after the start and then every five seconds; blind spots of the
/// processes that are due ten times a second.
pub(crate) struct Looks {
    start: Instant,
    delay_s: f64,
    calls_s: f64,
    blind_spots_s: f64,
}

pub(crate) struct Due {
    pub delay: bool,
    pub(crate) calls: bool,
    pub(crate) blind_spots: bool,
}

impl Default for Looks {
    fn default() -> Self {
        Looks { start: Instant::now(), delay_s: 0.0, calls_s: 0.1, blind_spots_s: 0.1 }
    }
}

impl Looks {
    pub fn due(&mut self, threads: usize, last: bool) -> Due {
        let now_s = self.start.elapsed().as_secs_f64();
        let due = Due {
            delay: last || now_s >= self.delay_s,
            calls: last || now_s >= self.calls_s,
            blind_spots: last || now_s >= self.blind_spots_s,
        };
        if due.delay {
            self.delay_s = now_s + if threads <= FEW_THREADS { 0.25 } else { 1.0 };
        }
        if due.calls {
            self.calls_s = (2.0 * now_s).clamp(0.2, now_s + 5.0);
        }
        if due.blind_spots {
            self.blind_spots_s = now_s + 0.1;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_shared_files_are_blind_spots() {
        let file = |permissions: &str, path: &str| {
            shared_file(&format!("7f00000-7f20000 {permissions} 0 fe:00 1234    {path}"))
        };
        let file_mapped = file("rw-s", "/data/my sort.tmp (deleted)").unwrap();
        assert_eq!((file_mapped.path.as_str(), file_mapped.unlinked), ("/data/my sort.tmp", true));
        for shared in ["/dev/shm/spill.1", "/dev/shm/psm_1 (deleted)"] {
            assert!(!file("rw-s", shared).unwrap().unlinked);
        }
        let semaphore = "7f1000-7f2000 rw-s 00000000 00:18 12 /dev/shm/sem.aB3xY9 (deleted)";
        assert_eq!(shared_file(semaphore), None);
        assert_eq!(file("rw-p", "/data/x"), None);
        assert_eq!(file("---s", "/data/x"), None);
        assert_eq!(file("r--s", "/data/x").unwrap().path, "/data/x");
        assert_eq!(file("rw-s", "/memfd:ring (deleted)"), None);
        assert_eq!(file("rw-s", "/dev/zero (deleted)"), None);
        assert_eq!(shared_file("7f00-7f01 rw-s 00000000 00:00 0"), None);
    }
}
