//! The output of a trace: timed waits, calls and statements, and their names.

use rustc_hash::FxHashMap;

use super::events::{self, EventClass};
use super::line::{CallLine, ParsingLine, StatLine};
use crate::wait::{NameId, Names};

/// Maximum length of a statement's text that is kept.
pub const STATEMENT_BYTES_MAX: usize = 64 << 10;

/// The origin of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Index of the file in the list of inputs.
    pub file: usize,
    /// From 1.
    pub line: u64,
    /// Index in [`Dictionary::sessions`].
    pub session: usize,
    /// Index in [`Dictionary::sql`], if the cursor's statement is known.
    pub sql: Option<NameId>,
}

/// One wait; times in microseconds on the clock of `tim`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimedWait {
    /// Index in [`Dictionary::events`].
    pub event: NameId,
    pub class: EventClass,
    pub cursor: i64,
    /// Estimated from adjacent lines if the trace has no `tim` (up to Oracle 9i).
    pub start_us: i64,
    pub elapsed_us: i64,
    pub params: [i64; 3],
    /// Oracle's number of the file; temporary files are numbered from the parameter `db_files` on.
    pub file: Option<i64>,
    pub blocks: Option<i64>,
    pub bytes: Option<i64>,
    pub object: Option<u32>,
}

/// One call; times in microseconds on the clock of `tim`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimedCall {
    /// The line's figures; `c`, `e` and `tim` in microseconds, a missing `tim` estimated.
    pub line: CallLine,
    /// CPU and elapsed time without those of recursive calls.
    pub self_c_us: i64,
    pub self_e_us: i64,
}

/// One statement as parsed.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// The line's figures, `tim` in microseconds.
    pub line: ParsingLine,
    /// The first [`STATEMENT_BYTES_MAX`] bytes of its text, without the last line end.
    pub text: Vec<u8>,
}

/// One value bound to a statement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bind {
    pub cursor: i64,
    /// From 0.
    pub position: i64,
    /// Oracle's number of the data type, such as 1 for VARCHAR2 and 2 for NUMBER.
    pub kind: Option<i64>,
    /// As written, without its quotes, up to [`STATEMENT_BYTES_MAX`]; None for null.
    pub value: Option<Vec<u8>>,
}

/// Receives the rows of a trace in order.
pub trait Sink: Send {
    fn wait(&mut self, names: &Dictionary, origin: Origin, wait: &TimedWait);
    fn call(&mut self, names: &Dictionary, origin: Origin, call: &TimedCall);
    fn statement(&mut self, _names: &Dictionary, _origin: Origin, _statement: Statement) {}
    fn row_source(&mut self, _names: &Dictionary, _origin: Origin, _line: StatLine) {}
    fn bind(&mut self, _names: &Dictionary, _origin: Origin, _bind: Bind) {}
    /// Whether the sink uses more of a wait than event, session and time. Other figures may
    /// otherwise be 0 or None.
    fn needs_figures(&self) -> bool {
        true
    }
    /// Called after all rows of a chunk; false ends the reading.
    fn chunk_ended(&mut self, _names: &Dictionary) -> bool {
        true
    }
}

/// The session that lines of a trace belong to. None for values that the trace lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SessionId {
    pub sid: Option<i64>,
    pub serial: Option<i64>,
    /// Process id of the server process.
    pub pid: Option<i64>,
}

impl SessionId {
    /// The session id; the process id in a merged file that identifies only processes.
    pub fn number(self) -> Option<i64> {
        self.sid.or(self.pid)
    }
}

/// The names that rows point to.
#[derive(Clone, Debug, Default)]
pub struct Dictionary {
    pub events: Names,
    /// The class of each event, derived from its name.
    pub(crate) classes: Vec<EventClass>,
    /// `sqlid`, or the hash value `hv` before Oracle 11g.
    pub sql: Names,
    pub sessions: Vec<SessionId>,
    session_position: FxHashMap<SessionId, usize>,
}

impl Dictionary {
    pub(super) fn event(&mut self, name: &[u8]) -> NameId {
        let name = String::from_utf8_lossy(name);
        let id = self.events.id(&name);
        if id as usize == self.classes.len() {
            self.classes.push(events::classify(&name));
        }
        id
    }

    pub(super) fn session(&mut self, id: SessionId) -> usize {
        *self.session_position.entry(id).or_insert_with(|| {
            self.sessions.push(id);
            self.sessions.len() - 1
        })
    }
}
