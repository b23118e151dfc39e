//! Requests of io_uring as waits.
//!
//! With eBPF a request lasts from its submission until its completion is posted, wherever in the
//! kernel that happens. The inode identifies its file, because a registered file has no descriptor.
//!
//! If a thread has one request in flight at a time, its sleep in io_uring_enter is part of the
//! request's row, so readers of rows need not know about rings. If it has several, they become rows
//! without CPU time, and the sleeps alone count as the thread's time. On temp files such rows forbid
//! a forecast. So does CPU time that the thread spends outside of io_uring_enter while a request is
//! in flight.
//!
//! Older kernels run without these programs. There a ring that /proc shows forbids a forecast.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::super::descriptor;
use super::super::event::{Block, FileIdentity, Request};
use super::{Assembler, File};
use crate::wait::{Op, Wait};

/// Waits that are kept back for a request: where it takes more of them, it is not what is awaited.
const HELD_MAX: usize = 64;

/// What the threads waited for while a request was under way.
#[derive(Default)]
pub struct Held(HashMap<i32, Thread>);

#[derive(Default)]
struct Thread {
    /// Until the request's end is reported.
    blocks: Vec<Block>,
    /// They became too many.
    let_go: bool,
    /// Start and end of the last request that was alone.
    last: (u64, u64),
}

/// A request as its thread saw it.
struct Awaited {
    /// Whether the thread left the CPU.
    blocked: bool,
    /// CPU time of its other work meanwhile.
    busy_ns: u64,
}

impl Held {
    /// Keeps a wait back; returns those that are rows.
    fn add(&mut self, tid: i32, block: Block) -> Vec<Block> {
        let thread = self.0.entry(tid).or_default();
        let (start_ns, end_ns) = thread.last;
        if start_ns <= block.start_ns && block.start_ns < end_ns {
            return rest(block, end_ns).into_iter().collect();
        }
        thread.blocks.push(block);
        thread.let_go |= thread.blocks.len() > HELD_MAX;
        if thread.let_go { std::mem::take(&mut thread.blocks) } else { Vec::new() }
    }

    /// What was kept back for a request: rows, where it was not alone.
    fn release(&mut self, tid: i32) -> Vec<Block> {
        let thread = self.0.entry(tid).or_default();
        thread.let_go = false;
        std::mem::take(&mut thread.blocks)
    }

    /// Makes the waits a part of the request, and what is left of them rows; None, and all of them
    /// rows, where it was not alone.
    fn end(&mut self, request: &Request) -> (Option<Awaited>, Vec<Block>) {
        let thread = self.0.entry(request.tid).or_default();
        if request.at_once > 1 || thread.let_go {
            return (None, self.release(request.tid));
        }
        let end_ns = request.end_ns;
        thread.last = (request.start_ns, end_ns);
        let blocks = std::mem::take(&mut thread.blocks);
        let awaited = Awaited { blocked: !blocks.is_empty(), busy_ns: request.busy_ns };
        (Some(awaited), blocks.into_iter().filter_map(|block| rest(block, end_ns)).collect())
    }
}

/// What is left of a wait after `end_ns`.
fn rest(block: Block, end_ns: u64) -> Option<Block> {
    (block.end_ns > end_ns).then(|| Block {
        start_ns: block.start_ns.max(end_ns),
        cpu_before_ns: 0,
        ..block
    })
}

impl Assembler {
    pub(super) fn blocked_in_request(&mut self, tid: i32, block: Block) {
        for block in self.held.add(tid, block) {
            self.blocked(tid, block);
        }
    }

    pub(super) fn request(&mut self, request: Request) {
        let cpu_ns = self.worked_ns(request.tid, request.start_ns, request.cpu_before_ns);
        self.carried_cpu_ns.insert(request.tid, cpu_ns);
        let moved = request.ret >= 0 && request.regular;
        let file = if moved { self.file_of_request(&request) } else { None };
        self.counts.unknown_file += (moved && file.is_none()) as u64;
        let Some(file) = file.filter(|_| request.start_ns >= self.origin_ns) else {
            let blocks = self.held.release(request.tid);
            return blocks.into_iter().for_each(|block| self.blocked(request.tid, block));
        };
        let (awaited, rows) = self.held.end(&request);
        if self.files.is_temp(file.name) {
            self.count_temp_request(&request, awaited.as_ref());
        }
        let carried = self.carried_cpu_ns.entry(request.tid).or_default();
        let cpu_before_ns = awaited.is_some().then(|| std::mem::take(carried) as i64);
        let reads = request.op == Op::Read;
        let event = self.names().events.id(if reads { "io_uring_read" } else { "io_uring_write" });
        let span = self.span(request.start_ns, request.end_ns);
        let wait = Wait {
            file: Some(file.name),
            offset: Some(request.offset),
            bytes: Some(request.ret),
            blocked: awaited.map(|awaited| awaited.blocked),
            cpu_before_ns,
            ..Wait::new(request.tid.into(), event, request.op, span)
        };
        self.moved(wait, Some(file), (request.pid, -1));
        rows.into_iter().for_each(|block| self.blocked(request.tid, block));
    }

