//! Finished system calls, as every capture source reports them.

use libc::c_long;

/// Numbers of calls. Newer architectures than x86 lack calls that another call can replace.
mod numbers {
    use libc::c_long;
    pub use libc::*;

    pub const ABSENT: c_long = -1;

    #[cfg(not(target_arch = "x86_64"))]
    #[expect(non_upper_case_globals, reason = "as the C library's headers name them")]
    mod absent {
        use super::{ABSENT, c_long};

        pub const SYS_open: c_long = ABSENT;
        pub const SYS_creat: c_long = ABSENT;
        pub const SYS_dup2: c_long = ABSENT;
        pub const SYS_unlink: c_long = ABSENT;
        pub const SYS_stat: c_long = ABSENT;
        pub const SYS_access: c_long = ABSENT;
    }
    #[cfg(not(target_arch = "x86_64"))]
    pub use absent::*;
}

/// Defines [`CallKind`] from the name and number of each call.
macro_rules! calls {
    ($($kind:ident $name:literal $number:ident,)*) => {
        /// The observed system calls.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum CallKind {
            $($kind,)*
        }

        impl CallKind {
            pub const ALL: &[CallKind] = &[$(CallKind::$kind,)*];

            /// The kernel's name of the call, as in `syscalls:sys_enter_NAME`.
            pub fn name(self) -> &'static str {
                match self {
                    $(CallKind::$kind => $name,)*
                }
            }

            /// The kernel's number of the call; None if this processor's kernel has no such call.
            pub fn number(self) -> Option<c_long> {
                let number = match self {
                    $(CallKind::$kind => numbers::$number,)*
                };
                (number != numbers::ABSENT).then_some(number)
            }
        }
    };
}

// Reads and writes come first; fcntl is observed only if it duplicates a descriptor.
calls! {
    Read "read" SYS_read,
    Write "write" SYS_write,
    Pread64 "pread64" SYS_pread64,
    Pwrite64 "pwrite64" SYS_pwrite64,
    Readv "readv" SYS_readv,
    Writev "writev" SYS_writev,
    Preadv "preadv" SYS_preadv,
    Pwritev "pwritev" SYS_pwritev,
    Preadv2 "preadv2" SYS_preadv2,
    Pwritev2 "pwritev2" SYS_pwritev2,
    Lseek "lseek" SYS_lseek,
    Open "open" SYS_open,
    Openat "openat" SYS_openat,
    Openat2 "openat2" SYS_openat2,
    Creat "creat" SYS_creat,
    Close "close" SYS_close,
    CloseRange "close_range" SYS_close_range,
    Dup "dup" SYS_dup,
    Dup2 "dup2" SYS_dup2,
    Dup3 "dup3" SYS_dup3,
    Fcntl "fcntl" SYS_fcntl,
    Ftruncate "ftruncate" SYS_ftruncate,
    Fallocate "fallocate" SYS_fallocate,
    Fsync "fsync" SYS_fsync,
    Fdatasync "fdatasync" SYS_fdatasync,
    SyncFileRange "sync_file_range" SYS_sync_file_range,
    Truncate "truncate" SYS_truncate,
    Unlink "unlink" SYS_unlink,
    Unlinkat "unlinkat" SYS_unlinkat,
    Stat "newstat" SYS_stat,
    Newfstatat "newfstatat" SYS_newfstatat,
    Statx "statx" SYS_statx,
    Access "access" SYS_access,
    Faccessat "faccessat" SYS_faccessat,
    Sendfile "sendfile64" SYS_sendfile,
    Splice "splice" SYS_splice,
    CopyFileRange "copy_file_range" SYS_copy_file_range,
}

