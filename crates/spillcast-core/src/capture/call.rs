//! What every capture reports: finished system calls, and what changes the meaning of a descriptor.

/// The system calls that are observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CallKind {
    Read,
    Write,
    Pread64,
    Pwrite64,
    Readv,
    Writev,
    Preadv,
    Pwritev,
    Preadv2,
    Pwritev2,
    Lseek,
    Open,
    Openat,
    Openat2,
    Creat,
    Close,
    Dup,
    Dup2,
    Dup3,
    /// Only where it duplicates a descriptor.
    Fcntl,
}

impl CallKind {
    pub const ALL: [CallKind; 20] = [
        CallKind::Read,
        CallKind::Write,
        CallKind::Pread64,
        CallKind::Pwrite64,
        CallKind::Readv,
        CallKind::Writev,
        CallKind::Preadv,
        CallKind::Pwritev,
        CallKind::Preadv2,
        CallKind::Pwritev2,
        CallKind::Lseek,
        CallKind::Open,
        CallKind::Openat,
        CallKind::Openat2,
        CallKind::Creat,
        CallKind::Close,
        CallKind::Dup,
        CallKind::Dup2,
        CallKind::Dup3,
        CallKind::Fcntl,
    ];

    /// The kernel's name of the call, as in `syscalls:sys_enter_NAME`.
    pub fn name(self) -> &'static str {
        match self {
            CallKind::Read => "read",
            CallKind::Write => "write",
            CallKind::Pread64 => "pread64",
            CallKind::Pwrite64 => "pwrite64",
            CallKind::Readv => "readv",
            CallKind::Writev => "writev",
            CallKind::Preadv => "preadv",
            CallKind::Pwritev => "pwritev",
            CallKind::Preadv2 => "preadv2",
            CallKind::Pwritev2 => "pwritev2",
            CallKind::Lseek => "lseek",
            CallKind::Open => "open",
            CallKind::Openat => "openat",
            CallKind::Openat2 => "openat2",
            CallKind::Creat => "creat",
            CallKind::Close => "close",
            CallKind::Dup => "dup",
            CallKind::Dup2 => "dup2",
            CallKind::Dup3 => "dup3",
            CallKind::Fcntl => "fcntl",
        }
    }

    pub fn is_io(self) -> bool {
        (self as u8) < CallKind::Lseek as u8
    }

    /// The call of a name; None for one that is not observed.
    pub fn named(name: &str) -> Option<CallKind> {
        CallKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns a descriptor for a file it was given the path of.
    pub fn opens(self) -> bool {
        matches!(self, CallKind::Open | CallKind::Openat | CallKind::Openat2 | CallKind::Creat)
    }

    /// Returns another descriptor for the one it was given.
    pub fn duplicates(self) -> bool {
        matches!(self, CallKind::Dup | CallKind::Dup2 | CallKind::Dup3 | CallKind::Fcntl)
    }

    pub fn from_u8(value: u8) -> Option<CallKind> {
        CallKind::ALL.get(value as usize).copied()
    }
}

/// One finished system call of an observed thread.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    pub pid: i32,
    pub tid: i32,
    pub kind: CallKind,
    /// CLOCK_MONOTONIC, nanoseconds.
    pub start_ns: u64,
    pub end_ns: u64,
    /// The descriptor the call was given (-1 for opens, which return theirs).
    pub fd: i32,
    /// The offset given to the positioned calls; None for the others.
    pub offset: Option<i64>,
    /// What the kernel returned: bytes, a descriptor, a position, or a negative errno.
    pub ret: i64,
    /// CPU time of the thread from its previous reported I/O call to the start of this one.
    pub cpu_before_ns: Option<u64>,
    /// Whether the thread left the CPU during the call.
    pub blocked: Option<bool>,
    /// Each time it did so by itself; empty where the source cannot tell.
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
    /// CPU time since the block or the I/O call before; of a block in a call, since the call began.
    pub cpu_before_ns: u64,
    /// The observed thread that woke it; None for an interrupt, any other process, a thread that
    /// ended, or nobody known.
    pub woken_by: Option<i32>,
}

/// What a descriptor stood for at the moment it was looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct FileIdentity {
    /// Path as /proc/PID/fd shows it, without the ` (deleted)` mark.
    pub path: String,
    pub dev: u64,
    pub ino: u64,
    pub regular: bool,
    /// No directory entry leads to it any more.
    pub unlinked: bool,
    /// File position, where it was asked for.
    pub position: Option<i64>,
}

/// One report of a capture, in the order of time within a thread.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    Call(Call),
    /// A thread waited outside of the I/O calls.
    Blocked {
        tid: i32,
        block: Block,
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
            Event::Call(call) if call.kind.opens() || call.kind.duplicates() => {
                (call.ret >= 0).then_some((call.pid, call.ret as i32))
            }
            Event::Call(call) if call.kind == CallKind::Close => Some((call.pid, call.fd)),
            _ => None,
        }
    }
}