    fn count_temp_request(&mut self, request: &Request, awaited: Option<&Awaited>) {
        let elapsed_ns = request.end_ns - request.start_ns;
        let counts = &mut self.counts;
        counts.io_uring_depth = counts.io_uring_depth.max(request.at_once);
        counts.io_uring_busy_ns += awaited.map_or(elapsed_ns, |awaited| awaited.busy_ns);
    }

    /// The kernel says which file it was, for a registered one has no descriptor.
    fn file_of_request(&mut self, request: &Request) -> Option<File> {
        if let Entry::Vacant(place) = self.by_identity.entry(request.file) {
            // As one that was opened through io_uring. Looked for once: it stays unknown otherwise.
            place.insert(None);
            for (fd, file) in descriptor::open_files(request.pid) {
                self.identified(request.pid, fd, file, true);
            }
        }
        let mut file = (*self.by_identity.get(&request.file)?)?;
        if request.unlinked && !file.settled {
            let (dev, ino) = request.file;
            let path = self.names().files.list()[file.name as usize].clone();
            let now = FileIdentity { dev, ino, ..FileIdentity::named(path, true) };
            self.files.seen(file.name, &now, false, || self.rules.kind(request.pid, &now));
            file.settled = true;
            self.by_identity.insert(request.file, Some(file));
        }
        Some(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TID: i32 = 7;

    fn request(span: (u64, u64), at_once: u64) -> Request {
        Request {
            pid: TID,
            tid: TID,
            start_ns: span.0,
            end_ns: span.1,
            op: Op::Read,
            offset: 0,
            ret: 1,
            file: (1, 1),
            regular: true,
            unlinked: false,
            at_once,
            cpu_before_ns: 0,
            busy_ns: 3,
        }
    }

    fn block(start_ns: u64, end_ns: u64) -> Block {
        Block { start_ns, end_ns, cpu_before_ns: 5, woken_by: None }
    }

    #[test]
    fn waits_for_the_only_request_are_a_part_of_it() {
        let mut held = Held::default();
        assert!(held.add(TID, block(110, 150)).is_empty());
        assert!(held.add(TID, block(160, 190)).is_empty());
        let (awaited, rows) = held.end(&request((100, 200), 1));
        let awaited = awaited.unwrap();
        assert!(awaited.blocked && rows.is_empty());
        assert_eq!(awaited.busy_ns, 3);
        assert!(!held.end(&request((300, 400), 1)).0.unwrap().blocked);
    }

    #[test]
    fn what_a_wait_takes_after_the_request_is_a_row() {
        let mut held = Held::default();
        held.add(TID, block(110, 250));
        let after = Block { cpu_before_ns: 0, ..block(200, 250) };
        assert_eq!(held.end(&request((100, 200), 1)).1, [after]);
        // Another thread may report the request before its own wakes up.
        assert_eq!(held.add(TID, block(190, 230)), [Block { end_ns: 230, ..after }]);
        assert!(held.add(TID, block(190, 200)).is_empty());
    }

    #[test]
    fn waits_beside_several_requests_are_rows() {
        let mut held = Held::default();
        held.add(TID, block(110, 150));
        let (awaited, rows) = held.end(&request((100, 200), 2));
        assert!(awaited.is_none());
        assert_eq!(rows, [block(110, 150)]);
    }

    #[test]
    fn a_request_that_nobody_awaits_swallows_no_waits() {
        let mut held = Held::default();
        let rows: usize = (0..1000).map(|n| held.add(TID, block(n * 10, n * 10 + 5)).len()).sum();
        assert_eq!(rows, 1000);
        assert!(held.end(&request((0, 100_000), 1)).0.is_none());
    }
}
