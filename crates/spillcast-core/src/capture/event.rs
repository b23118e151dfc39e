//! The reports of capture sources: finished system calls, and changes of descriptors.

use spillcast_calls::{Call, CallKind};

use crate::wait::Op;

/// The activity of a thread during a call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inside {
    /// The times when the thread was blocked; empty if the source does not report them.
    pub blocks: Vec<Block>,
    /// CPU time in the call after the last block.
    pub cpu_ns: u64,
}

/// An interval in which a thread had left the CPU voluntarily.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Block {
    pub start_ns: u64,
    /// Time of the wakeup; if that is unknown, the time when the thread was scheduled in again.
    pub end_ns: u64,
    /// CPU time since the previous block or timed call; inside a call, at most since its start.
    pub cpu_before_ns: u64,
    /// The observed thread that woke this thread; None if it was an interrupt, another process or a
    /// thread that has ended, or if it is unknown.
    pub woken_by: Option<i32>,
}

/// The registers of a thread, and its stack from the stack pointer on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StackSample {
    pub(crate) ip: u64,
    pub(crate) sp: u64,
    pub(crate) fp: u64,
    /// The link register, on processors with one.
    pub(crate) lr: u64,
    pub stack: Vec<u8>,
}

/// The file of a descriptor at the time of the look-up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FileIdentity {
    /// Path as /proc/PID/fd shows it, without the ` (deleted)` mark.
    pub path: String,
    pub dev: u64,
    pub ino: u64,
    /// Birth, nanoseconds since the epoch; None if the source does not report it.
    pub born_ns: Option<i128>,
    pub regular: bool,
    /// Whether it has no directory entry any more.
    pub unlinked: bool,
    /// File position, if it was looked up.
    pub position: Option<i64>,
    /// End of the file, if the descriptor appends to it (O_APPEND).
    pub append_at: Option<i64>,
}

impl FileIdentity {
    /// A regular file of which only the path is known.
    pub fn named(path: String, unlinked: bool) -> FileIdentity {
        FileIdentity { path, regular: true, unlinked, ..FileIdentity::default() }
    }

    /// Whether it is a file of memfd_create, which is not on storage.
    pub(crate) fn in_memory(&self) -> bool {
        self.path.starts_with("/memfd:")
    }
}

/// A finished io_uring request that read or wrote.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    pub pid: i32,
    /// The thread that submitted it.
    pub tid: i32,
    pub start_ns: u64,
    /// Time at which its completion became visible.
    pub end_ns: u64,
    pub op: Op,
    pub offset: i64,
    /// Bytes moved, or the negative error number.
    pub ret: i64,
    /// Device and inode.
    pub file: (u64, u64),
    pub regular: bool,
    pub unlinked: bool,
    /// Most file requests and calls in flight for its thread at once, since it had none.
    pub at_once: u64,
    /// CPU time of the thread since its last block, call or request.
    pub cpu_before_ns: u64,
    /// CPU time of the thread's other work while the request was in flight.
    pub busy_ns: u64,
}

/// A report of a capture; the reports of a thread are in chronological order.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    Call(Call, Inside),
    /// A call with the path of a file: absolute, but its folder may contain links.
    Named {
        call: Call,
        inside: Inside,
        path: String,
    },
    /// A thread was scheduled out voluntarily outside of timed calls.
    Blocked {
        tid: i32,
        block: Block,
    },
    /// Like `Blocked`, in an I/O wait of the kernel; with `writeback`, the thread waited for dirty
    /// pages to reach storage and free memory.
    BlockedOnIo {
        tid: i32,
        block: Block,
        writeback: bool,
    },
    /// Like `Blocked`, while exactly one io_uring request of the thread was in flight.
    BlockedInRequest {
        tid: i32,
        block: Block,
    },
    Request(Request),
    /// A thread was running at this address of its code.
    Sample {
        pid: i32,
        tid: i32,
        time_ns: u64,
        ip: u64,
    },
    /// Like `Sample`, with the thread's stack.
    Stack {
        pid: i32,
        tid: i32,
        time_ns: u64,
        sample: Box<StackSample>,
    },
    /// Descriptor `fd` of process `pid` refers to this file from now on.
    File {
        pid: i32,
        fd: i32,
        file: FileIdentity,
    },
    /// Descriptor `fd` of process `pid`, just opened, changed again before its file was identified.
    Unidentified {
        pid: i32,
        fd: i32,
    },
    Fork {
        parent: i32,
        child: i32,
    },
    /// The process executed another program: descriptors may have been closed.
    Exec {
        pid: i32,
    },
    ProcessExit {
        pid: i32,
    },
}

impl Event {
    /// The process and descriptor that refer to another file, or none, after this event, if any.
    pub fn changes(&self) -> Option<(i32, i32)> {
        match self {
            Event::Call(call, _) if call.kind.opens() || call.kind.duplicates() => {
                (call.ret >= 0).then_some((call.pid, call.ret as i32))
            }
            Event::Call(call, _) if call.kind == CallKind::Close => Some((call.pid, call.fd)),
            _ => None,
        }
    }
}
