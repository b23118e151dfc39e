//! A running capture: a thread that drains the source, and the data gathered so far.

use std::io;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use spillcast_calls::Call;
use spillcast_calls::CallKind::{Fallocate, Ftruncate};

use super::assemble::Assembler;
use super::counts::Counts;
use super::event::Event;
use super::seconds::Second;
use super::source::{Forks, Observed, Observer, Source};
use super::stacks::NamedStacks;
use super::temp::TempRules;
use super::watch::{Due, Looks, Watch};
use crate::lock::lock;
use crate::packed::Packed;
use crate::proc::{Moved, Stat, children, is_held, moved, process_of, visit_all};
use crate::system::{boot_ns, now_ns, run_soon, thread_cpu_ns};
use crate::wait::RowNames;

/// Raw waits and the names that they refer to; later waits of the capture may add names.
#[derive(Clone, Debug, Default)]
pub struct Waits {
    pub rows: Packed,
    pub names: Arc<Mutex<RowNames>>,
}

/// The data since the last [`Capture::take`].
#[derive(Default)]
pub struct Batch {
    pub waits: Waits,
    pub seconds: Vec<Second>,
}

/// The state of a capture, and what it cost.
#[derive(Clone, Debug, Default)]
pub struct Status {
    pub elapsed_ns: u64,
    pub counts: Counts,
    pub observed: Observed,
    /// Raw waits that were dropped because they were not taken in time.
    pub dropped: u64,
    pub tracer_cpu_ns: u64,
    /// CPU time of the observed threads outside the rows of their calls; None if unknown.
    pub cpu_ns: Option<u64>,
    pub run_queue_delay_ns: u64,
    /// The part of it that other processes can explain at most.
    pub run_queue_others_ns: u64,
    /// Whether a process uses io_submit, or io_uring whose requests the source does not report.
    pub io_uring: bool,
    /// CPU time in which threads polled for I/O of other threads that has rows; None if unknown.
    pub spun_ns: Option<u64>,
    pub mapped: Vec<String>,
    /// The observed processes that are still running at the end of the capture.
    pub running: Vec<i32>,
}

struct Shared {
    assembler: Mutex<Assembler>,
    status: Mutex<Status>,
    watch: Mutex<Watch>,
    /// Attaches processes later; None if the source finds them by itself, and after the end.
    observer: Mutex<Option<Arc<dyn Observer>>>,
    /// Held while a process is attached, so that no process is attached twice at the same time.
    attaching: Mutex<()>,
    joined: Mutex<Vec<Joined>>,
    stop: AtomicBool,
    /// The recorded run has ended, though its processes may still run.
    over: AtomicBool,
}

/// A capture that runs until it is stopped.
pub struct Capture {
    /// CLOCK_MONOTONIC at the start of the recording.
    pub origin_ns: u64,
    shared: Arc<Shared>,
    /// The reader, then the threads that wait for children.
    threads: Vec<JoinHandle<()>>,
}

impl Capture {
    /// Starts a capture of the processes `given` and all their descendants. The id of a thread that
    /// is not the main thread of its process stands for that thread alone.
    ///
    /// Errors: those of [`Observer::attach`].
    pub fn start(source: Box<dyn Source>, given: &[i32], rules: TempRules) -> io::Result<Capture> {
        let observer = source.observer();
        let mut pids = given.to_vec();
        if let Some(observer) = &observer {
            let trees = pids.iter().map(|&pid| attach_family(&**observer, pid));
            pids = trees.collect::<io::Result<Vec<_>>>()?.concat();
        }
        let origin_ns = now_ns();
        let mut assembler = Assembler::new(origin_ns, rules);
        let observed = source.observed();
        if observed.samples {
            // A held command still has the code of this program.
            let running = given.iter().map(|&pid| process_of(pid)).filter(|&pid| !is_held(pid));
            running.for_each(|pid| assembler.stacks.read_files(pid));
        }
        let mut watch = Watch::default();
        watch.calls.attach(&pids);
        for pid in pids {
            assembler.snapshot(process_of(pid));
            watch.begin(pid);
        }
        let status = Status { observed, ..Status::default() };
        let shared = Arc::new(Shared {
            assembler: Mutex::new(assembler),
            status: Mutex::new(status),
            watch: Mutex::new(watch),
            observer: Mutex::new(observer),
            attaching: Mutex::default(),
            joined: Mutex::default(),
            stop: AtomicBool::new(false),
            over: AtomicBool::new(false),
        });
        let for_thread = shared.clone();
        let thread = thread::Builder::new()
            .name("spillcast-read".into())
            .spawn(move || Reader { source, shared: for_thread, origin_ns }.run())?;
        Ok(Capture { origin_ns, shared, threads: vec![thread] })
    }

    /// Observes another process with all its descendants. Has no effect on an observed process.
    ///
    /// Errors: those of [`Observer::attach`], and ENOTSUP if the source finds processes by itself
    /// or the capture has ended.
    pub fn attach(&self, pid: i32) -> io::Result<()> {
        self.shared.attach(pid)
    }

