//! Turns records of all threads into finished calls and waits, each with the CPU time before it.

use std::collections::{HashMap, HashSet};
use std::mem;

use spillcast_calls::{Call, CallKind};

use super::super::event::{Block, Event, Inside};
use super::record::{Payload, Record};
use crate::proc::ended;

/// The state of each observed thread.
#[derive(Default)]
pub struct Threads {
    by_tid: HashMap<i32, Thread>,
    ended_cpu_ns: u64,
    /// Processes whose main thread has ended; other threads may outlive it.
    headless: HashSet<i32>,
    /// Calls and context switches reported by the kernel.
    pub calls: u64,
    pub switches: u64,
    /// Reads and writes with only entry or exit reported, though their thread was observed before.
    pub(crate) lost: u64,
}

#[derive(Default)]
struct Thread {
    /// Start of the time on a CPU that the sums lack; None while the thread is scheduled out.
    on_cpu_since_ns: Option<u64>,
    /// CPU time since the last timed call, up to `on_cpu_since_ns`.
    cpu_ns: u64,
    /// CPU time outside timed calls, up to `on_cpu_since_ns`.
    total_cpu_ns: u64,
    call: Option<Open>,
    /// Whether a call of it was reported before.
    called: bool,
    /// When the thread was scheduled out to wait; None unless it waits.
    left_ns: Option<u64>,
    /// The last waking since it was scheduled in.
    waking: Option<Waking>,
}

#[derive(Clone, Copy)]
struct Waking {
    time_ns: u64,
    by: Option<i32>,
}

/// A call that has begun but not ended.
struct Open {
    kind: CallKind,
    start_ns: u64,
    fd: i32,
    offset: Option<i64>,
    blocked: bool,
    cpu_before_ns: u64,
    inside: Inside,
}

impl Thread {
    /// Moves the CPU time up to `now_ns` into the sums.
    fn settle(&mut self, now_ns: u64) {
        if let Some(since_ns) = self.on_cpu_since_ns {
            let ran_ns = now_ns.saturating_sub(since_ns);
            match &mut self.call {
                Some(call) if call.kind.is_timed() => call.inside.cpu_ns += ran_ns,
                _ => {
                    self.cpu_ns += ran_ns;
                    self.total_cpu_ns += ran_ns;
                }
            }
            self.on_cpu_since_ns = Some(now_ns);
        }
    }

    /// Notes a waking. The first after the thread was scheduled out counts. One just before that
    /// counts only if no other follows: the thread was about to leave the CPU.
    fn woken(&mut self, waking: Waking) {
        let counts = |known: Waking| self.left_ns.is_some_and(|left_ns| known.time_ns >= left_ns);
        if !self.waking.is_some_and(counts) {
            self.waking = Some(waking);
        }
    }

    /// Schedules the thread in; returns its wait, if that was outside of a timed call.
    fn switch_in(&mut self, now_ns: u64) -> Option<Block> {
        self.on_cpu_since_ns = Some(now_ns);
        let waking = self.waking.take();
        let start_ns = self.left_ns.take()?;
        // Records of two CPUs may be read out of order if records between them were lost.
        let end_ns = waking.map_or(now_ns, |waking| waking.time_ns.min(now_ns)).max(start_ns);
        let woken_by = waking.and_then(|waking| waking.by);
        let block = |cpu_before_ns| Block { start_ns, end_ns, cpu_before_ns, woken_by };
        match &mut self.call {
            Some(call) if call.kind.is_timed() => {
                let cpu_ns = mem::take(&mut call.inside.cpu_ns);
                call.inside.blocks.push(block(cpu_ns));
                None
            }
            _ => Some(block(mem::take(&mut self.cpu_ns))),
        }
    }
}

