//! What threads did, row by row, and where in its file each operation lies.

use crate::wait::Op;

/// One step of a thread: CPU, and then a wait.
#[derive(Clone, Copy, Debug, Default)]
pub struct Row {
    pub thread: u32,
    pub cpu_ns: u64,
    pub wait: Wait,
    /// CPU time within a wait off the core, which is of the quota.
    pub call_ns: u64,
    /// Temp I/O, which is counted.
    pub temp: bool,
}

/// What a row ends with.
#[derive(Clone, Copy, Debug)]
pub enum Wait {
    /// So long, off the core: a storage, a timer.
    For(u64),
    /// So long, on the core: a copy from memory.
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

/// The rows of all threads, each thread's in order: in memory, or made of columns when asked for.
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
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Io {
    pub op: Op,
    pub file: u32,
    /// Where in the file; None where that is not known: then it is taken to follow the last one.
    pub offset: Option<u64>,
    pub bytes: u64,
    /// How long it takes where a page cache answers it, or takes what it writes.
    pub cached_ns: u64,
    /// Of a read, how much the storage has to bring; None where the page cache is asked.
    pub missing_bytes: Option<u64>,
}

/// By file, which are numbered from 0, where its last write and its last other operation ended.
pub type Ends = Vec<[Option<u64>; 2]>;

/// An operation with its offset, and whether it begins where the last one of its op on its file
/// ended; a first one does, as on a mount.
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
