//! The traits of a capture source, which reports finished system calls.

use std::io;
use std::sync::Arc;

use super::event::Event;

/// A source of finished calls. A single thread waits and drains until the capture ends.
pub trait Source: Send + Sync {
    /// Sleeps until there may be something to drain, but only briefly.
    fn wait(&self);

    /// Appends the events since the last drain in the order of time; with `last`, all of them.
    fn drain(&mut self, out: &mut Vec<Event>, last: bool);

    /// Counts so far.
    fn observed(&self) -> Observed;

    /// The variable that the observed program needs in its environment: name and value.
    fn environment(&self) -> Option<(&'static str, String)> {
        None
    }

    /// Attaches processes; None if the source finds them by itself.
    fn observer(&self) -> Option<Arc<dyn Observer>> {
        None
    }
}

/// What a source has observed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Reports that did not fit or were damaged.
    pub lost: u64,
    /// All reported calls; the cost of a capture is computed from these.
    pub calls: u64,
    /// How often threads left the CPU; None if the source does no work then.
    pub switches: Option<u64>,
    /// CPU time outside timed calls; None if unknown.
    pub cpu_ns: Option<u64>,
    /// Whether each read and write is reported, on whatever descriptor.
    pub every_call: bool,
    /// Whether all requests of io_uring are reported.
    pub sees_io_uring: bool,
    /// Whether samples of the threads' instruction pointers are reported.
    pub samples: bool,
    /// Page faults that read a file, and the time threads waited in them; None if unknown.
    pub file_faults: Option<u64>,
    pub file_fault_ns: Option<u64>,
    /// Whether any process was reached.
    pub connected: bool,
    /// How many threads are observed, and how many there were; None if all are.
    pub sampled: Option<(u64, u64)>,
}

/// Attaches processes to a source, while another thread drains it.
pub trait Observer: Send + Sync {
    /// Prepares for attaching a process and then each of its descendants.
    ///
    /// Errors: EMFILE when there is no room for any.
    fn expect(&self, _pid: i32) -> io::Result<()> {
        Ok(())
    }

    /// Observes a process with all its threads and all processes that it starts from now on. Has no
    /// effect on an observed process.
    ///
    /// Errors: ESRCH when there is no such process, EACCES or EPERM when it may not be observed.
    fn attach(&self, pid: i32) -> io::Result<()>;

    /// Watches for children that `parent` starts from now on and whose command line holds `title`,
    /// not followed by a digit.
    fn forks(&self, parent: i32, title: &str) -> io::Result<Forks>;
}

/// Sleeps until a child is started, but only briefly; returns the children since the last call that
/// have the title.
pub type Forks = Box<dyn FnMut() -> Vec<i32> + Send>;
