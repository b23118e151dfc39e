//! Splits traces into chunks of whole lines, so that memory is bounded for any size of files and
//! lines.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use super::line::Fault;
use super::options::ReadError;
use super::pasted;
use super::scan::LINE_BYTES_MAX;
use crate::unpack::unpacked;

/// Pasted text is shorter than this; its lines are joined in a single pass.
const PASTED_MAX: usize = 64 << 20;

/// The input of a trace, uncompressed.
type Source = Box<dyn Read + Send>;

/// Whole lines of one file. Only a file's last chunk may be empty or lack the last line end.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    pub bytes: Vec<u8>,
    /// Position of the file in the list of inputs.
    pub file: usize,
    pub last: bool,
    /// The error that ended reading of the file.
    pub fault: Option<Fault>,
}

/// The chunks of all inputs, file after file.
pub(super) struct Chunks<'a> {
    inputs: &'a [PathBuf],
    chunk_bytes: usize,
    pasted: bool,
    file: usize,
    source: Option<Source>,
    /// The incomplete line after the previous chunk.
    carry: Vec<u8>,
}

impl<'a> Chunks<'a> {
    pub fn new(inputs: &'a [PathBuf], chunk_bytes: usize, pasted: bool) -> Self {
        let chunk_bytes = chunk_bytes.max(1);
        Chunks { inputs, chunk_bytes, pasted, file: 0, source: None, carry: Vec::new() }
    }

    /// Returns the next chunk, in the buffer `bytes`, or None after the last file.
    pub fn next(&mut self, bytes: Vec<u8>) -> Result<Option<Chunk>, ReadError> {
        let Some(path) = self.inputs.get(self.file) else { return Ok(None) };
        let may_be_pasted = self.pasted && self.source.is_none();
        let mut source = match self.source.take() {
            Some(source) => source,
            None => File::open(path).and_then(unpacked).map_err(|error| self.unreadable(error))?,
        };
        let mut chunk = Chunk { bytes, file: self.file, ..Chunk::default() };
        chunk.bytes.clear();
        chunk.bytes.append(&mut self.carry);
        let mut filled = self.fill(&mut source, &mut chunk.bytes);
        if may_be_pasted && matches!(filled, Ok(false)) && pasted::is_pasted(&chunk.bytes) {
            while matches!(filled, Ok(false)) && chunk.bytes.len() < PASTED_MAX {
                chunk.bytes.append(&mut self.carry);
                filled = self.fill(&mut source, &mut chunk.bytes);
            }
        }
        match filled {
            Ok(last) => chunk.last = last,
            Err(error) => {
                chunk.fault = Some(stream_fault(&error).ok_or_else(|| self.unreadable(error))?);
                chunk.last = true;
            }
        }
        if chunk.last {
            if may_be_pasted && chunk.fault.is_none() {
                chunk.bytes = pasted::plain(std::mem::take(&mut chunk.bytes));
            }
            self.file += 1;
        } else {
            self.source = Some(source);
        }
        Ok(Some(chunk))
    }

    /// Reads at least one whole line; returns true at the end of the file.
    fn fill(&mut self, source: &mut Source, bytes: &mut Vec<u8>) -> io::Result<bool> {
        loop {
            let before = bytes.len();
            bytes.reserve(self.chunk_bytes);
            let read = source.by_ref().take(self.chunk_bytes as u64).read_to_end(bytes)?;
            if read < self.chunk_bytes {
                return Ok(true);
            }
            if let Some(end) = memchr::memrchr(b'\n', &bytes[before..]) {
                self.carry.extend_from_slice(&bytes[before + end + 1..]);
                bytes.truncate(before + end + 1);
                return Ok(false);
            }
            // Twice the limit is kept of an overlong line, so that it still exceeds the limit after
            // any mark before it is removed.
            let begin = memchr::memrchr(b'\n', bytes).map_or(0, |end| end + 1);
            bytes.truncate(begin + 2 * LINE_BYTES_MAX);
        }
    }

    fn unreadable(&self, error: io::Error) -> ReadError {
        ReadError::File { path: self.inputs[self.file].clone(), error }
    }
}

/// The message for a broken compressed stream: it ends the file early, but earlier lines count.
fn stream_fault(error: &io::Error) -> Option<Fault> {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => Some("compressed file cut short"),
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::Other => {
            Some("compressed file damaged from here on")
        }
        _ => None,
    }
}
