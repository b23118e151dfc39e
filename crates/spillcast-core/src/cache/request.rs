//! One access to one cache line, and the sources of accesses: I/O on files, or a trace.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// The class of an access; a cache treats classes differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Class {
    /// A read of a table or an index in large pieces, in order.
    Scan,
    /// A read of single blocks, or of an unknown kind.
    Read,
    /// A write of anything but temp data.
    Write,
    TempRead,
    TempWrite,
}

impl Class {
    pub const ALL: [Class; 5] =
        [Class::Scan, Class::Read, Class::Write, Class::TempRead, Class::TempWrite];

    pub fn name(self) -> &'static str {
        match self {
            Class::Scan => "scan",
            Class::Read => "read",
            Class::Write => "write",
            Class::TempRead => "temp read",
            Class::TempWrite => "temp write",
        }
    }

    pub(crate) fn is_write(self) -> bool {
        matches!(self, Class::Write | Class::TempWrite)
    }
}

/// An access to one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Which line: equal keys are the same line.
    pub key: u64,
    /// Seconds on any clock that does not run backwards.
    pub(crate) time_s: u32,
    /// Number of bytes of the line that are transferred.
    pub bytes: u32,
    /// Position of the object in a list of names.
    pub object: u32,
    /// Position of the query in a list.
    pub(crate) query: u32,
    pub class: Class,
    /// The last access of its query, which then drops its temp data.
    pub(crate) ends_query: bool,
}

/// Whether the consumer wants more requests.
pub type Flow = ControlFlow<()>;

/// Requests that can be replayed from the beginning any number of times.
pub trait Source {
    /// Passes all requests to `take` in order, in chunks.
    fn each(&self, take: &mut dyn FnMut(&[Request]) -> Flow) -> io::Result<()>;
}

/// Requests per chunk: a chunk fits the private cache of a core.
const CHUNK: usize = 4096;

/// A file has at most 2 to the power of this many lines.
const LINE_BITS: u32 = 40;

/// One read or write of a range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    pub time_s: u32,
    pub file: u32,
    pub offset: u64,
    pub bytes: u64,
    pub object: u32,
    pub query: u32,
    pub class: Class,
    pub ends_query: bool,
}

/// I/O at offsets of files in order of time, and the size of the lines that it is split into.
pub struct Rows {
    rows: Vec<Row>,
    line_bytes: u64,
}

impl Rows {
    /// Returns None if a row exceeds the numbering of 2^40 lines in each of 2^24 files.
    pub fn new(rows: Vec<Row>, line_bytes: u64) -> Option<Rows> {
        let fits = |row: &Row| {
            let end = row.offset.checked_add(row.bytes);
            row.file < 1 << (64 - LINE_BITS)
                && end.is_some_and(|end| end.div_ceil(line_bytes) <= 1 << LINE_BITS)
        };
        rows.iter().all(fits).then_some(Rows { rows, line_bytes })
    }
}

impl Source for Rows {
    fn each(&self, take: &mut dyn FnMut(&[Request]) -> Flow) -> io::Result<()> {
        let mut chunk = Vec::with_capacity(CHUNK);
        for row in &self.rows {
            let end = row.offset + row.bytes;
            let mut at = row.offset;
            while at < end {
                let line = at / self.line_bytes;
                let next = ((line + 1) * self.line_bytes).min(end);
                chunk.push(Request {
                    key: u64::from(row.file) << LINE_BITS | line,
                    time_s: row.time_s,
                    bytes: (next - at) as u32,
                    object: row.object,
                    query: row.query,
                    class: row.class,
                    ends_query: row.ends_query && next == end,
                });
                at = next;
                if chunk.len() == CHUNK {
                    if take(&chunk).is_break() {
                        return Ok(());
                    }
                    chunk.clear();
                }
            }
        }
        if !chunk.is_empty() {
            let _ = take(&chunk);
        }
        Ok(())
    }
}

/// A little-endian, packed record: time (u32, s), id (u64), size (u32, bytes), and the next use of
/// the id (i64), which is ignored.
const RECORD_BYTES: usize = 24;

/// A trace in libCacheSim's format oracleGeneral, plain or compressed by zstd, read from its
/// beginning each time. Each id is one line, whatever its size.
pub struct OracleGeneral {
    path: PathBuf,
}

impl OracleGeneral {
    pub fn new(path: &Path) -> OracleGeneral {
        OracleGeneral { path: path.to_owned() }
    }

    fn open(&self) -> io::Result<Box<dyn Read>> {
        let file = File::open(&self.path)?;
        if self.path.extension().is_some_and(|end| end == "zst") {
            return Ok(Box::new(zstd::Decoder::new(BufReader::with_capacity(1 << 17, file))?));
        }
        Ok(Box::new(file))
    }
}

impl Source for OracleGeneral {
    /// Fails with `UnexpectedEof` if the last record is cut.
    fn each(&self, take: &mut dyn FnMut(&[Request]) -> Flow) -> io::Result<()> {
        let mut reader = self.open()?;
        let mut buffer = Vec::with_capacity(CHUNK * RECORD_BYTES);
        let mut requests = Vec::with_capacity(CHUNK);
        let mut records = 0u64;
        loop {
            buffer.clear();
            let mut chunk = reader.by_ref().take((CHUNK * RECORD_BYTES) as u64);
            let filled = chunk.read_to_end(&mut buffer)?;
            requests.clear();
            requests.extend(buffer.chunks_exact(RECORD_BYTES).map(request));
            records += requests.len() as u64;
            if filled % RECORD_BYTES != 0 {
                let fault = format!("record {} is cut: each has 24 bytes", records + 1);
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, fault));
            }
            if filled == 0 || take(&requests).is_break() || filled < CHUNK * RECORD_BYTES {
                return Ok(());
            }
        }
    }
}

fn request(record: &[u8]) -> Request {
    let u32_at = |at: usize| u32::from_le_bytes(record[at..at + 4].try_into().unwrap_or_default());
    Request {
        key: u64::from_le_bytes(record[4..12].try_into().unwrap_or_default()),
        time_s: u32_at(0),
        bytes: u32_at(12),
        object: 0,
        query: 0,
        class: Class::Read,
        ends_query: false,
    }
}
