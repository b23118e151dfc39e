//! Opens perf events: a syscall tracepoint, or the dummy that carries context switches and forks.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use perf_event_open_sys::bindings as sys;

use super::super::spinning::SAMPLES_PER_S;
use super::super::stacks::{SAMPLES_PER_STACK, STACK_BYTES};

/// The fields of every sample, in this order: see perf_event_open(2).
const SAMPLE_TYPE: u64 =
    (sys::PERF_SAMPLE_TID | sys::PERF_SAMPLE_TIME | sys::PERF_SAMPLE_RAW) as u64;

/// Bytes of the caller's stack that a sample carries: a program that composes a path on its stack
/// does so within these.
const CALLER_STACK_BYTES: u32 = 4096;

/// The registers by which a stack is unwound, as perf events number them and in the order of a
/// sample: frame pointer, return address if the processor has a register for it, stack pointer,
/// instruction pointer. Empty for other processors.
pub(crate) const UNWIND_REGISTERS: &[u32] = if cfg!(target_arch = "x86_64") {
    &[6, 7, 8]
} else if cfg!(target_arch = "aarch64") {
    &[29, 30, 31, 32]
} else {
    &[]
};

/// A register of `UNWIND_REGISTERS`, counted from the last one.
fn register(from_last: usize) -> Option<u32> {
    UNWIND_REGISTERS.iter().rev().nth(from_last).copied()
}

/// What a tracepoint does in addition to writing its raw data to the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Also {
    Nothing,
    /// It wakes the reader at once, for calls whose descriptor must be looked up now.
    Wakes,
    /// It samples the caller's stack, if the kernel can: the path given to a call is often there,
    /// and is overwritten before it can be read later.
    Stack,
}

/// Instead of a thread id: all threads of the machine, with one CPU.
pub(crate) const ALL_TIDS: i32 = -1;
/// Instead of a thread id: the calling thread.
pub(crate) const THIS_THREAD: i32 = 0;

/// Whether an event follows what its thread starts: not on our own thread, which tries numbers.
fn follows(tid: i32) -> bool {
    tid > 0
}

/// Attributes of an event that wakes no reader; with `inherit`, it follows the threads and
/// processes that are started.
fn attributes(inherit: bool) -> sys::perf_event_attr {
    let mut attr = sys::perf_event_attr {
        size: size_of::<sys::perf_event_attr>() as u32,
        sample_type: SAMPLE_TYPE,
        clockid: libc::CLOCK_MONOTONIC,
        ..Default::default()
    };
    attr.set_use_clockid(1);
    attr.set_sample_id_all(1);
    attr.set_exclude_kernel(1);
    attr.set_exclude_hv(1);
    attr.set_inherit(inherit.into());
    wake_at(&mut attr, u32::MAX);
    attr
}

/// Opens the tracepoint of number `id`: a sample with raw data each time it is hit.
pub(crate) fn tracepoint(id: u16, tid: i32, cpu: i32, also: Also) -> io::Result<OwnedFd> {
    let opened = open(&mut sampled(id, tid, also), tid, cpu);
    match also {
        Also::Stack => opened.or_else(|_| tracepoint(id, tid, cpu, Also::Nothing)),
        _ => opened,
    }
}

/// Opens a tracepoint that is hit in kernel mode, which an ordinary user is refused. Interrupts
/// count for the thread that they interrupt.
pub(crate) fn kernel_tracepoint(id: u16, tid: i32, cpu: i32, also: Also) -> io::Result<OwnedFd> {
    let mut attr = sampled(id, tid, also);
    attr.set_exclude_kernel(0);
    open(&mut attr, tid, cpu)
}

fn sampled(id: u16, tid: i32, also: Also) -> sys::perf_event_attr {
    let mut attr = attributes(follows(tid));
    attr.type_ = sys::PERF_TYPE_TRACEPOINT;
    attr.config = id as u64;
    attr.sample_period = 1;
    if also == Also::Wakes {
        attr.set_watermark(0);
        attr.wakeup_events = 1;
    }
    if let (Also::Stack, Some(stack_pointer)) = (also, register(1)) {
        attr.sample_type |= (sys::PERF_SAMPLE_REGS_USER | sys::PERF_SAMPLE_STACK_USER) as u64;
        attr.sample_regs_user = 1 << stack_pointer;
        attr.sample_stack_user = CALLER_STACK_BYTES;
    }
    attr
}