    /// Observes children that `parent` starts from now on and whose command line contains `title`.
    ///
    /// Errors: those of [`Capture::attach`].
    pub fn attach_children(&mut self, parent: i32, title: &str) -> io::Result<()> {
        let forks = self.shared.observer()?.forks(parent, title)?;
        let shared = self.shared.clone();
        let thread = thread::Builder::new()
            .name("spillcast-join".into())
            .spawn(move || shared.attach_forked(forks))?;
        self.threads.push(thread);
        Ok(())
    }

    /// The processes that were attached while the capture ran.
    pub fn joined(&self) -> Vec<Joined> {
        lock(&self.shared.joined).clone()
    }

    /// Takes the data since the last call.
    pub fn take(&self) -> Batch {
        let elapsed_ns = now_ns() - self.origin_ns;
        let ended = self.threads.is_empty();
        let mut assembler = lock(&self.shared.assembler);
        // A wait belongs to the second in which it began: waits in flight may still be added.
        let until = if ended { i64::MAX } else { elapsed_ns as i64 / 1_000_000_000 - 2 };
        Batch {
            waits: Waits { rows: mem::take(&mut assembler.waits), names: assembler.names.clone() },
            seconds: assembler.seconds.finish_before(until),
        }
    }

    pub fn status(&self) -> Status {
        let ended = self.threads.first().is_some_and(JoinHandle::is_finished);
        assert!(!ended, "the reader of the capture has panicked");
        lock(&self.shared.status).clone()
    }

    /// The functions that the observed threads ran; None if no stack was sampled.
    pub fn stacks(&self) -> Option<NamedStacks> {
        let stacks = &lock(&self.shared.assembler).stacks;
        stacks.any().then(|| stacks.named())
    }

    /// Notes that the recorded run has ended: its processes no longer count as users of its files.
    pub fn end_run(&self) {
        self.shared.over.store(true, Ordering::Relaxed);
    }

    /// Reads the remaining events and ends the capture; the observed processes continue.
    pub fn stop(&mut self) {
        self.join().for_each(|ended| ended.expect("no thread of a capture panics"));
    }

    fn join(&mut self) -> impl Iterator<Item = thread::Result<()>> {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).map(JoinHandle::join)
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // A second panic, while that of a thread unwinds, would abort the process.
        self.join().for_each(drop);
    }
}

impl Shared {
    fn attach(&self, pid: i32) -> io::Result<()> {
        let _attaching = lock(&self.attaching);
        let has_joined = |pid| lock(&self.joined).iter().any(|other| other.pid == pid);
        if has_joined(pid) {
            return Ok(());
        }
        let family = attach_family(&*self.observer()?, pid)?;
        lock(&self.watch).calls.attach(&family);
        for pid in family {
            let temp_files = lock(&self.assembler).snapshot(process_of(pid));
            if !has_joined(pid) {
                let joined = Joined::look(pid, temp_files);
                lock(&self.joined).push(joined);
            }
            lock(&self.watch).begin(pid);
        }
        Ok(())
    }

    fn observer(&self) -> io::Result<Arc<dyn Observer>> {
        let observer = lock(&self.observer).clone();
        observer.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOTSUP))
    }

    /// Runs in a thread of its own, so that attaching does not delay the reader.
    fn attach_forked(&self, mut forks: Forks) {
        run_soon();
        while !self.stop.load(Ordering::Relaxed) {
            for pid in forks() {
                // It fails for children that have already ended.
                drop(self.attach(pid));
            }
        }
    }
}

struct Reader {
    source: Box<dyn Source>,
    shared: Arc<Shared>,
    origin_ns: u64,
}

impl Reader {
    fn run(mut self) {
        run_soon();
        let mut events = Vec::new();
        let (mut status, mut looks) = (Status::default(), Looks::default());
        loop {
            let last = self.shared.stop.load(Ordering::Relaxed);
            if !last {
                self.source.wait();
            }
            let due = self.due(&mut looks, last);
            self.source.drain(&mut events, last);
            self.gather(&mut events, &mut status);
            status.observed = self.source.observed();
            self.look(due, last, status.observed.cpu_ns.unwrap_or(0));
            if last {
                status.running = lock(&self.shared.watch).running();
                self.settle(&mut status);
            }
            self.report(&mut status);
            if last {
                lock(&self.shared.observer).take();
                // The kernel closes tracepoints for seconds: only the end of the process waits.
                thread::spawn(move || drop(self.source));
                return;
            }
        }
    }

    /// Decides what to read from /proc; reads call counts, which must be older than the reports.
    fn due(&mut self, looks: &mut Looks, last: bool) -> Due {
        let watch = &mut *lock(&self.shared.watch);
        let due = looks.due(watch.run_queue.threads(), last);
        if due.calls {
            watch.calls.look();
        }
        due
    }

