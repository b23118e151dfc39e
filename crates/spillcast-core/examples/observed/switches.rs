//! Two threads on one CPU that hand a token over, which is a context switch each time.

use std::io;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use crate::Members;
use crate::account::{self, Account};
use crate::io::{a_few, create};
use crate::options::Options;

/// `count` rounds of two hand-overs by futexes, which are no file I/O; a little of that comes first,
/// for nobody keeps a recording without any. An observer may add switches to those counted.
pub fn switches(options: &Options, account: &Account) -> io::Result<Members> {
    // Open to the end, so that any observer learns its name.
    let file = create(&options.dir.join("switches.dat"))?;
    a_few(&file, 0, account)?;
    stay_on_one_cpu()?;
    let (token, count) = (AtomicU32::new(0), options.count);
    let before = account::switches();
    let begin = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| hand_over(&token, 1, count));
        hand_over(&token, 0, count);
    });
    let loop_s = begin.elapsed().as_secs_f64();
    Ok(vec![
        ("loop_s", format!("{loop_s:.9}")),
        ("handed_over", (2 * count).to_string()),
        ("switches", (account::switches() - before).to_string()),
    ])
}

fn hand_over(token: &AtomicU32, turn: u32, count: u64) {
    for _ in 0..count {
        while token.load(Ordering::Acquire) != turn {
            futex(token, libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG, 1 - turn);
        }
        token.store(1 - turn, Ordering::Release);
        futex(token, libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1);
    }
}

fn futex(word: &AtomicU32, operation: i32, value: u32) {
    let forever = ptr::null::<libc::timespec>();
    // SAFETY: the word outlives both threads; a wait that ends early is begun anew.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, forever) };
}

/// Threads that start from now on stay there as well.
fn stay_on_one_cpu() -> io::Result<()> {
    // SAFETY: a plain set of bits, filled and read by calls that know its size.
    unsafe {
        let mut allowed: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut allowed) != 0 {
            return Err(io::Error::last_os_error());
        }
        let limit = libc::CPU_SETSIZE as usize;
        let cpu = (0..limit).find(|&cpu| libc::CPU_ISSET(cpu, &allowed)).unwrap_or(0);
        let mut cpus: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut cpus);
        match libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &cpus) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
