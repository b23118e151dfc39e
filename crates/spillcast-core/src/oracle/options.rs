//! Options of reading traces, its progress, and the errors that end it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::scan::Wanted;
use super::sink::Sink;

#[derive(Clone, Debug)]
pub struct Options {
    /// Read WAIT lines in running text, such as a page that quotes a trace.
    pub lenient: bool,
    /// A file of at most 64 MiB may be quoted or wrapped by a mail program or forum.
    pub pasted: bool,
    /// Bytes read at a time. It does not affect the result, unless `pasted` is set. Memory is about
    /// twice this per thread.
    pub chunk_bytes: usize,
    /// Whether bind values are passed to the sink.
    pub binds: bool,
    /// The time window by input; an input without a window counts as a whole.
    pub windows: Vec<Window>,
    pub watch: Arc<Watch>,
}

/// Progress of a reading, visible to another thread, which may cancel it.
#[derive(Debug, Default)]
pub struct Watch {
    pub(super) bytes: AtomicU64,
    pub(super) cancelled: AtomicBool,
}

impl Watch {
    /// Bytes read so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }
}

/// Waits and calls count if they end in it: microseconds on the clock of `tim`, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub first_us: i64,
    pub last_us: i64,
}

impl Default for Window {
    fn default() -> Self {
        Window { first_us: i64::MIN, last_us: i64::MAX }
    }
}

impl Window {
    #[inline(always)]
    pub(super) fn holds(self, us: i64) -> bool {
        (self.first_us..=self.last_us).contains(&us)
    }

    #[inline(always)]
    pub(super) fn is_all(self) -> bool {
        self == Window::default()
    }
}

impl Options {
    pub(super) fn wanted(&self, sink: &impl Sink) -> Wanted {
        Wanted { lenient: self.lenient, binds: self.binds, figures: sink.needs_figures() }
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            lenient: false,
            pasted: false,
            chunk_bytes: 256 << 10,
            binds: false,
            windows: Vec::new(),
            watch: Arc::default(),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A file could not be opened or read.
    #[error("{}: {error}", .path.display())]
    File { path: PathBuf, error: io::Error },
    /// No file contains a wait or a call.
    #[error(
        "no waits and no calls of an extended SQL trace in {}; {}",
        .paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", "),
        match (.waits_in_text, .damage) {
            (0, None) => "no line begins with WAIT or EXEC: trace event 10046 at level 8".to_owned(),
            (0, Some((line, fault))) => format!("line {line} is not understood: {fault}"),
            (n, _) => format!("{n} WAIT lines are within other text: --lenient reads them"),
        }
    )]
    NoTraceLines { paths: Vec<PathBuf>, waits_in_text: u64, damage: Option<(u64, &'static str)> },
    /// The sink or another thread ended the reading.
    #[error("stopped")]
    Stopped,
}
