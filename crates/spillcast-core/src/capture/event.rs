//! The reports of capture sources: finished system calls, and changes of descriptors.

use spillcast_calls::{Call, CallKind};

use crate::wait::Op;

/// What a thread did during a call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inside {
    /// Each time the thread left the CPU voluntarily; empty if the source does not report that.
    pub blocks: Vec<Block>,
    /// CPU time in the call after the last block.
    pub cpu_ns: u64,
}

/// A time for which a thread had left the CPU voluntarily.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Block {
    pub start_ns: u64,
    /// When it was woken; if that is unknown, when it was on a CPU again.
    pub end_ns: u64,
    /// CPU time since the previous block or timed call, or of a block in a call since its begin.
    pub cpu_before_ns: u64,
    /// The observed thread that woke it; None for an interrupt, another process, a thread that has
    /// ended, or if unknown.
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
    /// No directory entry leads to it any more.
    pub unlinked: bool,
    /// File position, if it was looked up.
    pub position: Option<i64>,
    /// The end of the file, where the descriptor appends to it (O_APPEND).
    pub append_at: Option<i64>,
}

impl FileIdentity {
    /// A regular file of which only the path is known.
    pub fn named(path: String, unlinked: bool) -> FileIdentity {
        FileIdentity { path, regular: true, unlinked, ..FileIdentity::default() }
    }

    /// Whether it is a file of memfd_create, which is on no storage.
    pub(crate) fn in_memory(&self) -> bool {
        self.path.starts_with("/memfd:")
    }
}

/// A finished request of io_uring that read or wrote.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    pub pid: i32,
    /// The thread that submitted it.
    pub tid: i32,
    pub start_ns: u64,
    /// When its completion could be seen.
    pub end_ns: u64,
    pub op: Op,
    pub offset: i64,
    /// Bytes moved, or the negative error number.
    pub ret: i64,
    /// Device and inode.
    pub file: (u64, u64),
    pub regular: bool,
    pub unlinked: bool,
    /// How many requests and calls on files its thread had in flight at once, since it had none.
    pub at_once: u64,
    /// CPU time of the thread since its last block, call or request.
    pub cpu_before_ns: u64,
    /// CPU time of the thread's other work meanwhile.
    pub busy_ns: u64,
}

/// One report of a capture, in the order of time within a thread.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    Call(Call, Inside),
    /// A call with the path of a file: absolute, but its folder may contain links.
    Named {
        call: Call,
        inside: Inside,
        path: String,
    },
    /// A thread left the CPU outside of the timed calls.
    Blocked {
        tid: i32,
        block: Block,
    },
    /// The same while it waited for I/O of the kernel; with `writeback` for memory that dirty pages
    /// occupy until they are on storage.
    BlockedOnIo {
        tid: i32,
        block: Block,
        writeback: bool,
    },
    /// The same while exactly one request of io_uring was in flight for the thread.
    BlockedInRequest {
        tid: i32,
        block: Block,
    },
    Request(Request),
    /// A thread was on a CPU, at this address of its code.
    Sample {
        pid: i32,
        tid: i32,
        time_ns: u64,
        ip: u64,
    },
    /// The same with its stack.
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
    Fork {
        parent: i32,
        child: i32,
    },
    /// The process started another program: descriptors may have been closed.
    Exec {
        pid: i32,
    },
    ProcessExit {
        pid: i32,
    },
}

impl Event {
    /// The process and descriptor whose file changes, if any.
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
