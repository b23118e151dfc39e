//! When an operation may complete: its latency, and the queue before a limited number of servers.

use std::cell::Cell;
use std::sync::Mutex;

use crate::system::now_ns;

/// How long operations take, from their arrival to their completion.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Delay {
    pub read_ns: u64,
    pub write_ns: u64,
    /// Added for every byte that is asked for.
    pub read_ns_per_byte: f64,
    pub write_ns_per_byte: f64,
    /// How many operations are served at the same time; the others queue. None for all.
    pub servers: Option<usize>,
}

/// Says when operations complete.
pub struct Schedule {
    delay: Delay,
    /// When each server is free again, CLOCK_MONOTONIC nanoseconds; empty where nothing queues.
    free_ns: Mutex<Vec<u64>>,
}

impl Schedule {
    pub fn new(delay: Delay) -> Schedule {
        let servers = delay.servers.map_or(0, |servers| servers.max(1));
        Schedule { free_ns: Mutex::new(vec![0; servers]), delay }
    }

    /// When a read that arrived at `arrival_ns` completes.
    pub fn read_deadline_ns(&self, arrival_ns: u64, bytes: usize) -> u64 {
        let transfer_ns = self.delay.read_ns_per_byte * bytes as f64;
        self.deadline_ns(arrival_ns, self.delay.read_ns + transfer_ns as u64)
    }

    /// When a write that arrived at `arrival_ns` completes.
    pub fn write_deadline_ns(&self, arrival_ns: u64, bytes: usize) -> u64 {
        let transfer_ns = self.delay.write_ns_per_byte * bytes as f64;
        self.deadline_ns(arrival_ns, self.delay.write_ns + transfer_ns as u64)
    }

    /// A server that is free takes the operation, or else the one that is free first.
    fn deadline_ns(&self, arrival_ns: u64, service_ns: u64) -> u64 {
        let mut free_ns = self.free_ns.lock().expect("nothing panics with the lock held");
        match free_ns.iter_mut().min() {
            None => arrival_ns.saturating_add(service_ns),
            Some(server) => {
                *server = arrival_ns.max(*server).saturating_add(service_ns);
                *server
            }
        }
    }
}

/// Sleeps until the CLOCK_MONOTONIC time `deadline_ns`, and not at all where it has passed.
pub fn sleep_until(deadline_ns: u64) {
    thread_local!(static EXACT: Cell<bool> = const { Cell::new(false) });
    if !EXACT.replace(true) {
        // Else the kernel may wake the thread 50 us late to save power.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
    }
    let deadline = libc::timespec {
        tv_sec: (deadline_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (deadline_ns % 1_000_000_000) as libc::c_long,
    };
    while now_ns() < deadline_ns {
        unsafe {
            libc::clock_nanosleep(
                libc::CLOCK_MONOTONIC,
                libc::TIMER_ABSTIME,
                &deadline,
                std::ptr::null_mut(),
            )
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_servers_nothing_queues() {
        let delay =
            Delay { read_ns: 100, write_ns: 300, write_ns_per_byte: 0.5, ..Delay::default() };
        let schedule = Schedule::new(delay);
        for _ in 0..3 {
            assert_eq!(schedule.read_deadline_ns(1_000, 8192), 1_100);
            assert_eq!(schedule.write_deadline_ns(1_000, 1_000), 1_800);
        }
    }

    #[test]
    fn servers_take_operations_in_the_order_of_arrival() {
        let schedule = Schedule::new(Delay { read_ns: 100, servers: Some(2), ..Delay::default() });
        let arrivals = [0, 0, 10, 10, 500];
        let deadlines = arrivals.map(|arrival_ns| schedule.read_deadline_ns(arrival_ns, 1));
        assert_eq!(deadlines, [100, 100, 200, 200, 600]);
    }
}
