//! A process that was attached while it ran: since when, and what it had done before.

use crate::proc::{Moved, Stat, moved};
use crate::system::{boot_ns, now_ns};

/// What the capture cannot know of a process, as /proc tells it at the moment of the attachment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Joined {
    pub pid: i32,
    /// CLOCK_MONOTONIC at its start, to within a clock tick (10 ms); None when it has ended.
    pub started_ns: Option<u64>,
    /// CLOCK_MONOTONIC when the capture was ready.
    pub attached_ns: u64,
    /// Calls that read and wrote anything, and their bytes, before; None where /proc refuses.
    pub before: Option<Moved>,
    /// Temp files that it had open by then: without any it had hardly done temp I/O.
    pub temp_files: u64,
}

impl Joined {
    /// Looks at a process that has just been attached, with so many temp files open.
    pub fn look(pid: i32, temp_files: u64) -> Joined {
        let (started_ns, attached_ns) = (started_ns(pid), now_ns());
        Joined { pid, started_ns, attached_ns, before: moved(pid), temp_files }
    }
}

fn started_ns(pid: i32) -> Option<u64> {
    let suspended_ns = boot_ns().saturating_sub(now_ns());
    Some(Stat::of(pid)?.start_ns.saturating_sub(suspended_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_started_before_now_and_has_read() {
        let me = Joined::look(std::process::id() as i32, 0);
        assert!(me.started_ns.unwrap() <= me.attached_ns);
        assert!(me.before.unwrap().reads > 0);
        assert!(Joined::look(i32::MAX, 0).before.is_none());
    }
}
