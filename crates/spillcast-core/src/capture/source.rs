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

    /// How many reports found no room, or were damaged.
    fn lost(&self) -> u64;

    /// What it saw of the observed threads that costs them time.
    fn observed(&self) -> Observed;

    /// CPU time of all observed threads outside their timed calls; None where it cannot be told.
    fn cpu_ns(&self) -> Option<u64> {
        None
    }

    /// Whether it reports all requests of io_uring.
    fn sees_io_uring(&self) -> bool {
        false
    }

    /// Whether it reports samples of where in their code the observed threads are.
    fn samples(&self) -> bool {
        false
    }

    /// Page faults of the observed threads that read a file; None where they are not seen.
    fn file_faults(&self) -> Option<u64> {
        None
    }

    /// How long they waited in these; None where it is not seen.
    fn file_fault_ns(&self) -> Option<u64> {
        None
    }

    /// Whether it has reached any process.
    fn connected(&self) -> bool {
        true
    }

    /// How many threads are observed, of how many there were; None where all are.
    fn sampled(&self) -> Option<(u64, u64)> {
        None
    }

    /// The variable that a program must find in its environment: name and value.
    fn environment(&self) -> Option<(&'static str, String)> {
        None
    }

    /// What attaches processes; None where the source finds them by itself.
    fn observer(&self) -> Option<Arc<dyn Observer>> {
        None
    }
}

/// How often observed threads paid for being observed; the capture's cost is measured by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Calls that the source was told of, on whatever they were.
    pub calls: u64,
    /// How often a thread left the CPU; None where the source does nothing then.
    pub switches: Option<u64>,
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
