//! Measures what a source costs the processes that it observes.
//!
//! Children of spillcast make calls and leave the CPU; one of them is observed. CPU time is
//! compared, not elapsed time, so that other processes on the machine disturb little. All children
//! run on one CPU, in alternating bursts. Two processes that hand that CPU to each other measure a
//! context switch; at most one of them is observed, as with I/O. Threads of an observed process
//! that hand it to each other may lose less. Processes that are not observed may pay as well (for a
//! check of every call of the machine): their cost is the difference between the shortest
//! unobserved burst and the shortest burst before the source was opened.
//!
//! Costs differ between machines, so no constant is kept. A recording loses this cost times the
//! calls and switches that the source counted; starts of threads are not included. The measurement
//! runs after the recording and takes 0.2 s, and with perf events also the time that the kernel
//! takes to close those of the recording. Its result is kept for ten minutes.
//!
//! The observed process itself cannot serve as the control: while its events are disabled, nothing
//! counts its work, and the recording lacks calls that a forecast needs. A child does known work on
//! the same CPUs, and the recording loses nothing.

mod child;
mod task_table;

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use rustix::thread::sched_getaffinity;

use self::child::{CALLS, SWITCHES};
use self::task_table::{BARE, OBSERVED, PARTNER, Task, TaskTable};
use super::source::Source;
use super::spawn::HeldCommand;
pub use child::serve;

/// Pairs of bursts: fewer if they take longer than `LONG`, but at least `PAIRS_MIN`.
const PAIRS: usize = 40;
const PAIRS_MIN: usize = 9;
const LONG: Duration = Duration::from_millis(250);
/// Bursts before the source is opened.
const BEFORE: usize = 12;
/// How long a child may take for a burst, or to start.
const LIMIT: Duration = Duration::from_secs(2);

/// Quartiles and median over pairs of bursts, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub low_s: f64,
    pub median_s: f64,
    pub high_s: f64,
}

/// The CPU time that an observed thread loses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Per call.
    pub call: Spread,
    /// Per context switch away and back; None if the source does nothing then.
    pub switch: Option<Spread>,
}

/// A program that calls [`serve`] with its last two arguments, which are appended to `arguments`,
/// and its environment when it is observed and when it is not.
pub struct Program {
    pub arguments: Vec<CString>,
    pub observed: Vec<CString>,
    pub bare: Vec<CString>,
}

/// Measures the source that `open` opens, which takes some 0.2 s. Only children of this process are
/// observed, and they have ended afterwards.
///
/// Errors: those of `open` and of attaching to the child; TimedOut if a child does not run, and
/// NotFound if the source does not report its calls.
pub fn measure(
    open: impl FnOnce() -> io::Result<Box<dyn Source>>,
    program: &Program,
) -> io::Result<Cost> {
    let memory = File::from(memfd_create("spillcast-cost", MemfdFlags::CLOEXEC)?);
    let table = TaskTable::create(&memory, last_cpu()?)?;
    let start = |index, environment: &[CString]| Child::start(&memory, index, program, environment);
    let bare = start(BARE, &program.bare)?;
    let partner = start(PARTNER, &program.bare)?;
    for child in [&bare, &partner] {
        table.wait_done(child.index, LIMIT)?;
    }
    let mut stage = Stage { table: &table, children: vec![&bare, &partner] };
    let mut before = Bursts::default();
    for _ in 0..BEFORE {
        before.add(&mut stage, BARE, true)?;
    }

    let mut source = open()?;
    let mut environment = program.observed.clone();
    if let Some((name, value)) = source.environment() {
        environment.push(CString::new(format!("{name}={value}"))?);
    }
    let observed = start(OBSERVED, &environment)?;
    table.wait_done(OBSERVED, LIMIT)?;
    stage.children.push(&observed);
    if let Some(observer) = source.observer() {
        observer.attach(observed.pid)?;
    }
    let cost = paired(&mut stage, &mut *source, &before);
    // The kernel takes long to close some sources: nothing waits for that.
    thread::spawn(move || drop(source));
    cost
}

/// Runs observed and unobserved bursts by turns, and returns the costs computed from them.
fn paired(stage: &mut Stage, source: &mut dyn Source, before: &Bursts) -> io::Result<Cost> {
    let (mut ours, mut bare) = (Bursts::default(), Bursts::default());
    let switches = source.observed().switches.is_some();
    let (begin, mut reports) = (Instant::now(), Vec::new());
    for pair in 0..PAIRS {
        if pair >= PAIRS_MIN && begin.elapsed() > LONG {
            break;
        }
        let order = if pair % 2 == 0 { [OBSERVED, BARE] } else { [BARE, OBSERVED] };
        for index in order {
            let bursts = if index == OBSERVED { &mut ours } else { &mut bare };
            bursts.add(stage, index, switches)?;
            source.drain(&mut reports, false);
            reports.clear();
        }
    }
    source.drain(&mut reports, true);
    let made = (ours.calls_ns.len() * CALLS) as u64;
    let observed = source.observed();
    if observed.calls + observed.lost < made {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the source saw no calls"));
    }
    let of = |kind: fn(&Bursts) -> &[f64], count| {
        spread(kind(&ours), kind(&bare), kind(before), count as f64)
    };
    Ok(Cost {
        call: of(|bursts| &bursts.calls_ns, CALLS),
        switch: switches.then(|| of(|bursts| &bursts.switches_ns, SWITCHES)),
    })
}