impl CallKind {
    /// The call of a name; None if it is not observed.
    pub fn named(name: &str) -> Option<CallKind> {
        CallKind::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// The call at an index of [`CallKind::ALL`].
    pub fn from_u8(value: u8) -> Option<CallKind> {
        CallKind::ALL.get(value as usize).copied()
    }

    pub fn is_io(self) -> bool {
        (self as u8) < CallKind::Lseek as u8
    }

    /// For a call that reads or writes: whether it reads.
    pub fn reads(self) -> bool {
        use CallKind::*;
        matches!(self, Read | Pread64 | Readv | Preadv | Preadv2)
    }

    /// Whether it opens a path and returns a descriptor.
    pub fn opens(self) -> bool {
        matches!(self, CallKind::Open | CallKind::Openat | CallKind::Openat2 | CallKind::Creat)
    }

    /// Whether it acts on the file at a path and returns no descriptor.
    pub fn names_file(self) -> bool {
        self == CallKind::Truncate || self.removes_name() || self.looks_up()
    }

    /// Whether it looks up a path; a file system may have to ask another machine or process.
    pub fn looks_up(self) -> bool {
        use CallKind::*;
        matches!(self, Stat | Newfstatat | Statx | Access | Faccessat)
    }

    /// Whether it removes a name of a file.
    pub fn removes_name(self) -> bool {
        matches!(self, CallKind::Unlink | CallKind::Unlinkat)
    }

    /// Whether it moves no bytes of a file but creates, resizes, removes, syncs or looks it up,
    /// which may take storage time.
    pub fn changes_file(self) -> bool {
        use CallKind::*;
        let by_descriptor =
            matches!(self, Ftruncate | Fallocate | Fsync | Fdatasync | SyncFileRange);
        by_descriptor || self.names_file() || self.opens()
    }

    /// Whether it may be a row: the source separates CPU time and waits inside it from those
    /// outside.
    pub fn is_timed(self) -> bool {
        self.is_io() || self.changes_file() || self.copies()
    }

    /// Whether it moves bytes from one descriptor to another inside the kernel.
    pub fn copies(self) -> bool {
        matches!(self, CallKind::Sendfile | CallKind::Splice | CallKind::CopyFileRange)
    }

    /// Index of the argument that is the file offset or the new length; for a copy, the other
    /// descriptor; for close_range, the last one.
    pub fn offset_argument(self) -> Option<usize> {
        use CallKind::*;
        match self {
            Pread64 | Pwrite64 | Preadv | Pwritev | Preadv2 | Pwritev2 => Some(3),
            Fallocate | Splice | CopyFileRange => Some(2),
            Ftruncate | Truncate | Sendfile | CloseRange => Some(1),
            _ => None,
        }
    }

    /// Whether it closes descriptors.
    pub fn closes(self) -> bool {
        matches!(self, CallKind::Close | CallKind::CloseRange)
    }

    /// Whether it returns a duplicate of the given descriptor.
    pub fn duplicates(self) -> bool {
        matches!(self, CallKind::Dup | CallKind::Dup2 | CallKind::Dup3 | CallKind::Fcntl)
    }
}

/// The offset of a call that was given one and nonetheless writes at the end of its file
/// (`RWF_APPEND`).
pub const TO_END: i64 = i64::MAX;

/// One finished system call of an observed thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Call {
    pub pid: i32,
    pub tid: i32,
    pub kind: CallKind,
    /// CLOCK_MONOTONIC, nanoseconds.
    pub start_ns: u64,
    pub end_ns: u64,
    /// The descriptor given to the call (-1 for opens, which return theirs, and for paths).
    pub fd: i32,
    /// The offset given to the positioned calls and to fallocate, the new length of a truncated
    /// file, the other descriptor of a copy, the last one of close_range; None for the others.
    pub offset: Option<i64>,
    /// What the kernel returned: bytes, a descriptor, a position, or a negative errno.
    pub ret: i64,
    /// CPU time of the thread from its previous timed call to the start of this one.
    pub cpu_before_ns: Option<u64>,
    /// Whether the thread left the CPU during the call.
    pub blocked: Option<bool>,
}

impl Call {
    /// A call without offset, CPU time and blocking.
    #[inline]
    pub fn of(
        (pid, tid): (i32, i32),
        kind: CallKind,
        fd: i32,
        (start_ns, end_ns): (u64, u64),
        ret: i64,
    ) -> Call {
        let (offset, cpu_before_ns, blocked) = (None, None, None);
        Call { pid, tid, kind, start_ns, end_ns, fd, offset, ret, cpu_before_ns, blocked }
    }
}
