//! Requests of io_uring as waits.
//!
//! With eBPF a request lasts from its submission until its completion is posted, wherever in the
//! kernel that happens. The inode identifies its file, because a registered file has no descriptor.
//!
//! If a thread has one request in flight at a time, its sleep in io_uring_enter is part of the
//! request's row, so readers of rows need not know about rings. If it has several, the requests
//! become rows without CPU time, and only the sleeps count as the thread's time. Such rows on temp
//! files prevent a forecast. So does CPU time that the thread spends outside of io_uring_enter
//! while a request is in flight.
//!
//! Older kernels cannot run these programs. There a ring that /proc shows prevents a forecast.

use std::collections::hash_map::Entry;

use super::super::descriptor;
use super::super::event::{Block, FileIdentity, Request};
use super::deferred::Awaited;
use super::{Assembler, File};
use crate::wait::{Op, Wait};

impl Assembler {
    pub(super) fn blocked_in_request(&mut self, tid: i32, block: Block) {
        for block in self.deferred.add(tid, block) {
            self.blocked(tid, block);
        }
    }

    pub(super) fn request(&mut self, request: Request) {
        let cpu_ns = self.work_before_ns(request.tid, request.start_ns, request.cpu_before_ns);
        self.carried_cpu_ns.insert(request.tid, cpu_ns);
        let moved = request.ret >= 0 && request.regular;
        let file = if moved { self.file_of_request(&request) } else { None };
        self.counts.unknown_file += (moved && file.is_none()) as u64;
        let Some(file) = file.filter(|_| request.start_ns >= self.origin_ns) else {
            let blocks = self.deferred.release(request.tid);
            return blocks.into_iter().for_each(|block| self.blocked(request.tid, block));
        };
        let (awaited, rows) = self.deferred.end(&request);
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
        self.push_transfer(wait, Some(file), (request.pid, -1));
        rows.into_iter().for_each(|block| self.blocked(request.tid, block));
    }

    fn count_temp_request(&mut self, request: &Request, awaited: Option<&Awaited>) {
        let elapsed_ns = request.end_ns - request.start_ns;
        let counts = &mut self.counts;
        counts.io_uring_depth = counts.io_uring_depth.max(request.at_once);
        counts.io_uring_busy_ns += awaited.map_or(elapsed_ns, |awaited| awaited.busy_ns);
    }

    /// The file of a request by its inode: a registered file has no descriptor.
    fn file_of_request(&mut self, request: &Request) -> Option<File> {
        if let Entry::Vacant(place) = self.by_identity.entry(request.file) {
            // It may have been opened through io_uring. It is looked up only once.
            place.insert(None);
            for (fd, file) in descriptor::open_files(request.pid) {
                self.set_file(request.pid, fd, file, true);
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
