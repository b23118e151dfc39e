//! The traits of a capture source, which reports finished system calls.

use std::io;
use std::sync::Arc;

use super::event::Event;

/// A source of finished calls. A single thread waits and drains until the capture ends.
pub trait Source: Send + Sync {
    /// Sleeps briefly, at most until there may be events to drain.
    fn wait(&self);

    /// Appends the events since the last drain in chronological order; with `last`, all of them.
    fn drain(&mut self, out: &mut Vec<Event>, last: bool);

    /// Returns the counts so far.
    fn observed(&self) -> Observed;

    /// The environment variable that an observed program needs: name and value.
    fn environment(&self) -> Option<(&'static str, String)> {
        None
    }

    /// Returns the observer, which attaches processes; None if the source finds them by itself.
    fn observer(&self) -> Option<Arc<dyn Observer>> {
        None
    }
}

/// Counts of a source, and what it can report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Reports that did not fit into a buffer or were damaged.
    pub lost: u64,
    /// All reported calls; the cost of a capture is computed from these.
    pub calls: u64,
    /// Number of times that threads were scheduled out; None if the source does no work then.
    pub switches: Option<u64>,
    /// CPU time of the threads outside timed calls; None if unknown.
    pub cpu_ns: Option<u64>,
    /// Whether every read and write is reported, on any descriptor.
    pub every_call: bool,
    /// Whether all requests of io_uring are reported.
    pub sees_io_uring: bool,
    /// Whether samples of the threads' instruction pointers are reported.
    pub samples: bool,
    /// Page faults that read a file, and the time that threads waited in them; None if unknown.
    pub file_faults: Option<u64>,
    pub file_fault_ns: Option<u64>,
    /// Whether any process was reached.
    pub connected: bool,
    /// Number of observed threads and of all threads; None if all are observed.
    pub sampled: Option<(u64, u64)>,
}

/// Attaches processes to a source, while another thread drains it.
pub trait Observer: Send + Sync {
    /// Prepares for attaching a process and then its descendants.
    ///
    /// Errors: EMFILE if the limit of descriptors does not suffice for a single thread.
    fn expect(&self, _pid: i32) -> io::Result<()> {
        Ok(())
    }

    /// Observes a process with all its threads and all processes that it starts from now on. Has no
    /// effect on a process that is already observed.
    ///
    /// Errors: ESRCH when there is no such process, EACCES or EPERM when it may not be observed.
    fn attach(&self, pid: i32) -> io::Result<()>;

    /// Watches for children that `parent` starts from now on and whose command line contains
    /// `title`, not followed by a digit.
    fn forks(&self, parent: i32, title: &str) -> io::Result<Forks>;
}

/// Sleeps briefly, at most until a child is started; returns the children with the title that were
/// started since the last call.
pub type Forks = Box<dyn FnMut() -> Vec<i32> + Send>;
