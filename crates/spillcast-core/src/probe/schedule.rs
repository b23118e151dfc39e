//! Run-queue delays of the threads of a replay, and the CPU time of other processes.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::thread::available_parallelism;
use std::time::Duration;

use serde::Serialize;

use crate::capture::run_queue::{Scheduled, machine_cpu_ns, others_max_ns};
use crate::system::now_ns;

/// The cost of other work on the machine to a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Disturbance {
    /// Time for which its threads were runnable without a CPU, within operations, from whose
    /// latencies it is subtracted, and elsewhere.
    pub(crate) run_queue_io_ns: u64,
    pub(crate) run_queue_ns: u64,
    /// The part of both that other processes can have caused at most.
    pub(crate) run_queue_others_ns: u64,
    /// CPU time of other processes meanwhile; None if unknown. And the total CPU time available.
    #[serde(skip)]
    pub(crate) others_cpu_ns: Option<u64>,
    #[serde(skip)]
    pub(crate) all_cpu_ns: u64,
}

impl Disturbance {
    /// Share of the machine's CPU time that other processes used; 0 if unknown.
    pub fn others_share(&self) -> f64 {
        self.others_cpu_ns.unwrap_or(0) as f64 / self.all_cpu_ns.max(1) as f64
    }

    /// Whether other processes used so much CPU that latencies are not those of the storage alone.
    /// The machine's CPU time is counted in ticks, which are too coarse for a short replay.
    pub(crate) fn disturbs(&self, elapsed: Duration) -> bool {
        const SHARE_MAX: f64 = 0.1;
        const ELAPSED_MIN: Duration = Duration::from_secs(1);
        elapsed >= ELAPSED_MIN && self.others_share() > SHARE_MAX
    }
}

/// The schedstat of the thread that opened it.
pub(super) struct OwnSchedule(Option<File>);

impl OwnSchedule {
    pub(super) fn open() -> OwnSchedule {
        OwnSchedule(File::open("/proc/thread-self/schedstat").ok())
    }

    /// CPU time and delay since the thread started; zero if the kernel does not report them.
    pub(super) fn read(&self) -> Scheduled {
        let mut text = [0; 64];
        let length = self.0.as_ref().and_then(|file| file.read_at(&mut text, 0).ok());
        let text = std::str::from_utf8(&text[..length.unwrap_or(0)]).unwrap_or("");
        Scheduled::parse(text).unwrap_or_default()
    }
}

/// The machine's CPU time, to measure its use during a replay.
pub(super) struct Machine {
    cpu_ns: Option<u64>,
    begun_ns: u64,
}

impl Machine {
    pub(super) fn begin() -> Machine {
        Machine { cpu_ns: machine_cpu_ns(), begun_ns: now_ns() }
    }

    /// `scheduled` sums the threads of the replay; `io_ns` is their delay within operations.
    pub(super) fn end(self, scheduled: Scheduled, io_ns: u64) -> Disturbance {
        let taken_ns =
            machine_cpu_ns().zip(self.cpu_ns).map(|(now, then)| now.saturating_sub(then));
        Disturbance {
            run_queue_io_ns: io_ns,
            run_queue_ns: scheduled.delay_ns.saturating_sub(io_ns),
            run_queue_others_ns: others_max_ns(scheduled, taken_ns),
            all_cpu_ns: (now_ns() - self.begun_ns)
                * available_parallelism().map_or(1, |n| n.get() as u64),
            others_cpu_ns: taken_ns.map(|ns| ns.saturating_sub(scheduled.cpu_ns)),
        }
    }
}
