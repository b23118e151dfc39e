//! Opens the events of a thread or of the whole machine: those of a CPU share a ring.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use aya::util::online_cpus;
use spillcast_calls::CallKind;

use super::open::{self, ALL_TIDS, Also};
use super::tracepoints::Tracepoints;

use crate::lock::lock;

/// Up to this many CPUs, stacks of all processes are sampled: each CPU copies 3 MB a second.
const ALL_CPUS_MAX: usize = 16;

/// Takes over an event that was opened.
type Add<'a> = dyn FnMut(OwnedFd) -> io::Result<()> + 'a;

/// The tracepoints of a capture, a ring holder on each CPU, and all events that write to the rings.
pub struct Events {
    pub(crate) tracepoints: Tracepoints,
    pub(crate) every_call: bool,
    /// Numbers of the calls' tracepoints, and what each does in addition.
    calls: Vec<(u16, Also)>,
    cpus: Vec<i32>,
    /// The events that hold the rings, one per CPU.
    pub(crate) holders: Vec<OwnedFd>,
    opened: Mutex<Vec<OwnedFd>>,
    /// False once an event that samples was refused.
    samples: AtomicBool,
}

impl Events {
    /// Determines the tracepoints. Errors say why perf events cannot be used.
    pub fn new(calls: &[CallKind]) -> io::Result<Events> {
        let tracepoints = Tracepoints::find()?;
        let every_call = calls.len() == CallKind::ALL.len();
        let calls = tracepoints.of_calls(calls);
        let cpus = online_cpus().map_err(|(_, error)| error)?;
        let cpus: Vec<i32> = cpus.into_iter().map(|cpu| cpu as i32).collect();
        let holders: io::Result<_> = cpus.iter().map(|&cpu| open::dummy(cpu)).collect();
        Ok(Events {
            tracepoints,
            every_call,
            calls,
            cpus,
            holders: holders?,
            opened: Mutex::default(),
            samples: AtomicBool::new(true),
        })
    }

    /// Whether this process may observe all others at once. This needs a kernel filter by name and
    /// so tracefs, which has the tracepoint of renamings.
    pub(crate) fn may_observe_all(&self) -> bool {
        let event =
            || open::tracepoint(self.calls.first()?.0, ALL_TIDS, self.cpus[0], Also::Nothing).ok();
        self.tracepoints.renaming.is_some() && event().is_some()
    }

    /// Number of descriptors that [`Events::open_on`] takes for a thread.
    pub fn descriptors(&self) -> usize {
        let waking = usize::from(self.tracepoints.waking.is_some());
        self.cpus.len() * (3 + waking + self.calls.len())
    }

    /// Opens all events of a thread and of the threads and processes that it starts.
    pub(crate) fn open_on(&self, tid: i32) -> io::Result<()> {
        self.open_each(|cpu, add| {
            add(open::switches(tid, cpu)?)?;
            self.add_samples(tid, cpu, add)?;
            // If wakings are refused, the switches alone show how long a thread waited.
            if let Some(waking) = self.tracepoints.waking
                && let Ok(wakings) = open::kernel_tracepoint(waking.id, tid, cpu, Also::Nothing)
            {
                add(wakings)?;
            }
            self.calls.iter().try_for_each(|&(id, also)| add(open::tracepoint(id, tid, cpu, also)?))
        })
    }

    /// Opens the context switches, forks and exits of all threads of the machine.
    pub(crate) fn open_switches(&self) -> io::Result<()> {
        self.open_each(|cpu, add| {
            add(open::switches(ALL_TIDS, cpu)?)?;
            self.add_samples(ALL_TIDS, cpu, add)
        })
    }

    /// Whether the instruction pointers of all observed threads are sampled.
    pub fn samples(&self) -> bool {
        self.samples.load(Ordering::Relaxed)
    }

    /// Adds the events that sample; a capture does without them if they are refused.
    fn add_samples(&self, tid: i32, cpu: i32, add: &mut Add<'_>) -> io::Result<()> {
        let mut add_or_note = |event: io::Result<OwnedFd>| match event {
            Ok(event) => add(event),
            Err(error) if error.raw_os_error() == Some(libc::EMFILE) => Err(error),
            Err(_) => {
                self.samples.store(false, Ordering::Relaxed);
                Ok(())
            }
        };
        add_or_note(open::samples(tid, cpu))?;
        if tid == ALL_TIDS && self.cpus.len() > ALL_CPUS_MAX {
            return Ok(());
        }
        add_or_note(open::stacks(tid, cpu))
    }

    /// Opens the calls, wakings and renamings of the threads whose name passes `filter`. `filter`
    /// gets the field of the name and returns the expression; None passes all threads.
    pub(crate) fn open_calls(&self, filter: impl Fn(&str) -> Option<CString>) -> io::Result<()> {
        let filtered = |event: OwnedFd, field| {
            filter(field).map_or(Ok(()), |text| open::filter(&event, &text))?;
            Ok::<_, io::Error>(event)
        };
        self.open_each(|cpu, add| {
            // In a waking, `comm` is the name of the woken thread.
            if let Some(waking) = self.tracepoints.waking {
                let wakings = open::kernel_tracepoint(waking.id, ALL_TIDS, cpu, Also::Nothing)?;
                add(filtered(wakings, "comm")?)?;
            }
            if let Some(renaming) = self.tracepoints.renaming {
                let renamings = open::kernel_tracepoint(renaming.id, ALL_TIDS, cpu, Also::Wakes)?;
                add(filtered(renamings, "oldcomm")?)?;
            }
            self.calls.iter().try_for_each(|&(id, also)| {
                let event = open::tracepoint(id, ALL_TIDS, cpu, also)?;
                add(filtered(event, "comm")?)
            })
        })
    }

    /// Lets `open` add events on each CPU to its ring; keeps all of them, or none on an error.
    fn open_each(&self, open: impl Fn(i32, &mut Add<'_>) -> io::Result<()>) -> io::Result<()> {
        let mut opened = Vec::new();
        for (&cpu, holder) in self.cpus.iter().zip(&self.holders) {
            open(cpu, &mut |event| {
                open::redirect(&event, holder)?;
                opened.push(event);
                Ok(())
            })?;
        }
        lock(&self.opened).append(&mut opened);
        Ok(())
    }
}