    fn gather(&mut self, events: &mut Vec<Event>, status: &mut Status) {
        {
            let mut watch = lock(&self.shared.watch);
            watch.calls.take(events);
            for event in events.iter() {
                match *event {
                    Event::Fork { child: pid, .. } | Event::Exec { pid } => watch.begin(pid),
                    Event::Call(Call { pid, kind: Ftruncate | Fallocate, .. }, _) => {
                        watch.resized(pid);
                    }
                    Event::ProcessExit { pid } => {
                        watch.pids.remove(&pid);
                    }
                    _ => (),
                }
            }
        }
        let mut assembler = lock(&self.shared.assembler);
        assembler.take(events);
        (status.counts, status.dropped) = (assembler.counts, assembler.dropped);
    }

    fn settle(&mut self, status: &mut Status) {
        let mut assembler = lock(&self.shared.assembler);
        let over = self.shared.over.load(Ordering::Relaxed);
        assembler.settle(if over { &[] } else { &status.running });
        status.counts = assembler.counts;
    }

    /// `known_cpu_ns` is the CPU time of the observed threads as counted by the source.
    fn look(&mut self, due: Due, last: bool, known_cpu_ns: u64) {
        let watch = &mut *lock(&self.shared.watch);
        // A source may hold back its latest reports until the next drain.
        if last || !due.calls {
            watch.calls.compare();
        }
        if due.delay {
            watch.run_queue.look(watch.pids.keys().copied(), known_cpu_ns, last);
        }
        if due.blind_spots {
            let mut assembler = lock(&self.shared.assembler);
            watch.look_for_blind_spots(&mut assembler.rules, last);
        }
    }

    fn report(&mut self, status: &mut Status) {
        let watch = lock(&self.shared.watch);
        let (other_changes_ns, spun_ns) = {
            let assembler = lock(&self.shared.assembler);
            let mapped = watch.mapped.iter().filter(|path| !assembler.is_output(path));
            status.mapped = mapped.cloned().collect();
            (assembler.other_changes_cpu_ns, assembler.spinning.cpu_ns)
        };
        let observed = status.observed;
        status.spun_ns = observed.samples.then_some(spun_ns);
        status.cpu_ns = observed.cpu_ns.map(|ns| (ns + other_changes_ns).saturating_sub(spun_ns));
        if observed.every_call {
            // The kernel also counts the calls whose reports did not fit into a buffer.
            status.observed.lost = observed.lost.max(watch.calls.unreported);
        }
        status.elapsed_ns = now_ns() - self.origin_ns;
        status.tracer_cpu_ns = thread_cpu_ns();
        status.run_queue_delay_ns = watch.run_queue.delay_ns();
        status.run_queue_others_ns = watch.run_queue.others_ns;
        status.io_uring = watch.libaio || (watch.io_uring && !observed.sees_io_uring);
        *lock(&self.shared.status) = status.clone();
    }
}

/// The unobserved past of a process, as /proc shows it when the process is attached.
#[derive(Clone, Copy, Debug, Default)]
pub struct Joined {
    pub pid: i32,
    /// CLOCK_MONOTONIC at its start, to within a clock tick (10 ms); None when it has ended.
    pub started_ns: Option<u64>,
    /// CLOCK_MONOTONIC when the capture was ready.
    pub attached_ns: u64,
    /// Calls that read or wrote, and their bytes, before that; None if /proc refuses access.
    pub before: Option<Moved>,
    /// Temp files that it had open by then: without any, it had hardly done temp I/O.
    pub temp_files: u64,
}

impl Joined {
    /// Looks up a process that has just been attached and has `temp_files` temp files open.
    fn look(pid: i32, temp_files: u64) -> Joined {
        let (started_ns, attached_ns) = (started_ns(pid), now_ns());
        Joined { pid, started_ns, attached_ns, before: moved(pid), temp_files }
    }
}

fn started_ns(pid: i32) -> Option<u64> {
    let suspended_ns = boot_ns().saturating_sub(now_ns());
    Some(Stat::of(pid)?.start_ns.saturating_sub(suspended_ns))
}

/// Attaches a process and its descendants; returns all of them, the process first. Attaches only
/// the thread if `pid` is a thread other than the first of its process.
///
/// A process is attached before its children are listed. So each child is either in a list or
/// reported by its fork. Errors: those of [`Observer::attach`]; a descendant that ends meanwhile is
/// skipped.
fn attach_family(observer: &dyn Observer, pid: i32) -> io::Result<Vec<i32>> {
    observer.expect(pid)?;
    observer.attach(pid)?;
    let mut attached = vec![pid];
    if process_of(pid) != pid {
        return Ok(attached);
    }
    let list = |descendants: &[i32]| {
        let parents = [pid].into_iter().chain(descendants.iter().copied());
        Ok(parents.flat_map(children).collect())
    };
    visit_all(list, |child| {
        match observer.attach(child) {
            Ok(()) => attached.push(child),
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => (),
            Err(error) => return Err(error),
        }
        Ok(())
    })?;
    Ok(attached)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_a_start_and_earlier_reads() {
        let me = Joined::look(std::process::id() as i32, 0);
        assert!(me.started_ns.unwrap() <= me.attached_ns);
        assert!(me.before.unwrap().reads > 0);
        assert!(Joined::look(i32::MAX, 0).before.is_none());
    }
}
