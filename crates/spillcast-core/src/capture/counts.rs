//! Counts of the observed I/O.

use crate::wait::{Op, Wait};

/// Counts of a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    pub temp_reads: u64,
    pub temp_writes: u64,
    pub temp_bytes: u64,
    pub temp_ns: u64,
    pub other_io: u64,
    /// Writes among `other_io` that go to files on storage.
    pub other_writes: u64,
    pub other_io_ns: u64,
    /// Calls on a descriptor that was closed before its file was looked up.
    pub unknown_file: u64,
    /// Calls that copied from or to temp files inside the kernel and have no rows, and their bytes.
    pub temp_copies: u64,
    pub temp_copied_bytes: u64,
    /// Largest number of io_uring requests and calls that a thread had in flight at once, at least
    /// one of them on a temp file.
    pub io_uring_depth: u64,
    /// CPU time of these threads' other work while the requests were in flight.
    pub io_uring_busy_ns: u64,
}

/// Reads and writes of one kind of file.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Io {
    pub reads: u64,
    /// Writes to files on storage.
    pub writes: u64,
    /// Writes to files in memory.
    pub(crate) memory_writes: u64,
    pub bytes: u64,
    pub elapsed_ns: u64,
    /// Copies inside the kernel, and their bytes.
    pub copies: u64,
    pub(crate) copied_bytes: u64,
}

impl Io {
    /// The I/O of a single read or write.
    pub fn of(wait: &Wait, in_memory: bool) -> Io {
        let writes = wait.op == Op::Write;
        Io {
            reads: !writes as u64,
            writes: (writes && !in_memory) as u64,
            memory_writes: (writes && in_memory) as u64,
            bytes: wait.bytes.unwrap_or(0) as u64,
            elapsed_ns: wait.elapsed_ns.max(0) as u64,
            ..Io::default()
        }
    }

    pub fn add(&mut self, more: Io) {
        self.reads += more.reads;
        self.writes += more.writes;
        self.memory_writes += more.memory_writes;
        self.bytes += more.bytes;
        self.elapsed_ns += more.elapsed_ns;
        self.copies += more.copies;
        self.copied_bytes += more.copied_bytes;
    }
}

impl Counts {
    pub fn add(&mut self, io: Io, temp: bool) {
        self.change(io, temp, |count, by| *count += by);
    }

    /// Moves I/O from temp to other or back; `temp` is the new label.
    pub(crate) fn relabel(&mut self, io: Io, temp: bool) {
        self.add(io, temp);
        self.change(io, !temp, |count, by| *count -= by);
    }

    fn change(&mut self, io: Io, temp: bool, by: impl Fn(&mut u64, u64)) {
        if temp {
            by(&mut self.temp_reads, io.reads);
            by(&mut self.temp_writes, io.writes);
            by(&mut self.temp_bytes, io.bytes);
            by(&mut self.temp_ns, io.elapsed_ns);
            by(&mut self.temp_copies, io.copies);
            by(&mut self.temp_copied_bytes, io.copied_bytes);
        } else {
            by(&mut self.other_io, io.reads + io.writes + io.memory_writes);
            by(&mut self.other_writes, io.writes);
            by(&mut self.other_io_ns, io.elapsed_ns);
        }
    }
}
