//! Opening perf events: a syscall tracepoint, or the dummy that carries context switches and forks.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use perf_event_open_sys::bindings as sys;

/// The fields every record carries, in this order: see perf_event_open(2).
const SAMPLE_TYPE: u64 =
    (sys::PERF_SAMPLE_TID | sys::PERF_SAMPLE_TIME | sys::PERF_SAMPLE_RAW) as u64;

/// In place of a thread: every thread there is, with one CPU.
pub const EVERYONE: i32 = -1;
/// And this very thread.
pub const THIS_THREAD: i32 = 0;

/// Whom an event observes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    ThisThread,
    /// The thread, the threads it starts, and the processes it forks.
    Descendants,
}

fn attributes(scope: Scope) -> sys::perf_event_attr {
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
    attr.set_inherit((scope == Scope::Descendants) as u64);
    attr
}

/// A tracepoint of number `id`: one sample, with its raw data, each time it is passed. Where it is
/// `urgent` it wakes the reader at once, for calls whose descriptor must be looked at now.
pub fn tracepoint(id: u16, tid: i32, cpu: i32, urgent: bool) -> io::Result<OwnedFd> {
    open(&mut sampled(id, tid, urgent), tid, cpu)
}

/// The same of a tracepoint that is passed in the kernel, which an ordinary user is refused. What
/// an interrupt does belongs to the thread that runs meanwhile.
pub fn kernel_tracepoint(id: u16, tid: i32, cpu: i32, urgent: bool) -> io::Result<OwnedFd> {
    let mut attr = sampled(id, tid, urgent);
    attr.set_exclude_kernel(0);
    open(&mut attr, tid, cpu)
}

fn sampled(id: u16, tid: i32, urgent: bool) -> sys::perf_event_attr {
    let mut attr = attributes(scope_of(tid));
    attr.type_ = sys::PERF_TYPE_TRACEPOINT;
    attr.config = id as u64;
    attr.sample_period = 1;
    match urgent {
        true => attr.wakeup_events = 1,
        false => wake_at(&mut attr, u32::MAX),
    }
    attr
}

/// What a thread starts is followed, but for our own, which tries things out.
fn scope_of(tid: i32) -> Scope {
    if tid > 0 { Scope::Descendants } else { Scope::ThisThread }
}

/// An event that counts nothing.
fn software(scope: Scope) -> sys::perf_event_attr {
    let mut attr = attributes(scope);
    attr.type_ = sys::PERF_TYPE_SOFTWARE;
    attr.config = sys::PERF_COUNT_SW_DUMMY as u64;
    attr
}

/// Context switches, forks, exits and program starts.
pub fn switches(tid: i32, cpu: i32) -> io::Result<OwnedFd> {
    let mut attr = software(scope_of(tid));
    attr.set_context_switch(1);
    attr.set_task(1);
    attr.set_comm(1);
    attr.set_comm_exec(1);
    wake_at(&mut attr, u32::MAX);
    open(&mut attr, tid, cpu)
}

/// Forks of a process alone, each of which wakes the reader at once.
pub fn births(pid: i32) -> io::Result<OwnedFd> {
    let mut attr = software(Scope::ThisThread);
    attr.set_task(1);
    wake_at(&mut attr, 1);
    open(&mut attr, pid, -1)
}

/// An event that never fires: it holds a ring others write to.
pub fn dummy(cpu: i32) -> io::Result<OwnedFd> {
    let mut attr = software(Scope::ThisThread);
    // The ring takes its watermark from the event that maps it; the kernel caps it at half.
    wake_at(&mut attr, 128 << 10);
    open(&mut attr, THIS_THREAD, cpu)
}

/// Lets only those records of a tracepoint through that pass `text`, in the kernel's words.
pub fn filter(event: &OwnedFd, text: &CStr) -> io::Result<()> {
    let text = text.as_ptr().cast_mut();
    // SAFETY: the kernel copies the string, which ends in NUL.
    match unsafe { perf_event_open_sys::ioctls::SET_FILTER(event.as_raw_fd(), text) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sends the records of `event` to the ring of `holder`.
pub fn redirect(event: &OwnedFd, holder: &OwnedFd) -> io::Result<()> {
    let (event, holder) = (event.as_raw_fd(), holder.as_raw_fd());
    // SAFETY: two descriptors are passed and no pointer.
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
    // SAFETY: the attributes are ours, and say their own size.
    match unsafe { perf_event_open_sys::perf_event_open(attr, tid, cpu, -1, flags) } {
        // SAFETY: a descriptor that was just opened is nobody else's.
        fd if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}
