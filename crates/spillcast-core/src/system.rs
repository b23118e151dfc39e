//! Services of the operating system for all modules: clocks, scheduling, limit of descriptors.

use std::num::NonZeroU64;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// CLOCK_MONOTONIC, in nanoseconds.
pub fn now_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// Time since boot, including the time that the machine was suspended, in nanoseconds.
pub(crate) fn boot_ns() -> u64 {
    clock_ns(libc::CLOCK_BOOTTIME)
}

/// CPU time of this process, in nanoseconds.
pub fn process_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU time of the calling thread, in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a local timespec; these clocks exist on every Linux.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Nanoseconds since the epoch.
pub(crate) fn epoch_ns() -> i128 {
    clock_ns(libc::CLOCK_REALTIME).into()
}

/// Asks that the calling thread runs at once when it wakes, for threads that mostly sleep and are
/// late if they queue behind busy ones: as a real-time thread if that is allowed, otherwise with a
/// short slice, which Linux 6.12 and newer take as a request for low latency.
pub(crate) fn run_soon() {
    // The raw system call takes a thread id; musl's function always fails.
    let priority: libc::c_int = 1;
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: both calls are given local memory; 0 is the calling thread.
    unsafe {
        if libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority) != 0 {
            let mut slice: libc::sched_attr = std::mem::zeroed();
            slice.size = size_of::<libc::sched_attr>() as u32;
            slice.sched_runtime = 100_000;
            libc::syscall(libc::SYS_sched_setattr, 0, &raw const slice, 0);
        }
    }
}

/// Raises the soft limit of open files of this process to its hard limit.
pub(crate) fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    // If that is refused, the old limit has to suffice.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Lets sleeps of this thread, and of those it starts, end on time instead of up to 50 us late.
pub(crate) fn wake_in_time() {
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}
