//! An engine of io_uring: one thread keeps `depth` operations in flight.

use std::array;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use io_uring::{IoUring, opcode, squeue, types};

use super::cell::{DEPTH_MAX, Slice, SliceError};
use crate::probe::arena;
use crate::probe::clock;
use crate::probe::group::{Cell, Running};
use crate::wait::Op;

/// A ring with one registered file and, if the limit of locked memory allows it, registered
/// buffers.
pub(super) struct Ring<'a> {
    // Before the memory, because it must be dropped first.
    ring: IoUring,
    buffers: Buffers<'a>,
}

struct Buffers<'a> {
    memory: arena::Slice<'a>,
    registered: bool,
}

/// An operation in flight.
#[derive(Clone, Copy, Default)]
struct Slot {
    operation: u64,
    start_ns: u64,
}

impl<'a> Ring<'a> {
    /// Only the thread that created the ring uses it. `memory` holds the largest buffers of all
    /// operations at once.
    pub(super) fn new(file: &File, mut memory: arena::Slice<'a>) -> io::Result<Ring<'a>> {
        let ring = build()?;
        ring.submitter().register_files(&[file.as_raw_fd()])?;
        let all = libc::iovec { iov_base: memory.start().cast(), iov_len: memory.all().len() };
        // A seccomp filter may refuse only this call; there is nothing to submit yet.
        ring.submit()?;
        // SAFETY: the memory outlives the ring, and no operation is in flight between slices.
        let registered = unsafe { ring.submitter().register_buffers(&[all]) }.is_ok();
        Ok(Ring { ring, buffers: Buffers { memory, registered } })
    }

    pub(super) fn registered_buffers(&self) -> bool {
        self.buffers.registered
    }

    /// Runs a slice. No operation is in flight on return, unless the kernel refuses the ring, which
    /// is then unusable. A separate system call replaces each finished operation: the storage works
    /// on it while the next call is made, whereas a batch would arrive in a burst.
    pub(super) fn run(&mut self, slice: &Slice, running: &mut Running) -> Result<(), SliceError> {
        let (mut submitter, mut queue, mut completions) = self.ring.split();
        // Saves a lookup of the descriptor in every call, if the kernel supports it (5.18).
        let own_descriptor = submitter.register_ring_fd().is_ok();
        let mut slots = [Slot::default(); DEPTH_MAX];
        let mut free: [u8; DEPTH_MAX] = array::from_fn(|slot| slot as u8);
        let mut free_count = slice.cell.depth as usize;
        let (mut issued, mut under_way) = (0, 0);
        let mut outcome = Ok(());
        let first_ns = clock::now_ns();
        let (mut now_ns, mut last_ns) = (first_ns, first_ns);
        loop {
            while free_count > 0 && outcome.is_ok() && slice.goes_on(issued, now_ns) {
                free_count -= 1;
                let slot = free[free_count];
                slots[usize::from(slot)] = Slot { operation: issued, start_ns: now_ns };
                last_ns = now_ns;
                let entry = self.buffers.entry(&slice.cell, slot, slice.offsets.at(issued));
                // SAFETY: no other operation uses the buffer of the slot, which lives until this
                // operation has ended.
                unsafe { queue.push(&entry) }.expect("the queue has room for every slot");
                issued += 1;
                under_way += 1;
                if free_count > 0 {
                    queue.sync();
                    // Entries refused for now stay queued for the call that waits.
                    let _ = submitter.submit();
                    queue.sync();
                    now_ns = clock::now_ns();
                }
            }
            if under_way == 0 {
                break;
            }
            queue.sync();
            if let Err(source) = submitter.submit_and_wait(1).or_else(pass) {
                // The kernel keeps the pages of operations in flight until they have ended.
                outcome = Err(SliceError { doing: "io_uring_enter".to_owned(), source });
                break;
            }
            now_ns = clock::now_ns();
            // The kernel has taken the queued entries.
            queue.sync();
            completions.sync();
            for completion in &mut completions {
                let slot = slots[completion.user_data() as usize];
                free[free_count] = completion.user_data() as u8;
                free_count += 1;
                under_way -= 1;
                if completion.result() == slice.cell.bytes as i32 {
                    if slice.counts(slot.operation) {
                        running.record(now_ns - slot.start_ns, slice.cell.bytes.into());
                    }
                } else {
                    let offset = slice.offsets.at(slot.operation);
                    let error = SliceError::new(&slice.cell, offset, failure(completion.result()));
                    outcome = outcome.and(Err(error));
                }
            }
        }
        // When the last operation started, `depth` were in flight and all that count had ended.
        running.pass(last_ns - first_ns);
        if own_descriptor {
            let _ = submitter.unregister_ring_fd();
        }
        outcome
    }
}

impl Drop for Ring<'_> {
    /// The kernel tears a ring down later, but the file's space is needed now.
    fn drop(&mut self) {
        let _ = self.ring.submitter().unregister_files();
    }
}

impl Buffers<'_> {
    fn entry(&mut self, cell: &Cell, slot: u8, offset: u64) -> squeue::Entry {
        let (file, bytes) = (types::Fixed(0), cell.bytes);
        // SAFETY: the memory holds DEPTH_MAX buffers of the largest size.
        let buffer = unsafe { self.memory.start().add(usize::from(slot) * bytes as usize) };
        let entry = match (cell.op, self.registered) {
            (Op::Write, true) => {
                opcode::WriteFixed::new(file, buffer, bytes, 0).offset(offset).build()
            }
            (Op::Write, false) => opcode::Write::new(file, buffer, bytes).offset(offset).build(),
            (_, true) => opcode::ReadFixed::new(file, buffer, bytes, 0).offset(offset).build(),
            (_, false) => opcode::Read::new(file, buffer, bytes).offset(offset).build(),
        };
        entry.user_data(slot.into())
    }
}

/// The ring with the cheapest calls on this kernel: completions run when they are waited for (since
/// 6.1), or without interrupting the thread (since 5.19).
fn build() -> io::Result<IoUring> {
    let entries = DEPTH_MAX as u32;
    let unknown = |error: &io::Error| error.raw_os_error() == Some(libc::EINVAL);
    match IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(entries) {
        Err(error) if unknown(&error) => {}
        other => return other,
    }
    match IoUring::builder().setup_coop_taskrun().build(entries) {
        Err(error) if unknown(&error) => IoUring::new(entries),
        other => other,
    }
}

/// Ignores errors after which the same call may succeed: no operation in flight is lost.
fn pass(error: io::Error) -> io::Result<usize> {
    match error.raw_os_error() {
        Some(libc::EINTR | libc::EAGAIN | libc::EBUSY) => Ok(0),
        _ => Err(error),
    }
}

/// Why an operation transferred fewer bytes than requested.
fn failure(result: i32) -> io::Error {
    match result {
        errno if errno < 0 => io::Error::from_raw_os_error(-errno),
        moved => io::Error::other(format!("only {moved} bytes were moved")),
    }
}
