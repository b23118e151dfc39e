//! The work around a call: times it, delays it, reports it.

use libc::{c_char, c_int, c_uint, ssize_t};
use spillcast_calls::{Call, CallKind, TO_END};

use crate::descriptors;
use crate::next::{errno, set_errno};
use crate::setup;
use crate::thread;

/// A call that took longer than its CPU time by more than this left the CPU.
const BLOCKED_MIN_NS: u64 = 2_000;

/// Start and end of a call, and CPU time at its start and in it.
struct Timed {
    start_ns: u64,
    end_ns: u64,
    cpu_start_ns: u64,
    cpu_ns: u64,
}

/// Makes a call and times it. Keeps the errno that the call has set.
#[inline]
fn timed<R>(call: impl FnOnce() -> R) -> (R, Timed) {
    let cpu_start_ns = thread::cpu_ns();
    let start_ns = thread::monotonic_ns();
    let ret = call();
    let end_ns = thread::monotonic_ns();
    let elapsed_ns = end_ns.saturating_sub(start_ns);
    // A call as short as this did not leave the CPU: the clock of CPU time, which is another system
    // call, need not be read again.
    let cpu_ns = match elapsed_ns {
        0..=BLOCKED_MIN_NS => elapsed_ns,
        _ => thread::cpu_ns().saturating_sub(cpu_start_ns),
    };
    (ret, Timed { start_ns, end_ns, cpu_start_ns, cpu_ns })
}

impl Timed {
    fn call(&self, kind: CallKind, fd: c_int, ret: i64) -> Call {
        let elapsed_ns = self.end_ns.saturating_sub(self.start_ns);
        Call {
            cpu_before_ns: thread::last_cpu_ns().map(|last| self.cpu_start_ns.saturating_sub(last)),
            blocked: Some(elapsed_ns.saturating_sub(self.cpu_ns) > BLOCKED_MIN_NS),
            ..record(kind, fd, (self.start_ns, self.end_ns), ret)
        }
    }

    /// The CPU time before the next call counts from here.
    fn end(&self) {
        thread::set_last_cpu_ns(self.cpu_start_ns.saturating_add(self.cpu_ns));
    }
}

/// Observes a read or a write.
#[inline]
pub fn io(
    kind: CallKind,
    fd: c_int,
    offset: Option<i64>,
    call: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let Some(file) = descriptors::regular(fd) else {
        return call();
    };
    if !file.moved {
        descriptors::note_moved(fd);
    }
    let delay_ns = match setup::delay() {
        Some(delay) if file.delayed && kind.reads() => delay.read_ns,
        Some(delay) if file.delayed => delay.write_ns,
        _ => 0,
    };
    if setup::ring().is_none() {
        let ret = call();
        delay_until(ret, delay_ns);
        return ret;
    }
    let position = || if file.shared { descriptors::position(fd) } else { None };
    let offset = offset.filter(|&offset| offset >= 0).or_else(position);
    let delayed = || {
        let ret = call();
        delay_until(ret, delay_ns);
        ret
    };
    observed(kind, fd, offset, delayed, |ret| returned(ret as i64))
}

/// Makes a call, times it and reports it; `result` gives the kernel's return value.
#[inline]
fn observed<R: Copy>(
    kind: CallKind,
    fd: c_int,
    offset: Option<i64>,
    call: impl FnOnce() -> R,
    result: impl FnOnce(R) -> i64,
) -> R {
    let (ret, timed) = timed(call);
    report(Call { offset, ..timed.call(kind, fd, result(ret)) });
    timed.end();
    ret
}

/// The offset at which pwritev2 writes.
pub fn written_at(offset: i64, flags: c_int) -> i64 {
    if flags & libc::RWF_APPEND == 0 { offset } else { TO_END }
}

/// Observes a copy between two descriptors inside the kernel, the first of them `fd`.
pub fn copy(kind: CallKind, fd: c_int, other: c_int, call: impl FnOnce() -> ssize_t) -> ssize_t {
    let regular = |fd| {
        let file = descriptors::regular(fd);
        file.inspect(|_| descriptors::note_moved(fd)).is_some()
    };
    // Both are checked, because a check reports the file of a descriptor to the reader.
    if setup::ring().is_none() || ![regular(fd), regular(other)].contains(&true) {
        return call();
    }
    observed(kind, fd, Some(other.into()), call, |ret| returned(ret as i64))
}

/// Observes a call that resizes or syncs the file of `fd`; `offset` as in [`Call`]. posix_fallocate
/// returns its error.
#[inline]
pub fn change(
    kind: CallKind,
    fd: c_int,
    offset: Option<i64>,
    call: impl FnOnce() -> c_int,
) -> c_int {
    if setup::ring().is_none() || descriptors::regular(fd).is_none() {
        return call();
    }
    let result = |ret: c_int| if ret > 0 { -i64::from(ret) } else { returned(ret.into()) };
    observed(kind, fd, offset, call, result)
}

