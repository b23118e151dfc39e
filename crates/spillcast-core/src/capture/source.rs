//! What a capture source is: it reports finished system calls, and all that comes after is shared.

use std::io;
use std::sync::Arc;

use super::event::Event;

/// Where finished calls come from. One thread waits and drains until the capture ends.
pub trait Source: Send + Sync {
    /// Sleeps until there may be something to drain, for a moment at the most.
    fn wait(&self);

    /// Appends what happened since the last drain, in the order of time; with `last` all that did.
    fn drain(&mut self, out: &mut Vec<Event>, last: bool);

    /// What it saw so far.
    fn observed(&self) -> Observed;

    /// The variable that a program must find in its environment: name and value.
    fn environment(&self) -> Option<(&'static str, String)> {
        None
    }

    /// What attaches processes; None where the source finds them by itself.
    fn observer(&self) -> Option<Arc<dyn Observer>> {
        None
    }
}

/// What a source saw of the observed threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Reports that found no room, or were damaged.
    pub lost: u64,
    /// Calls that it was told of, on whatever they were; the cost of a capture is measured by these.
    pub calls: u64,
    /// How often a thread left the CPU; None where the source does nothing then.
    pub switches: Option<u64>,
    /// CPU time outside timed calls; None where it cannot be told.
    pub cpu_ns: Option<u64>,
    /// Whether all requests of io_uring are reported.
    pub sees_io_uring: bool,
    /// Whether samples of where threads are in their code are reported.
    pub samples: bool,
    /// Page faults that read a file, and how long threads waited in them; None where they are not
    /// seen.
    pub file_faults: Option<u64>,
    pub file_fault_ns: Option<u64>,
    /// Whether any process was reached.
    pub connected: bool,
    /// How many threads are observed, of how many there were; None where all are.
    pub sampled: Option<(u64, u64)>,
}

/// Attaches processes to a source, while another thread drains it.
pub trait Observer: Send + Sync {
    /// Tells that a process and its descendants are about to be attached, one by one.
    ///
    /// Errors: EMFILE when there is no room for any.
    fn expect(&self, _pid: i32) -> io::Result<()> {
        Ok(())
    }

    /// Observes a process with all its threads, and all that it starts from now on; once is enough.
    ///
    /// Errors: ESRCH when there is no such process, EACCES or EPERM when it may not be observed.
    fn attach(&self, pid: i32) -> io::Result<()>;

    /// Watches for children that `parent` starts from now on and whose command line holds `title`,
    /// not followed by a digit.
    fn births(&self, parent: i32, title: &str) -> io::Result<Births>;
}

/// Sleeps until a child is born, for a moment at the most; the wanted ones born since the last time.
pub type Births = Box<dyn FnMut() -> Vec<i32> + Send>;
