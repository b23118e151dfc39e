//! Time that observed threads were runnable but not scheduled, and how much others can explain.
//!
//! While an observed thread waits for a CPU, all CPUs are busy with observed threads or with other
//! processes. So the others explain at most as much of the delay as the CPU time that they used.

use std::collections::HashMap;
use std::fs;

use crate::proc::{threads_of, ticks_ns};
use crate::system::now_ns;

/// The minimum length of a window: the machine's CPU time is counted in coarse ticks.
const WINDOW_NS: u64 = 1_000_000_000;

/// The CPU time and the delay of threads, summed over windows of time.
#[derive(Default)]
pub(crate) struct RunQueue {
    /// By thread, at the last look.
    threads: HashMap<i32, Scheduled>,
    last_look_ns: u64,
    /// CPU time and delay of all threads since the first look.
    total: Scheduled,
    window: Window,
    /// The part of the delay that others can explain at most, up to the last complete window.
    pub(crate) others_ns: u64,
}

/// CPU time of a thread, and its time runnable but not scheduled, since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Scheduled {
    pub cpu_ns: u64,
    pub delay_ns: u64,
}

impl Scheduled {
    /// Parses a thread's schedstat.
    pub fn parse(text: &str) -> Option<Scheduled> {
        let mut numbers = text.split_ascii_whitespace().map(str::parse);
        Some(Scheduled { cpu_ns: numbers.next()?.ok()?, delay_ns: numbers.next()?.ok()? })
    }
}

/// The state at the start of a window.
#[derive(Default)]
struct Window {
    start_ns: u64,
    /// CPU time of the whole machine since it booted; None if unknown.
    machine_ns: Option<u64>,
    total: Scheduled,
}

impl RunQueue {
    /// Reads the times of every thread; `last`: no later look follows.
    ///
    /// `known_cpu_ns` is the CPU time since the first look as counted by the source, which includes
    /// threads that ended between two looks.
    pub fn look(&mut self, pids: impl Iterator<Item = i32>, known_cpu_ns: u64, last: bool) {
        let now_ns = now_ns();
        let first = self.last_look_ns == 0;
        for pid in pids {
            for tid in threads_of(pid).unwrap_or_default() {
                if let Some(scheduled) = scheduled(tid) {
                    self.add(tid, scheduled, if first { 0 } else { now_ns - self.last_look_ns });
                }
            }
        }
        self.last_look_ns = now_ns;
        if first || last || now_ns - self.window.start_ns >= WINDOW_NS {
            self.close(now_ns, machine_cpu_ns(), known_cpu_ns);
        }
    }

    /// Adds the increase of a thread; for a new thread, at most the time since the last look.
    fn add(&mut self, tid: i32, now: Scheduled, since_ns: u64) {
        let before = self.threads.insert(tid, now);
        let (cpu_ns, delay_ns) = match before {
            Some(before) => {
                let more = |now: u64, before: u64| now.saturating_sub(before);
                (more(now.cpu_ns, before.cpu_ns), more(now.delay_ns, before.delay_ns))
            }
            None => (now.cpu_ns.min(since_ns), now.delay_ns.min(since_ns)),
        };
        self.total.cpu_ns += cpu_ns;
        self.total.delay_ns += delay_ns;
    }

    fn close(&mut self, now_ns: u64, machine_ns: Option<u64>, known_cpu_ns: u64) {
        self.total.cpu_ns = self.total.cpu_ns.max(known_cpu_ns);
        let start = &self.window;
        let used_ns = machine_ns.zip(start.machine_ns).map(|(now, then)| now.saturating_sub(then));
        let scheduled = Scheduled {
            cpu_ns: self.total.cpu_ns - start.total.cpu_ns,
            delay_ns: self.total.delay_ns - start.total.delay_ns,
        };
        self.others_ns += others_max_ns(scheduled, used_ns);
        self.window = Window { start_ns: now_ns, machine_ns, total: self.total };
    }

    /// Number of threads that were seen, including those that have ended.
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Time that the observed threads were runnable but not scheduled, since the first look.
    pub fn delay_ns(&self) -> u64 {
        self.total.delay_ns
    }
}