/// Cost of each of the `count` operations of a burst, from pairs of observed and unobserved bursts.
/// The first pair, which touches memory for the first time, does not count.
fn spread(ours_ns: &[f64], bare_ns: &[f64], before_ns: &[f64], count: f64) -> Spread {
    let shortest = |bursts: &[f64]| bursts[1..].iter().copied().fold(f64::INFINITY, f64::min);
    // Other processes may have made every burst before longer; a source makes none shorter.
    let all_pay_ns = (shortest(bare_ns) - shortest(before_ns)).max(0.0);
    let pairs = ours_ns[1..].iter().zip(&bare_ns[1..]);
    let mut costs_s: Vec<f64> = pairs
        .map(|(ours_ns, bare_ns)| ((ours_ns - bare_ns + all_pay_ns) / count / 1e9).max(0.0))
        .collect();
    costs_s.sort_unstable_by(f64::total_cmp);
    let at = |share: usize| costs_s[(costs_s.len() - 1) * share / 4];
    Spread { low_s: at(1), median_s: at(2), high_s: at(3) }
}

/// CPU time of whole bursts, in ns.
#[derive(Default)]
struct Bursts {
    calls_ns: Vec<f64>,
    switches_ns: Vec<f64>,
}

impl Bursts {
    fn add(&mut self, stage: &mut Stage, index: usize, switches: bool) -> io::Result<()> {
        self.calls_ns.push(stage.burst(&[(index, Task::Calls)])?);
        if switches {
            // The follower first, so that it sleeps when its turn comes.
            let pair = [(PARTNER, Task::Follow), (index, Task::Lead)];
            self.switches_ns.push(stage.burst(&pair)?);
        }
        Ok(())
    }
}

struct Stage<'a> {
    table: &'a TaskTable,
    children: Vec<&'a Child>,
}

impl Stage<'_> {
    /// CPU time of all children, in ns, while some of them do their tasks.
    fn burst(&self, tasks: &[(usize, Task)]) -> io::Result<f64> {
        let before_ns = self.cpu_ns()?;
        tasks.iter().for_each(|&(index, task)| self.table.give(index, task));
        tasks.iter().try_for_each(|&(index, _)| self.table.wait_done(index, LIMIT))?;
        Ok((self.cpu_ns()? - before_ns) as f64)
    }

    fn cpu_ns(&self) -> io::Result<u64> {
        self.children.iter().map(|child| process_cpu_ns(child.pid)).sum()
    }
}

/// A child that is killed when it is dropped.
struct Child {
    pid: i32,
    index: usize,
}

impl Child {
    fn start(
        memory: &File,
        index: usize,
        program: &Program,
        environment: &[CString],
    ) -> io::Result<Child> {
        let path = format!("/proc/{}/fd/{}", std::process::id(), memory.as_raw_fd());
        let mut arguments = program.arguments.clone();
        arguments.extend([CString::new(path)?, CString::new(index.to_string())?]);
        let pid = HeldCommand::start(&arguments, environment)?.release()?;
        Ok(Child { pid, index })
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if let Some(pid) = Pid::from_raw(self.pid) {
            let _ = kill_process(pid, Signal::KILL);
            let _ = waitpid(Some(pid), WaitOptions::empty());
        }
    }
}

/// CPU time of another process, in nanoseconds.
fn process_cpu_ns(pid: i32) -> io::Result<u64> {
    let mut clock = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both pointers are to local variables.
    let failed = unsafe {
        libc::clock_getcpuclockid(pid, &mut clock) != 0
            || libc::clock_gettime(clock, &mut time) != 0
    };
    match failed {
        true => Err(io::Error::from_raw_os_error(libc::ESRCH)),
        false => Ok(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64),
    }
}

/// The last CPU that this thread may run on.
fn last_cpu() -> io::Result<u32> {
    let cpus = sched_getaffinity(None)?;
    let last = (0..rustix::thread::CpuSet::MAX_CPU).rev().find(|&cpu| cpus.is_set(cpu));
    last.map(|cpu| cpu as u32).ok_or_else(|| io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_the_median_paired_difference_plus_the_common_cost() {
        // Bursts of two operations, in ns; the first of each touches memory and does not count.
        let ours = [9000.0, 3000.0, 3400.0, 3200.0, 3800.0, 9000.0];
        let bare = [9000.0, 1000.0, 1000.0, 1000.0, 1000.0, 1000.0];
        let before = [9000.0, 900.0, 980.0];
        let cost = spread(&ours, &bare, &before, 2.0);
        let ns = |seconds: f64| (seconds * 1e9).round();
        assert_eq!([cost.low_s, cost.median_s, cost.high_s].map(ns), [1150.0, 1250.0, 1450.0]);
    }

    #[test]
    fn a_negative_cost_is_zero() {
        let cost = spread(&[0.0, 990.0, 980.0], &[0.0, 1000.0, 1000.0], &[0.0, 1000.0], 1.0);
        assert_eq!(cost, Spread { low_s: 0.0, median_s: 0.0, high_s: 0.0 });
    }
}
