//! Traces to a sink: one batch of chunks is read while the one before is scanned by all threads and
//! the one before that is followed in order.

use std::fmt;
use std::io;
use std::path::PathBuf;

use rayon::prelude::*;

use super::chunks::{Chunk, Chunks, Unreadable};
use super::follow::{FileSummary, Follower, Output};
use super::scan::{self, Scanned};
use super::sink::{Dictionary, Sink};

#[derive(Clone, Debug)]
pub struct Options {
    /// Take WAIT lines out of running text, such as a page that quotes a trace.
    pub lenient: bool,
    /// Bytes read at a time. What is read does not depend on it; memory does, at about ten times
    /// as much a thread.
    pub chunk_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options { lenient: false, chunk_bytes: 256 << 10 }
    }
}

/// What was read.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    pub dictionary: Dictionary,
    /// One for each input, in their order.
    pub files: Vec<FileSummary>,
}

#[derive(Debug)]
pub enum ReadError {
    /// A file could not be opened or read.
    File { path: PathBuf, error: io::Error },
    /// None of the files holds a wait or a call.
    NoTraceLines { paths: Vec<PathBuf>, waits_in_text: u64 },
    /// The sink asked to end.
    Stopped,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::File { path, error } => write!(f, "{}: {error}", path.display()),
            ReadError::NoTraceLines { paths, waits_in_text } => {
                let names: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
                write!(f, "no extended SQL trace lines in {}", names.join(", "))?;
                match waits_in_text {
                    0 => write!(f, "; trace the session with waits: event 10046 at level 8"),
                    n => write!(f, "; {n} WAIT lines stand in running text: --lenient reads them"),
                }
            }
            ReadError::Stopped => write!(f, "stopped"),
        }
    }
}

impl std::error::Error for ReadError {}

impl From<Unreadable> for ReadError {
    fn from(Unreadable { path, error }: Unreadable) -> Self {
        ReadError::File { path, error }
    }
}

/// Reads traces one after another, plain, gzip or zstd, `-` for standard input, into `sink`.
///
/// # Errors
/// A file that cannot be read, inputs that hold no trace at all, or a sink that asks to stop; what
/// the sink took until then is of no use. Damaged lines are no error: they are in the summaries.
pub fn read(
    inputs: &[PathBuf],
    options: &Options,
    sink: &mut impl Sink,
) -> Result<Reading, ReadError> {
    let mut chunks = Chunks::new(inputs, options.chunk_bytes);
    let mut follow = Follow { options, sink, follower: None, reading: Reading::default() };
    let batch_len = 2 * rayon::current_num_threads();
    let mut spare = Vec::new();
    let mut read = Vec::new();
    let mut scanned = Vec::new();
    loop {
        let (followed, (next, next_scanned)) = rayon::join(
            || follow.batch(std::mem::take(&mut scanned)),
            || {
                rayon::join(
                    || read_batch(&mut chunks, batch_len, std::mem::take(&mut spare)),
                    || scan_batch(std::mem::take(&mut read), options.lenient),
                )
            },
        );
        (spare, read, scanned) = (followed?, next?, next_scanned);
        if read.is_empty() && scanned.is_empty() {
            return follow.finish(inputs);
        }
    }
}

type Buffers = Vec<Vec<u8>>;

fn read_batch(
    chunks: &mut Chunks,
    len: usize,
    mut spare: Buffers,
) -> Result<Vec<Chunk>, ReadError> {
    let mut batch = Vec::with_capacity(len);
    while batch.len() < len {
        match chunks.next(spare.pop().unwrap_or_default())? {
            Some(chunk) => batch.push(chunk),
            None => break,
        }
    }
    Ok(batch)
}

fn scan_batch(batch: Vec<Chunk>, lenient: bool) -> Vec<(Chunk, Scanned)> {
    let scan = |chunk: Chunk| {
        let scanned = scan::scan(&chunk.bytes, lenient);
        (chunk, scanned)
    };
    batch.into_par_iter().with_max_len(1).map(scan).collect()
}

struct Follow<'a, S> {
    options: &'a Options,
    sink: &'a mut S,
    /// Of the file that is not at its end yet.
    follower: Option<Follower>,
    reading: Reading,
}

impl<S: Sink> Follow<'_, S> {
    /// Follows scanned chunks in their order, and gives their buffers back.
    fn batch(&mut self, batch: Vec<(Chunk, Scanned)>) -> Result<Buffers, ReadError> {
        let mut spare = Vec::with_capacity(batch.len());
        for (chunk, scanned) in batch {
            let Reading { dictionary, files } = &mut self.reading;
            let mut out = Output { dictionary, sink: &mut *self.sink };
            let follower = self.follower.take();
            let mut follower =
                follower.unwrap_or_else(|| Follower::new(chunk.file, self.options.lenient));
            follower.chunk(&chunk, scanned, &mut out);
            match chunk.last {
                true => files.push(follower.finish(&mut out)),
                false => self.follower = Some(follower),
            }
            if !self.sink.progress(&self.reading.dictionary, chunk.bytes.len()) {
                return Err(ReadError::Stopped);
            }
            spare.push(chunk.bytes);
        }
        Ok(spare)
    }

    fn finish(self, inputs: &[PathBuf]) -> Result<Reading, ReadError> {
        let files = &self.reading.files;
        if files.iter().all(|file| file.waits + file.calls == 0) {
            let waits_in_text = files.iter().map(|file| file.waits_in_text).sum();
            return Err(ReadError::NoTraceLines { paths: inputs.to_vec(), waits_in_text });
        }
        Ok(self.reading)
    }
}