/// The part of the threads' delay that others can explain at most, given the CPU time of the whole
/// machine; all of it if that is unknown.
pub(crate) fn others_max_ns(scheduled: Scheduled, machine_ns: Option<u64>) -> u64 {
    match machine_ns {
        Some(all_ns) => scheduled.delay_ns.min(all_ns.saturating_sub(scheduled.cpu_ns)),
        None => scheduled.delay_ns,
    }
}

fn scheduled(tid: i32) -> Option<Scheduled> {
    Scheduled::parse(&fs::read_to_string(format!("/proc/{tid}/task/{tid}/schedstat")).ok()?)
}

/// CPU time of the whole machine since it booted, including time stolen by the hypervisor.
pub(crate) fn machine_cpu_ns() -> Option<u64> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    busy_ticks(&text).map(ticks_ns)
}

/// The ticks in the first line of /proc/stat that are neither idle nor waiting for I/O. Guest ticks
/// are included in user and nice ticks.
fn busy_ticks(text: &str) -> Option<u64> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line.split_ascii_whitespace().map_while(|n| n.parse().ok()).collect();
    let [user, nice, system, _idle, _iowait, irq, softirq, steal] = *ticks.first_chunk()?;
    Some(user + nice + system + irq + softirq + steal)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn waiting_for_each_other_is_not_waiting_for_others() {
        // Three threads on two CPUs without other load: they wait a third of their time.
        let scheduled = Scheduled { cpu_ns: 2 * S, delay_ns: S };
        assert_eq!(others_max_ns(scheduled, Some(2 * S)), 0);
        // Others used as much CPU time as the threads waited for; then more.
        assert_eq!(others_max_ns(Scheduled { cpu_ns: S, delay_ns: S }, Some(2 * S)), S);
        assert_eq!(others_max_ns(Scheduled { cpu_ns: S, delay_ns: S / 4 }, Some(2 * S)), S / 4);
        assert_eq!(others_max_ns(scheduled, None), S);
    }

    #[test]
    fn times_before_a_thread_was_seen_are_not_counted() {
        let mut queue = RunQueue::default();
        queue.add(1, Scheduled { cpu_ns: 90 * S, delay_ns: 9 * S }, 0);
        queue.close(0, Some(1000 * S), 0);
        queue.add(1, Scheduled { cpu_ns: 91 * S, delay_ns: 10 * S }, S);
        // Started since then, or only discovered now.
        queue.add(2, Scheduled { cpu_ns: S / 2, delay_ns: S / 8 }, S);
        queue.add(3, Scheduled { cpu_ns: 50 * S, delay_ns: 0 }, S);
        queue.close(S, Some(1003 * S), S);
        assert_eq!(queue.delay_ns(), S + S / 8);
        // Of 3 s of CPU time, others used half a second.
        assert_eq!(queue.others_ns, S / 2);
    }

    #[test]
    fn times_of_threads_that_ended_unseen_are_not_those_of_others() {
        let mut queue = RunQueue::default();
        queue.add(1, Scheduled::default(), 0);
        queue.close(0, Some(0), 0);
        queue.add(1, Scheduled { cpu_ns: S, delay_ns: S }, S);
        queue.close(S, Some(2 * S), 2 * S);
        assert_eq!(queue.others_ns, 0);
        // The source may report it late.
        queue.add(1, Scheduled { cpu_ns: 2 * S, delay_ns: S }, S);
        queue.close(2 * S, Some(3 * S), 2 * S);
        assert_eq!(queue.others_ns, 0);
    }

    #[test]
    fn busy_ticks_of_the_machine_are_parsed() {
        let text = "cpu  10 20 30 4000 500 6 7 8 9 10\ncpu0 1 2 3 4\n";
        assert_eq!(busy_ticks(text), Some(81));
        assert_eq!(busy_ticks("cpu  10 20 30 4000 500 6 7\n"), None);
        assert_eq!(busy_ticks("intr 1 2 3\n"), None);
    }
}