/// Observes a call that changes or removes the file at a path relative to `directory`.
#[inline]
pub fn change_named(
    kind: CallKind,
    (directory, path): (c_int, *const c_char),
    offset: Option<i64>,
    call: impl FnOnce() -> c_int,
) -> c_int {
    let Some(ring) = setup::ring().filter(|_| setup::active()) else {
        return call();
    };
    let (ret, timed) = timed(call);
    let end_errno = errno();
    // A failed call may have been given any address.
    if ret == 0 {
        let mut buffer = [0; descriptors::PATH_BYTES];
        // SAFETY: the kernel has read the string to its end.
        let given = unsafe { std::ffi::CStr::from_ptr(path) }.to_bytes();
        let absolute = descriptors::absolute(directory, given, &mut buffer);
        ring.push_named(&Call { offset, ..timed.call(kind, -1, 0) }, absolute);
        timed.end();
    }
    set_errno(end_errno);
    ret
}

/// Observes a call that removes a file, or a directory, which is not reported.
pub fn unlink_at(
    directory: c_int,
    path: *const c_char,
    flags: c_int,
    call: impl FnOnce() -> c_int,
) -> c_int {
    match flags & libc::AT_REMOVEDIR {
        0 => change_named(CallKind::Unlinkat, (directory, path), None, call),
        _ => call(),
    }
}

/// Observes a call that opens a path and returns a new descriptor.
#[inline]
pub fn open(kind: CallKind, call: impl FnOnce() -> c_int) -> c_int {
    if !setup::active() {
        return call();
    }
    let (fd, timed) = timed(call);
    if fd >= 0 {
        let saved_errno = errno();
        // The call before the file: at an open the reader forgets the descriptor's previous file.
        if descriptors::is_regular(fd) {
            report(timed.call(kind, -1, i64::from(fd)));
            timed.end();
        }
        descriptors::opened(fd);
        set_errno(saved_errno);
    }
    fd
}

/// Observes a call that moves the position of `fd`.
#[inline]
pub fn seek(fd: c_int, call: impl FnOnce() -> i64) -> i64 {
    if descriptors::regular(fd).is_none() {
        return call();
    }
    let start_ns = thread::monotonic_ns();
    let position = call();
    let end_ns = thread::monotonic_ns();
    report(record(CallKind::Lseek, fd, (start_ns, end_ns), returned(position)));
    position
}

/// Observes a call that closes `fd`.
#[inline]
pub fn close(fd: c_int, call: impl FnOnce() -> c_int) -> c_int {
    let regular = descriptors::known_regular(fd);
    // Before the call: after it another thread may get the same number.
    descriptors::forget(fd);
    if !regular {
        return call();
    }
    let start_ns = thread::monotonic_ns();
    // Reported before the call for the same reason: the ring must show the close before the open
    // of the next owner. Linux frees the descriptor whatever close returns.
    report(record(CallKind::Close, fd, (start_ns, start_ns), 0));
    call()
}

/// Like [`close`], for a stream: the C library moves its bytes without an observed call. They are
/// reported as a copy from or to no descriptor, which has no time either.
pub fn close_stream(fd: c_int, call: impl FnOnce() -> c_int) -> c_int {
    if let Some((mode, bytes)) = descriptors::streamed(fd) {
        let now_ns = thread::monotonic_ns();
        let copy = |from, to| {
            let offset = Some(i64::from(to));
            report(Call { offset, ..record(CallKind::Splice, from, (now_ns, now_ns), bytes) });
        };
        if mode != libc::O_RDONLY {
            copy(-1, fd);
        }
        if mode != libc::O_WRONLY {
            copy(fd, -1);
        }
    }
    close(fd, call)
}

/// Observes a call that closes the descriptors from `first` to `last`.
pub fn close_range(first: c_uint, last: c_uint, call: impl FnOnce() -> c_int) -> c_int {
    let number = |fd: c_uint| fd.min(c_int::MAX as c_uint) as c_int;
    descriptors::forget_range(number(first), number(last));
    call()
}

/// Observes a call that makes a second descriptor of the file of `fd`.
#[inline]
pub fn duplicate(kind: CallKind, fd: c_int, call: impl FnOnce() -> c_int) -> c_int {
    let file = descriptors::regular(fd);
    let start_ns = thread::monotonic_ns();
    let duplicate = call();
    if duplicate >= 0 && duplicate != fd {
        descriptors::forget(duplicate);
        if let Some(file) = file {
            if file.moved {
                descriptors::note_moved(duplicate);
            }
            let end_ns = thread::monotonic_ns();
            report(record(kind, fd, (start_ns, end_ns), i64::from(duplicate)));
        }
    }
    duplicate
}

/// Observes a call of fcntl.
#[inline]
pub fn control(fd: c_int, command: c_int, call: impl FnOnce() -> c_int) -> c_int {
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => duplicate(CallKind::Fcntl, fd, call),
        _ => call(),
    }
}

fn report(call: Call) {
    if let Some(ring) = setup::ring() {
        ring.push_call(&call);
        setup::look_for_reader(ring, call.end_ns);
    }
}

fn record(kind: CallKind, fd: c_int, span_ns: (u64, u64), ret: i64) -> Call {
    Call::of(thread::ids(), kind, fd, span_ns, ret)
}

/// The kernel's return value: the C library turns a negative errno into -1.
fn returned(ret: i64) -> i64 {
    if ret < 0 { -i64::from(errno()) } else { ret }
}

/// Waits `delay_ns` after a call that moved bytes. Keeps errno.
#[inline]
fn delay_until(ret: ssize_t, delay_ns: u64) {
    if ret > 0 && delay_ns > 0 {
        let saved_errno = errno();
        thread::sleep_until(thread::monotonic_ns().saturating_add(delay_ns));
        set_errno(saved_errno);
    }
}