/// An event that counts nothing.
fn software(inherit: bool) -> sys::perf_event_attr {
    let mut attr = attributes(inherit);
    attr.type_ = sys::PERF_TYPE_SOFTWARE;
    attr.config = sys::PERF_COUNT_SW_DUMMY as u64;
    attr
}

/// Opens an event for context switches, forks, exits and execs.
pub fn switches(tid: i32, cpu: i32) -> io::Result<OwnedFd> {
    let mut attr = software(follows(tid));
    attr.set_context_switch(1);
    attr.set_task(1);
    attr.set_comm(1);
    attr.set_comm_exec(1);
    open(&mut attr, tid, cpu)
}

/// Samples the instruction pointer of a thread by its CPU's clock, while it runs in user mode.
pub fn samples(tid: i32, cpu: i32) -> io::Result<OwnedFd> {
    let instruction_pointer = register(0).ok_or(io::Error::from_raw_os_error(libc::ENOTSUP))?;
    let mut attr = software(follows(tid));
    attr.config = sys::PERF_COUNT_SW_CPU_CLOCK as u64;
    attr.set_freq(1);
    attr.sample_freq = SAMPLES_PER_S;
    attr.sample_type |= sys::PERF_SAMPLE_REGS_USER as u64;
    attr.sample_regs_user = 1 << instruction_pointer;
    open(&mut attr, tid, cpu)
}

/// Samples the stack of a thread by its CPU's clock, while it runs in user mode.
pub fn stacks(tid: i32, cpu: i32) -> io::Result<OwnedFd> {
    if UNWIND_REGISTERS.is_empty() {
        return Err(io::Error::from_raw_os_error(libc::ENOTSUP));
    }
    let mut attr = software(follows(tid));
    attr.config = sys::PERF_COUNT_SW_CPU_CLOCK as u64;
    attr.sample_period = 1_000_000_000 * SAMPLES_PER_STACK / SAMPLES_PER_S;
    attr.sample_type |= (sys::PERF_SAMPLE_REGS_USER | sys::PERF_SAMPLE_STACK_USER) as u64;
    attr.sample_regs_user = UNWIND_REGISTERS.iter().map(|register| 1 << register).sum();
    attr.sample_stack_user = STACK_BYTES as u32;
    open(&mut attr, tid, cpu)
}

/// Opens an event for forks of a single process, each of which wakes the reader at once.
pub fn forks(pid: i32) -> io::Result<OwnedFd> {
    let mut attr = software(false);
    attr.set_task(1);
    wake_at(&mut attr, 1);
    open(&mut attr, pid, -1)
}

/// Opens an event that never fires: it holds a ring that others write to.
pub(crate) fn dummy(cpu: i32) -> io::Result<OwnedFd> {
    let mut attr = software(false);
    // The ring takes its watermark from the event that maps it; the kernel caps it at half.
    wake_at(&mut attr, 128 << 10);
    open(&mut attr, THIS_THREAD, cpu)
}

/// Passes only records of a tracepoint that match `text`, a filter expression of the kernel.
pub fn filter(event: &OwnedFd, text: &CStr) -> io::Result<()> {
    let text = text.as_ptr().cast_mut();
    // SAFETY: the kernel copies the string, which ends in NUL.
    match unsafe { perf_event_open_sys::ioctls::SET_FILTER(event.as_raw_fd(), text) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sends the records of `event` to the ring of `holder`.
pub(crate) fn redirect(event: &OwnedFd, holder: &OwnedFd) -> io::Result<()> {
    let (event, holder) = (event.as_raw_fd(), holder.as_raw_fd());
    // SAFETY: two descriptors are passed, and no pointer.
    match unsafe { perf_event_open_sys::ioctls::SET_OUTPUT(event, holder) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn wake_at(attr: &mut sys::perf_event_attr, watermark_bytes: u32) {
    attr.set_watermark(1);
    attr.wakeup_watermark = watermark_bytes;
}

fn open(attr: &mut sys::perf_event_attr, tid: i32, cpu: i32) -> io::Result<OwnedFd> {
    let flags = sys::PERF_FLAG_FD_CLOEXEC as libc::c_ulong;
    // SAFETY: the attributes are borrowed, and contain their own size.
    match unsafe { perf_event_open_sys::perf_event_open(attr, tid, cpu, -1, flags) } {
        // SAFETY: nothing else owns a descriptor that was just opened.
        fd if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}