impl Threads {
    /// Processes the next record; appends the event that it completes.
    pub fn take(&mut self, record: &Record, out: &mut Vec<Event>) {
        let &Record { time_ns, pid, tid, ref payload } = record;
        match *payload {
            Payload::Lost { .. } | Payload::Renaming { .. } => (),
            Payload::Sampled { ip } => out.push(Event::Sample { pid, tid, time_ns, ip }),
            Payload::Stack { ref sample } => {
                out.push(Event::Stack { pid, tid, time_ns, sample: sample.clone() });
            }
            Payload::Fork { parent } if parent != pid => {
                out.push(Event::Fork { parent, child: pid });
            }
            Payload::Fork { .. } => (),
            Payload::Exec => out.push(Event::Exec { pid }),
            Payload::ThreadExit => {
                if let Some(mut thread) = self.by_tid.remove(&tid) {
                    thread.settle(time_ns);
                    self.ended_cpu_ns += thread.total_cpu_ns;
                }
                if pid == tid {
                    self.headless.insert(pid);
                }
            }
            Payload::Waking { woken, interrupt } => {
                let by = (self.by_tid.contains_key(&tid) && !interrupt).then_some(tid);
                if let Some(thread) = self.by_tid.get_mut(&woken) {
                    thread.woken(Waking { time_ns, by });
                }
            }
            _ => self.take_of_thread(record, out),
        }
    }

    /// Processes a switch or a call of a thread.
    fn take_of_thread(&mut self, record: &Record, out: &mut Vec<Event>) {
        let &Record { time_ns, pid, tid, ref payload } = record;
        let thread = self.by_tid.entry(tid).or_default();
        thread.settle(time_ns);
        match *payload {
            Payload::SwitchIn => {
                out.extend(thread.switch_in(time_ns).map(|block| Event::Blocked { tid, block }));
            }
            Payload::SwitchOut { preempted } => {
                self.switches += 1;
                thread.on_cpu_since_ns = None;
                thread.left_ns = (!preempted).then_some(time_ns);
                if let Some(call) = &mut thread.call {
                    call.blocked |= !preempted;
                }
            }
            // Only the entry of a close is observed.
            Payload::Enter { kind, fd, offset, .. } if kind.closes() => {
                self.calls += 1;
                thread.on_cpu_since_ns = Some(time_ns);
                let call = Call::of((pid, tid), kind, fd, (time_ns, time_ns), 0);
                out.push(Event::Call(Call { offset, ..call }, Inside::default()));
            }
            Payload::Enter { kind, fd, offset, .. } => {
                thread.on_cpu_since_ns = Some(time_ns);
                let cpu_before_ns = thread.cpu_ns;
                let (start_ns, blocked, inside) = (time_ns, false, Inside::default());
                let open = Open { kind, start_ns, fd, offset, blocked, cpu_before_ns, inside };
                let unfinished = thread.call.replace(open).filter(|call| call.kind.is_io());
                self.lost += u64::from(unfinished.is_some());
                thread.called = true;
            }
            Payload::Exit { kind, ret } => {
                self.calls += 1;
                thread.on_cpu_since_ns = Some(time_ns);
                let known = std::mem::replace(&mut thread.called, true);
                // An exit without its entry: the capture began inside the call, or a seccomp filter
                // refused it. The descriptor that an open returned refers to another file all the
                // same.
                let Some(call) = thread.call.take().filter(|call| call.kind == kind) else {
                    self.lost += u64::from(known && kind.is_io() && ret >= 0);
                    let call = Call::of((pid, tid), kind, -1, (time_ns, time_ns), ret);
                    out.extend(kind.opens().then(|| Event::Call(call, Inside::default())));
                    return;
                };
                if kind.is_timed() {
                    thread.cpu_ns = 0;
                }
                let finished = Call {
                    offset: call.offset,
                    cpu_before_ns: Some(call.cpu_before_ns),
                    blocked: Some(call.blocked),
                    ..Call::of((pid, tid), kind, call.fd, (call.start_ns, time_ns), ret)
                };
                out.push(Event::Call(finished, call.inside));
            }
            _ => (),
        }
    }

    /// Forgets the processes that have no running thread any more, and returns them.
    pub(crate) fn ended_processes(&mut self) -> Vec<i32> {
        self.headless.extract_if(|&pid| ended(pid)).collect()
    }

