//! Defers the blocks of threads while one of their requests is in flight.

use std::collections::HashMap;

use super::super::event::{Block, Request};

/// Limit of blocks deferred for a request. A thread with more does not wait for the request.
const DEFERRED_MAX: usize = 64;

/// Deferred blocks, by thread.
#[derive(Default)]
pub(crate) struct DeferredBlocks(HashMap<i32, Thread>);

#[derive(Default)]
struct Thread {
    /// Blocks since the request was submitted.
    blocks: Vec<Block>,
    /// Whether there were too many blocks.
    overflowed: bool,
    /// Start and end of the last request that was in flight alone.
    last: (u64, u64),
}

/// A request that its thread waited for.
pub(crate) struct Awaited {
    /// Whether the thread left the CPU meanwhile.
    pub blocked: bool,
    /// CPU time of the thread's other work while the request was in flight.
    pub busy_ns: u64,
}

impl DeferredBlocks {
    /// Defers a block; returns the blocks that become rows.
    pub fn add(&mut self, tid: i32, block: Block) -> Vec<Block> {
        let thread = self.0.entry(tid).or_default();
        let (start_ns, end_ns) = thread.last;
        if start_ns <= block.start_ns && block.start_ns < end_ns {
            return part_after(block, end_ns).into_iter().collect();
        }
        thread.blocks.push(block);
        thread.overflowed |= thread.blocks.len() > DEFERRED_MAX;
        if thread.overflowed { std::mem::take(&mut thread.blocks) } else { Vec::new() }
    }

    /// Returns the deferred blocks, which become rows because no row of a request includes them.
    pub fn release(&mut self, tid: i32) -> Vec<Block> {
        let thread = self.0.entry(tid).or_default();
        thread.overflowed = false;
        std::mem::take(&mut thread.blocks)
    }

    /// Ends a request. If it was alone, the deferred blocks are part of it and their time after its
    /// end is returned as rows; otherwise all of them are rows.
    pub fn end(&mut self, request: &Request) -> (Option<Awaited>, Vec<Block>) {
        let thread = self.0.entry(request.tid).or_default();
        if request.at_once > 1 || thread.overflowed {
            return (None, self.release(request.tid));
        }
        let end_ns = request.end_ns;
        thread.last = (request.start_ns, end_ns);
        let blocks = std::mem::take(&mut thread.blocks);
        let awaited = Awaited { blocked: !blocks.is_empty(), busy_ns: request.busy_ns };
        (Some(awaited), blocks.into_iter().filter_map(|block| part_after(block, end_ns)).collect())
    }
}

/// The part of a block after `end_ns`.
fn part_after(block: Block, end_ns: u64) -> Option<Block> {
    (block.end_ns > end_ns).then(|| Block {
        start_ns: block.start_ns.max(end_ns),
        cpu_before_ns: 0,
        ..block
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::Op;

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
    fn waits_for_the_only_request_are_part_of_it() {
        let mut deferred = DeferredBlocks::default();
        assert!(deferred.add(TID, block(110, 150)).is_empty());
        assert!(deferred.add(TID, block(160, 190)).is_empty());
        let (awaited, rows) = deferred.end(&request((100, 200), 1));
        let awaited = awaited.unwrap();
        assert!(awaited.blocked && rows.is_empty());
        assert_eq!(awaited.busy_ns, 3);
        assert!(!deferred.end(&request((300, 400), 1)).0.unwrap().blocked);
    }

    #[test]
    fn a_wait_that_continues_after_its_request_is_a_row() {
        let mut deferred = DeferredBlocks::default();
        deferred.add(TID, block(110, 250));
        let after = Block { cpu_before_ns: 0, ..block(200, 250) };
        assert_eq!(deferred.end(&request((100, 200), 1)).1, [after]);
        // Another thread may report the request before the waiting thread wakes up.
        assert_eq!(deferred.add(TID, block(190, 230)), [Block { end_ns: 230, ..after }]);
        assert!(deferred.add(TID, block(190, 200)).is_empty());
    }

    #[test]
    fn waits_beside_several_requests_are_rows() {
        let mut deferred = DeferredBlocks::default();
        deferred.add(TID, block(110, 150));
        let (awaited, rows) = deferred.end(&request((100, 200), 2));
        assert!(awaited.is_none());
        assert_eq!(rows, [block(110, 150)]);
    }

    #[test]
    fn a_request_that_is_not_awaited_absorbs_no_waits() {
        let mut deferred = DeferredBlocks::default();
        let rows: usize =
            (0..1000).map(|n| deferred.add(TID, block(n * 10, n * 10 + 5)).len()).sum();
        assert_eq!(rows, 1000);
        assert!(deferred.end(&request((0, 100_000), 1)).0.is_none());
    }
}
