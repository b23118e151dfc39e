//! The state of a thread: its ids, and the CPU time at the end of its last reported call.

use std::cell::Cell;

use libc::{c_long, clockid_t};

thread_local! {
    // Neither initialiser nor destructor, so an access is one of plain memory.
    static THREAD: Thread = const {
        Thread { pid: Cell::new(0), tid: Cell::new(0), cpu_ns: Cell::new(0), exact: Cell::new(false) }
    };
}

struct Thread {
    /// 0 while unknown.
    pid: Cell<i32>,
    tid: Cell<i32>,
    /// 0 before the first call.
    cpu_ns: Cell<u64>,
    /// Whether its timer slack has been set to 1 ns.
    exact: Cell<bool>,
}

/// Process and thread id.
#[inline]
pub fn ids() -> (i32, i32) {
    THREAD.with(|thread| {
        if thread.pid.get() == 0 {
            // SAFETY: neither takes an argument.
            let (pid, tid) = unsafe { (libc::getpid(), libc::syscall(libc::SYS_gettid)) };
            thread.pid.set(pid);
            thread.tid.set(tid as i32);
        }
        (thread.pid.get(), thread.tid.get())
    })
}

/// For the only thread of a new process.
pub fn forget() {
    THREAD.with(|thread| {
        thread.pid.set(0);
        thread.cpu_ns.set(0);
    });
}

/// CPU time at the end of the thread's last reported I/O call.
#[inline]
pub fn last_cpu_ns() -> Option<u64> {
    THREAD.with(|thread| Some(thread.cpu_ns.get()).filter(|&cpu_ns| cpu_ns != 0))
}

#[inline]
pub fn set_last_cpu_ns(cpu_ns: u64) {
    THREAD.with(|thread| thread.cpu_ns.set(cpu_ns));
}

/// Sleeps until the CLOCK_MONOTONIC time `deadline_ns`. Changes errno.
pub fn sleep_until(deadline_ns: u64) {
    THREAD.with(|thread| {
        if !thread.exact.replace(true) {
            // SAFETY: no pointer is passed.
            unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
        }
    });
    let deadline = libc::timespec {
        tv_sec: (deadline_ns / 1_000_000_000) as i64,
        tv_nsec: (deadline_ns % 1_000_000_000) as c_long,
    };
    // Not the C library's function, which would be an additional cancellation point.
    while monotonic_ns() < deadline_ns {
        // SAFETY: the deadline is local; the call writes nothing if it is absolute.
        let result = unsafe {
            libc::syscall(
                libc::SYS_clock_nanosleep,
                libc::CLOCK_MONOTONIC,
                libc::TIMER_ABSTIME,
                &deadline,
                std::ptr::null_mut::<libc::timespec>(),
            )
        };
        if result != 0 && crate::next::errno() != libc::EINTR {
            return;
        }
    }
}

#[inline]
pub fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// CPU time of the calling thread.
#[inline]
pub fn cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

#[inline]
fn clock_ns(clock: clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is local.
    unsafe { libc::clock_gettime(clock, &mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}