    /// CPU time of all threads outside their timed calls, up to their last record.
    pub fn cpu_ns(&self) -> u64 {
        self.ended_cpu_ns + self.by_tid.values().map(|thread| thread.total_cpu_ns).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn run(records: &[(u64, Payload)]) -> (Vec<Event>, Threads) {
        let (mut threads, mut out) = (Threads::default(), Vec::new());
        for (time_ns, payload) in records.iter().cloned() {
            threads.take(&Record { time_ns, pid: 7, tid: 8, payload }, &mut out);
        }
        (out, threads)
    }

    #[test]
    fn cpu_time_blocked_time_and_calls_are_separated() {
        let kind = CallKind::Pread64;
        let enter = Payload::Enter { kind, fd: 5, offset: Some(4096), path: None };
        let exit = Payload::Exit { kind, ret: 512 };
        let (events, threads) = run(&[
            (100, Payload::SwitchIn),
            (130, Payload::SwitchOut { preempted: false }),
            (200, Payload::SwitchIn),
            (210, enter.clone()),
            (215, Payload::SwitchOut { preempted: false }),
            (290, Payload::SwitchIn),
            (300, exit.clone()),
            (340, enter),
            (345, Payload::SwitchOut { preempted: true }),
            (350, Payload::SwitchIn),
            (360, exit),
        ]);
        let calls: Vec<_> = events
            .iter()
            .filter_map(|event| match event {
                Event::Call(c, _) => {
                    Some((c.start_ns, c.end_ns, c.cpu_before_ns, c.blocked, c.ret))
                }
                _ => None,
            })
            .collect();
        assert_eq!(calls[0], (210, 300, Some(10), Some(true), 512));
        assert_eq!(calls[1], (340, 360, Some(40), Some(false), 512));
        assert_eq!(threads.cpu_ns(), 30 + 10 + 40);
        assert_eq!((threads.calls, threads.switches), (2, 3));
        assert_eq!(blocks(&events), [block(130, 200, 30, None)]);
    }

    fn block(start_ns: u64, end_ns: u64, cpu_before_ns: u64, woken_by: Option<i32>) -> Block {
        Block { start_ns, end_ns, cpu_before_ns, woken_by }
    }

    fn blocks(events: &[Event]) -> Vec<Block> {
        let block = |event: &Event| match event {
            Event::Blocked { block, .. } => Some(*block),
            _ => None,
        };
        events.iter().filter_map(block).collect()
    }

    const LEFT: Payload = Payload::SwitchOut { preempted: false };

    /// Thread 8 is scheduled out at 100 and in at 200; `waker` wakes it at `times_ns`.
    fn woken(waker: i32, interrupt: bool, times_ns: &[u64]) -> Block {
        let mut records = vec![(10, 9, Payload::SwitchIn), (20, 8, Payload::SwitchIn)];
        let waking = Payload::Waking { woken: 8, interrupt };
        records.extend(times_ns.iter().map(|&time_ns| (time_ns, waker, waking.clone())));
        records.extend([(100, 8, LEFT), (200, 8, Payload::SwitchIn)]);
        records.sort_by_key(|record| record.0);
        let (mut threads, mut out) = (Threads::default(), Vec::new());
        for (time_ns, tid, payload) in records {
            threads.take(&Record { time_ns, pid: 7, tid, payload }, &mut out);
        }
        blocks(&out)[0]
    }

    #[test]
    fn a_wait_ends_with_the_first_wakeup_by_any_waker() {
        assert_eq!(woken(9, false, &[170]), block(100, 170, 80, Some(9)));
        assert_eq!(woken(9, true, &[170]), block(100, 170, 80, None));
        assert_eq!(woken(77, false, &[170]), block(100, 170, 80, None));
        // Already runnable when it is woken again.
        assert_eq!(woken(9, false, &[170, 171]), block(100, 170, 80, Some(9)));
        // Woken just before it leaves the CPU; or woken at 50, while it runs, and again later.
        assert_eq!(woken(9, false, &[99]), block(100, 100, 80, Some(9)));
        assert_eq!(woken(9, false, &[50, 150]), block(100, 150, 80, Some(9)));
    }

    #[test]
    fn a_preempted_thread_does_not_wait() {
        let (events, threads) = run(&[
            (0, Payload::SwitchIn),
            (10, Payload::SwitchOut { preempted: true }),
            (20, Payload::SwitchIn),
            (30, LEFT),
            (40, Payload::SwitchIn),
        ]);
        assert_eq!(blocks(&events), [block(30, 40, 20, None)]);
        assert_eq!(threads.cpu_ns(), 20);
    }

    #[test]
    fn waits_in_a_call_belong_to_it() {
        let (kind, wakes) = (CallKind::Read, Payload::Waking { woken: 8, interrupt: true });
        let (events, _) = run(&[
            (0, Payload::SwitchIn),
            (10, Payload::Enter { kind, fd: 3, offset: None, path: None }),
            (15, LEFT),
            (20, wakes),
            (25, Payload::SwitchIn),
            (30, Payload::Exit { kind, ret: 1 }),
        ]);
        let [Event::Call(call, inside)] = &events[..] else { panic!("{events:?}") };
        assert_eq!((call.cpu_before_ns, inside.cpu_ns), (Some(10), 5));
        assert_eq!(inside.blocks, [block(15, 20, 5, None)]);
    }

    #[test]
    fn a_process_still_ending_at_its_record_has_ended_later() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = child.id() as i32;
        let (mut threads, mut out) = (Threads::default(), Vec::new());
        let record = Record { time_ns: 1, pid, tid: pid, payload: Payload::ThreadExit };
        threads.take(&record, &mut out);
        assert_eq!((threads.ended_processes(), out.len()), (vec![], 0));
        child.wait().unwrap();
        assert_eq!(threads.ended_processes(), [pid]);
        assert!(threads.ended_processes().is_empty());
    }

