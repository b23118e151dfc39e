//! Records of all threads -> finished calls, each with the CPU burned before it and whether it blocked.

use std::collections::HashMap;

use super::super::call::{Call, CallKind, Event};
use super::record::{Record, What};

/// What each observed thread is doing.
#[derive(Default)]
pub struct Threads {
    by_tid: HashMap<i32, Thread>,
    ended_cpu_ns: u64,
}

#[derive(Default)]
struct Thread {
    /// Since when the thread has been on a CPU; None while it is off.
    on_cpu_since_ns: Option<u64>,
    /// CPU time since the last I/O call, up to `on_cpu_since_ns`.
    cpu_ns: u64,
    /// CPU time outside I/O calls, up to `on_cpu_since_ns`.
    total_cpu_ns: u64,
    call: Option<Open>,
}

/// A call that has begun and not ended.
struct Open {
    kind: CallKind,
    start_ns: u64,
    fd: i32,
    offset: Option<i64>,
    blocked: bool,
    cpu_before_ns: u64,
}

impl Thread {
    /// Moves the CPU time up to `now_ns` into the sums.
    fn settle(&mut self, now_ns: u64) {
        if let Some(since_ns) = self.on_cpu_since_ns {
            let ran_ns = now_ns.saturating_sub(since_ns);
            if !self.call.as_ref().is_some_and(|call| call.kind.is_io()) {
                self.cpu_ns += ran_ns;
                self.total_cpu_ns += ran_ns;
            }
            self.on_cpu_since_ns = Some(now_ns);
        }
    }
}

impl Threads {
    /// Takes the next record; appends the event it completes.
    pub fn take(&mut self, record: &Record, out: &mut Vec<Event>) {
        let &Record { time_ns, pid, tid, what } = record;
        match what {
            What::Lost { .. } => return,
            What::Fork { parent } if parent != pid => {
                return out.push(Event::Fork { parent, child: pid });
            }
            What::Fork { .. } => return,
            What::Exec => return out.push(Event::Exec { pid }),
            What::ThreadExit => {
                if let Some(mut thread) = self.by_tid.remove(&tid) {
                    thread.settle(time_ns);
                    self.ended_cpu_ns += thread.total_cpu_ns;
                }
                if pid == tid {
                    out.push(Event::ProcessExit { pid });
                }
                return;
            }
            _ => (),
        }
        let thread = self.by_tid.entry(tid).or_default();
        thread.settle(time_ns);
        match what {
            What::SwitchIn => thread.on_cpu_since_ns = Some(time_ns),
            What::SwitchOut { preempted } => {
                thread.on_cpu_since_ns = None;
                if let Some(call) = &mut thread.call {
                    call.blocked |= !preempted;
                }
            }
            // Of a close only this side is observed.
            What::Enter { kind: CallKind::Close, fd, .. } => {
                thread.on_cpu_since_ns = Some(time_ns);
                out.push(Event::Call(untimed(record, CallKind::Close, fd, 0)));
            }
            // Of an open only that side.
            What::Exit { kind, ret } if kind.opens() => {
                thread.on_cpu_since_ns = Some(time_ns);
                out.push(Event::Call(untimed(record, kind, -1, ret)));
            }
            What::Enter { kind, fd, offset } => {
                thread.on_cpu_since_ns = Some(time_ns);
                let cpu_before_ns = thread.cpu_ns;
                let start_ns = time_ns;
                thread.call =
                    Some(Open { kind, start_ns, fd, offset, blocked: false, cpu_before_ns });
            }
            What::Exit { kind, ret } => {
                thread.on_cpu_since_ns = Some(time_ns);
                // An exit without its entry: the capture began inside the call.
                let Some(call) = thread.call.take().filter(|call| call.kind == kind) else {
                    return;
                };
                if kind.is_io() {
                    thread.cpu_ns = 0;
                }
                out.push(Event::Call(Call {
                    pid,
                    tid,
                    kind,
                    start_ns: call.start_ns,
                    end_ns: time_ns,
                    fd: call.fd,
                    offset: call.offset,
                    ret,
                    cpu_before_ns: Some(call.cpu_before_ns),
                    blocked: Some(call.blocked),
                }));
            }
            _ => (),
        }
    }

    /// CPU time of all threads outside their I/O calls, up to their last record.
    pub fn cpu_ns(&self) -> u64 {
        self.ended_cpu_ns + self.by_tid.values().map(|thread| thread.total_cpu_ns).sum::<u64>()
    }
}

/// A call that changes a descriptor, of which one side is known.
fn untimed(record: &Record, kind: CallKind, fd: i32, ret: i64) -> Call {
    let &Record { time_ns, pid, tid, .. } = record;
    let (cpu_before_ns, blocked, offset) = (None, None, None);
    let (start_ns, end_ns) = (time_ns, time_ns);
    Call { pid, tid, kind, start_ns, end_ns, fd, offset, ret, cpu_before_ns, blocked }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(records: &[(u64, What)]) -> (Vec<Event>, Threads) {
        let (mut threads, mut out) = (Threads::default(), Vec::new());
        for &(time_ns, what) in records {
            threads.take(&Record { time_ns, pid: 7, tid: 8, what }, &mut out);
        }
        (out, threads)
    }

    #[test]
    fn cpu_blocked_time_and_calls_are_told_apart() {
        let kind = CallKind::Pread64;
        let enter = What::Enter { kind, fd: 5, offset: Some(4096) };
        let exit = What::Exit { kind, ret: 512 };
        let (events, threads) = run(&[
            (100, What::SwitchIn),
            (130, What::SwitchOut { preempted: false }),
            (200, What::SwitchIn),
            (210, enter),
            (215, What::SwitchOut { preempted: false }),
            (290, What::SwitchIn),
            (300, exit),
            (340, enter),
            (345, What::SwitchOut { preempted: true }),
            (350, What::SwitchIn),
            (360, exit),
        ]);
        let calls: Vec<_> = events
            .iter()
            .map(|event| match event {
                Event::Call(c) => (c.start_ns, c.end_ns, c.cpu_before_ns, c.blocked, c.ret),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(calls[0], (210, 300, Some(30 + 10), Some(true), 512));
        assert_eq!(calls[1], (340, 360, Some(40), Some(false), 512));
        assert_eq!(threads.cpu_ns(), 30 + 10 + 40);
    }
}
