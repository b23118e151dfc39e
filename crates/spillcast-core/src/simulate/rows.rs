//! The rows of simulated threads, and the offsets of their operations.

use crate::wait::Op;

/// One step of a thread: CPU, then a wait.
#[derive(Clone, Copy, Debug, Default)]
pub struct Row {
    pub thread: u32,
    pub cpu_ns: u64,
    pub wait: Wait,
    /// CPU time within a wait off the core; it counts towards the quota.
    pub call_ns: u64,
    /// Whether the wait is temp I/O, whose time is summed.
    pub temp: bool,
}

/// The wait with which a row ends.
#[derive(Clone, Copy, Debug)]
pub enum Wait {
    /// A given time off the core, such as a wait for a storage or a timer.
    For(u64),
    /// A given time on the core, such as a copy from memory.
    OnCore(u64),
    /// Until the thread of row `row` has ended that row and then burned `cpu_ns`.
    Until { row: usize, cpu_ns: u64 },
    /// As long as the storage takes.
    Io(Io),
}

impl Default for Wait {
    fn default() -> Wait {
        Wait::For(0)
    }
}

/// The rows of all threads, those of each thread in order.
pub trait Rows {
    fn count(&self) -> usize;
    fn row(&self, at: usize) -> Row;
}

impl<T: AsRef<[Row]> + ?Sized> Rows for T {
    fn count(&self) -> usize {
        self.as_ref().len()
    }

    fn row(&self, at: usize) -> Row {
        self.as_ref()[at]
    }
}

/// A read or write.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Io {
    pub op: Op,
    pub file: u32,
    /// None if unknown; the operation is then assumed to follow the last one.
    pub offset: Option<u64>,
    pub bytes: u64,
    /// Time of the operation if the page cache serves the read or absorbs the write.
    pub cached_ns: u64,
    /// Bytes that a read needs from the storage; None if the simulated page cache decides.
    pub missing_bytes: Option<u64>,
}

/// By file number, the ends of its last read and of its last write.
pub(crate) type Ends = Vec<[Option<u64>; 2]>;

/// The operation with its offset, and whether it is sequential: it starts where the last one of the
/// same kind on its file ended, or is the first.
pub fn place(ends: &mut Ends, io: Io) -> (Io, bool) {
    let file = io.file as usize;
    if ends.len() <= file {
        ends.resize(file + 1, [None; 2]);
    }
    let last = &mut ends[file][usize::from(io.op == Op::Write)];
    let offset = io.offset.or(*last).unwrap_or(0);
    let follows = io.offset.is_none() || last.is_none_or(|end| end == offset);
    *last = Some(offset + io.bytes);
    (Io { offset: Some(offset), ..io }, follows)
}