    #[test]
    fn a_call_without_entry_or_exit_is_lost_unless_the_capture_started_in_it() {
        let enter = |kind| Payload::Enter { kind, fd: 3, offset: None, path: None };
        let exit = |kind, ret| Payload::Exit { kind, ret };
        let (read, control) = (CallKind::Read, CallKind::Fcntl);
        let lost = |payloads: &[Payload]| {
            let times = (0..).step_by(10).zip(payloads.iter().cloned());
            run(&times.collect::<Vec<_>>()).1.lost
        };
        assert_eq!(lost(&[exit(read, 1), enter(read), exit(read, 1)]), 0);
        // Of calls refused by a seccomp filter, and of most fcntl calls, only the exit is reported.
        assert_eq!(lost(&[exit(read, 1), exit(read, -1), exit(control, 0)]), 0);
        assert_eq!(lost(&[exit(read, 1), exit(read, 1)]), 1);
        assert_eq!(lost(&[enter(read), enter(read), exit(read, 1)]), 1);
    }

    #[test]
    fn an_open_is_timed_and_reported_even_if_it_started_before() {
        let (enter, exit) = (
            Payload::Enter { kind: CallKind::Openat, fd: -1, offset: None, path: None },
            Payload::Exit { kind: CallKind::Openat, ret: 5 },
        );
        let (events, threads) = run(&[
            (10, exit.clone()),
            (20, enter),
            (25, LEFT),
            (80, Payload::SwitchIn),
            (90, exit),
        ]);
        let calls: Vec<_> = events
            .iter()
            .filter_map(|event| match event {
                Event::Call(call, inside) => {
                    Some((call.start_ns, call.end_ns, call.ret, call.blocked, inside.cpu_ns))
                }
                _ => None,
            })
            .collect();
        assert_eq!(calls, [(10, 10, 5, None, 0), (20, 90, 5, Some(true), 10)]);
        assert_eq!(threads.cpu_ns(), 10);
    }
}
