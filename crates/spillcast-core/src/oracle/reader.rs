//! Reads traces into a sink: all threads scan chunks, and take turns in following them.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;

use super::chunks::{Chunk, Chunks};
use super::follow::{FileSummary, Follower, Output};
use super::options::{Options, ReadError};
use super::scan::{self, Scanned, Wanted};
use super::sink::{Dictionary, Sink};

/// The result of reading.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    pub dictionary: Dictionary,
    /// One summary per input, in order.
    pub files: Vec<FileSummary>,
}

/// Reads traces in order, plain or compressed, into `sink`, on all processors.
///
/// # Errors
/// Fails if a file cannot be read, no input contains a trace, or the reading was cancelled; rows in
/// the sink are then useless. Damaged lines are not errors: the summaries list them.
pub fn read(
    inputs: &[PathBuf],
    options: &Options,
    sink: &mut impl Sink,
) -> Result<Reading, ReadError> {
    let source = Mutex::new((0, Chunks::new(inputs, options.chunk_bytes, options.pasted)));
    let wanted = options.wanted(sink);
    let follow = Follow {
        options,
        wanted,
        sink,
        next: 0,
        follower: None,
        reading: Reading::default(),
        end: None,
    };
    let turns = Turns { follow: Mutex::new(follow), changed: Condvar::new() };
    let threads = available_parallelism().map_or(1, |threads| threads.get());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| work(&source, &turns, wanted));
        }
    });
    turns.follow.into_inner().unwrap_or_else(PoisonError::into_inner).finish(inputs)
}

/// Reads and scans chunk after chunk in parallel, and follows each when its turn comes. So a chunk
/// stays in one processor's cache, and memory holds only as many chunks as there are threads.
fn work<S: Sink>(source: &Mutex<(u64, Chunks)>, turns: &Turns<S>, wanted: Wanted) {
    let _stop = StopOnPanic(turns);
    let mut buffer = Vec::new();
    loop {
        let (turn, chunk) = {
            let mut source = source.lock().unwrap_or_else(PoisonError::into_inner);
            let (turn, chunks) = &mut *source;
            *turn += 1;
            (*turn - 1, chunks.next(buffer))
        };
        let chunk = match chunk {
            Ok(Some(chunk)) => chunk,
            Ok(None) => return,
            Err(error) => return turns.end(error),
        };
        let scanned = scan::scan(&chunk.bytes, wanted);
        if !turns.take(turn, &chunk, scanned) {
            return;
        }
        buffer = chunk.bytes;
    }
}

/// Lets threads follow chunks one at a time, in order.
struct Turns<'a, S> {
    follow: Mutex<Follow<'a, S>>,
    changed: Condvar,
}

impl<'a, S: Sink> Turns<'a, S> {
    fn lock(&self) -> MutexGuard<'_, Follow<'a, S>> {
        self.follow.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows the chunk when its turn comes; returns false if reading has ended.
    fn take(&self, turn: u64, chunk: &Chunk, scanned: Scanned) -> bool {
        let not_yet = |follow: &mut Follow<S>| follow.next < turn && follow.end.is_none();
        let follow = self.changed.wait_while(self.lock(), not_yet);
        let mut follow = follow.unwrap_or_else(PoisonError::into_inner);
        if follow.end.is_none() {
            follow.chunk(chunk, scanned);
        }
        self.changed.notify_all();
        follow.end.is_none()
    }

    fn end(&self, error: ReadError) {
        self.lock().end.get_or_insert(error);
        self.changed.notify_all();
    }
}

/// Ends the reading if a thread panics; the others would wait for its turn forever.
struct StopOnPanic<'a, 'b, S: Sink>(&'a Turns<'b, S>);

impl<S: Sink> Drop for StopOnPanic<'_, '_, S> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.end(ReadError::Stopped);
        }
    }
}

struct Follow<'a, S> {
    options: &'a Options,
    wanted: Wanted,
    sink: &'a mut S,
    /// The next turn.
    next: u64,
    /// The follower of the current file.
    follower: Option<Follower>,
    reading: Reading,
    /// The error that ended reading early.
    end: Option<ReadError>,
}

impl<S: Sink> Follow<'_, S> {
    fn chunk(&mut self, chunk: &Chunk, scanned: Scanned) {
        let Reading { dictionary, files } = &mut self.reading;
        let mut out = Output { dictionary, sink: &mut *self.sink };
        let follower = self.follower.take();
        let begin = || Follower::new(chunk.file, self.options, self.wanted);
        let mut follower = follower.unwrap_or_else(begin);
        follower.chunk(chunk, scanned, &mut out);
        match chunk.last {
            true => files.push(follower.finish(&mut out)),
            false => self.follower = Some(follower),
        }
        let watch = &self.options.watch;
        watch.bytes.fetch_add(chunk.bytes.len() as u64, Ordering::Relaxed);
        let cancelled = watch.cancelled.load(Ordering::Relaxed);
        if cancelled || !self.sink.chunk_ended(&self.reading.dictionary) {
            self.end = Some(ReadError::Stopped);
        }
        self.next += 1;
    }

    fn finish(self, inputs: &[PathBuf]) -> Result<Reading, ReadError> {
        if let Some(error) = self.end {
            return Err(error);
        }
        let files = &self.reading.files;
        if files
            .iter()
            .all(|file| file.waits + file.waits_unmeasured + file.calls + file.outside == 0)
        {
            let waits_in_text = files.iter().map(|file| file.waits_in_text).sum();
            let damage = files.iter().find_map(|file| file.damages.first.first());
            let damage = damage.map(|damage| (damage.line, damage.fault));
            return Err(ReadError::NoTraceLines { paths: inputs.to_vec(), waits_in_text, damage });
        }
        Ok(self.reading)
    }
}
