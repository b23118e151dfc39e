//! What every capture source reports: finished system calls, and what changes the meaning of a
//! descriptor.

use spillcast_calls::{Call, CallKind};

use crate::wait::Op;

/// What is known of the inside of a call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inside {
    /// Each time the thread left the CPU by itself; empty where the source cannot tell.
    pub blocks: Vec<Block>,
    /// CPU time in the call after the last of them.
    pub cpu_ns: u64,
}

/// A time for which a thread had left the CPU by itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Block {
    pub start_ns: u64,
    /// When it was woken; where that is not known, when it was on a CPU again.
    pub end_ns: u64,
    /// CPU time since the block or the timed call before; of a block in a call, since the call began.
    pub cpu_before_ns: u64,
    /// The observed thread that woke it; None for an interrupt, any other process, a thread that
    /// ended, or nobody known.
    pub woken_by: Option<i32>,
}

/// The registers of a thread, and its stack from the stack pointer on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StackSample {
    pub ip: u64,
    pub sp: u64,
    pub fp: u64,
    /// The return address of the innermost function, on processors that keep it in a register.
    pub lr: u64,
    pub stack: Vec<u8>,
}

/// What a descriptor stood for at the moment it was looked at.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FileIdentity {
    /// Path as /proc/PID/fd shows it, without the ` (deleted)` mark.
    pub path: String,
    pub dev: u64,
    pub ino: u64,
    /// Birth, nanoseconds since the epoch; None where the source does not tell.
    pub born_ns: Option<i128>,
    pub regular: bool,
    /// No directory entry leads to it any more.
    pub unlinked: bool,
    /// File position, where it was asked for.
    pub position: Option<i64>,
}

impl FileIdentity {
    /// A regular file of which no more is known than its path.
    pub fn named(path: String, unlinked: bool) -> FileIdentity {
        FileIdentity { path, regular: true, unlinked, ..FileIdentity::default() }
    }

    /// A file of memfd_create has no name on any storage, nor any storage.
    pub fn in_memory(&self) -> bool {
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
    /// How many its thread had under way at once, with calls on files, from when it had none.
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
    /// A call that was given the path of a file: absolute, links in its folder may be unresolved.
    Named {
        call: Call,
        inside: Inside,
        path: String,
    },
    /// A thread waited outside of the timed calls.
    Blocked {
        tid: i32,
        block: Block,
    },
    /// The same where the kernel did I/O for it: with `writeback` for room in memory, which dirty
    /// pages leave once they are on storage.
    BlockedOnIo {
        tid: i32,
        block: Block,
        writeback: bool,
    },
    /// The same while one request of io_uring, and no more, was under way for the thread.
    BlockedInRequest {
        tid: i32,
        block: Block,
    },
    Request(Request),
    /// A thread was seen on a CPU, at this address of its code.
    Sample {
        pid: i32,
        tid: i32,
        time_ns: u64,
        ip: u64,
    },
    /// The same with its stack; samples that found no room are without.
    Stack {
        pid: i32,
        tid: i32,
        time_ns: u64,
        sample: Box<StackSample>,
    },
    /// Descriptor `fd` of process `pid` stands for this file from now on.
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
    /// The process and descriptor that stand for something else from now on, if any.
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
