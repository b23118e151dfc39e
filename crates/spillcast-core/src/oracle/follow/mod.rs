//! Turns records into timed waits, calls and statements, in the order of the file.
//!
//! Each line passes its state to the next. Only this module decides what a record means.

use super::chunks::Chunk;
use super::line::{Fault, Line, Mark, ParsingLine, StatLine};
use super::options::{Options, Window};
use super::scan::{self, BindPart, Numbered, Record, Scanned, State, Wanted};
use super::session::{Session, SessionTimes, Sessions};
use super::sink::{Bind, Dictionary, Origin, STATEMENT_BYTES_MAX, SessionId, Sink, Statement};

mod timed;

/// The summary of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileSummary {
    pub lines: u64,
    pub waits: u64,
    /// Waits of impossible duration, below zero or above 115 days: in no row, and in no time.
    pub waits_unmeasured: u64,
    pub calls: u64,
    pub statements: u64,
    /// Waits and calls that ended outside the requested window: in no row, and in no time.
    pub outside: u64,
    pub damages: Damages,
    /// The line that reports that the trace stopped at `max_dump_file_size`.
    pub size_limit_line: Option<u64>,
    /// The last error (ORA number) that ended a statement before its work was done.
    pub failure: Option<i64>,
    /// Waits in running text without a trace around them, which are not counted.
    pub waits_in_text: u64,
    /// Index in [`Dictionary::sessions`], and the times of the session.
    pub sessions: Vec<(usize, SessionTimes)>,
}

/// Errors of a statement that ran: the user cancelled it, its snapshot was too old, or it ran out
/// of temp space or process memory. Other errors may be normal, such as 1403 in PL/SQL.
const FAILURES: [i64; 4] = [1013, 1555, 1652, 4036];

/// Follows one file from line to line.
pub(super) struct Follower {
    file: usize,
    wanted: Wanted,
    window: Window,
    /// State of the scanner after the last chunk.
    scan_state: State,
    clock: Clock,
    /// Whether the first timed line is still to come; the release precedes it.
    in_header: bool,
    /// Whether a record has shown that the file is a trace and not running text.
    is_trace: bool,
    statement: Option<(Origin, Statement)>,
    bind: Option<(Origin, Bind)>,
    /// The cursor of the current bind values.
    bound: i64,
    /// Time of day from a mark, until the next `tim`.
    local_us: Option<i64>,
    sessions: Sessions,
    summary: FileSummary,
}

/// The time units of a release.
#[derive(Clone, Copy)]
struct Clock {
    /// Microseconds in a unit of `ela`, `c`, `e` and `tim`.
    unit_us: i64,
    /// In 11.1.0.7 the `tim` of waits is in units of 1,024 ns.
    wait_tim_1024: bool,
}

impl Clock {
    const MICROSECONDS: Clock = Clock { unit_us: 1, wait_tim_1024: false };

    fn of_release(release: [u16; 4]) -> Clock {
        Clock {
            unit_us: if release[0] < 9 { 10_000 } else { 1 },
            wait_tim_1024: release == [11, 1, 0, 7],
        }
    }
}

/// The output of the follower.
pub(super) struct Output<'a, S> {
    pub dictionary: &'a mut Dictionary,
    pub sink: &'a mut S,
}

impl Follower {
    pub fn new(file: usize, options: &Options, wanted: Wanted) -> Self {
        Follower {
            file,
            wanted,
            window: options.windows.get(file).copied().unwrap_or_default(),
            scan_state: State::Normal,
            clock: Clock::MICROSECONDS,
            in_header: true,
            is_trace: wanted.lenient,
            statement: None,
            bind: None,
            bound: 0,
            local_us: None,
            sessions: Sessions::default(),
            summary: FileSummary::default(),
        }
    }

    /// Processes the file's next chunk; `guess` is its scan from [`State::Normal`].
    pub(crate) fn chunk(&mut self, chunk: &Chunk, guess: Scanned, out: &mut Output<impl Sink>) {
        let scanned = match self.scan_state {
            State::Normal => guess,
            entry => scan::resync(&chunk.bytes, entry, self.wanted, guess),
        };
        let mut events = vec![None; scanned.events.len()];
        for Numbered { line, record } in scanned.records {
            let line = self.summary.lines + u64::from(line) + 1;
            if self.bind.is_some() && !matches!(record, Record::Bind(_)) {
                self.end_bind(out);
            }
            match record {
                Record::Line(Line::Wait(wait)) => {
                    let known = &mut events[wait.event as usize];
                    let event = *known.get_or_insert_with(|| {
                        let name = scanned.events[wait.event as usize].clone();
                        out.dictionary.event(&chunk.bytes[name.start as usize..name.end as usize])
                    });
                    self.wait(line, event, &wait, out);
                }
                Record::Line(Line::Call(call)) => self.call(line, call, out),
                Record::Line(other) => self.rare(line, other, out),
                Record::StatementText { start, end } => {
                    self.statement_text(&chunk.bytes[start as usize..end as usize]);
                }
                Record::Damage(fault) => self.damage(line, fault),
                Record::Bind(part) => self.bind_part(line, part, &chunk.bytes, out),
            }
        }
        self.scan_state = scanned.exit;
        self.summary.lines += u64::from(scanned.lines);
        if let Some(fault) = chunk.fault {
            self.damage(self.summary.lines.max(1), fault);
        }
    }

    /// Returns the summary of the file, after its last chunk.
    pub fn finish(mut self, out: &mut Output<impl Sink>) -> FileSummary {
        if let State::Opaque { block, .. } = self.scan_state {
            self.damage(self.summary.lines, block.unclosed());
        }
        self.end_statement(out);
        self.end_bind(out);
        self.summary.sessions = self.sessions.finish();
        self.summary
    }

    fn rare(&mut self, line: u64, content: Line, out: &mut Output<impl Sink>) {
        self.is_trace |= !matches!(content, Line::Mark(Mark::Release(_) | Mark::Process { .. }));
        match content {
            Line::Parsing(parsing) => self.parsing(line, *parsing, out),
            Line::ParseError { cursor, tim, .. } => {
                self.at(line, tim, out).parsed(cursor, None);
            }
            Line::Error { err, tim } => {
                self.at(line, tim, out);
                self.summary.failure =
                    Some(err).filter(|err| FAILURES.contains(err)).or(self.summary.failure);
            }
            Line::Other { tim } => {
                self.at(line, tim, out);
            }
            Line::EndOfStatement => self.end_statement(out),
            Line::Stat(stat) => self.row_source(line, *stat, out),
            Line::Binds { cursor } => self.bound = cursor,
            Line::Mark(mark) => self.mark(line, mark, out),
            Line::Wait(_) | Line::Call(_) | Line::Text => {}
        }
    }

    fn row_source(&mut self, line: u64, stat: StatLine, out: &mut Output<impl Sink>) {
        let origin = self.origin(line, stat.cursor, out);
        out.sink.row_source(out.dictionary, origin, stat);
    }

    fn bind_part(&mut self, line: u64, part: BindPart, bytes: &[u8], out: &mut Output<impl Sink>) {
        if let BindPart::Position(position) = part {
            self.end_bind(out);
            let bind = Bind { cursor: self.bound, position, ..Bind::default() };
            self.bind = Some((self.origin(line, self.bound, out), bind));
        }
        let Some((_, bind)) = &mut self.bind else { return };
        match part {
            BindPart::Position(_) => {}
            BindPart::Kind(kind) => bind.kind = Some(kind),
            BindPart::Value { start, end, more } => {
                let value = bind.value.get_or_insert_default();
                if more {
                    value.push(b'\n');
                }
                value.extend_from_slice(&bytes[start as usize..end as usize]);
                value.truncate(STATEMENT_BYTES_MAX);
            }
        }
    }

    fn end_bind(&mut self, out: &mut Output<impl Sink>) {
        if let Some((origin, mut bind)) = self.bind.take() {
            if let Some(value) = &mut bind.value
                && let Some(quoted) = value.strip_prefix(b"\"")
            {
                *value = quoted.strip_suffix(b"\"").unwrap_or(quoted).to_vec();
            }
            out.sink.bind(out.dictionary, origin, bind);
        }
    }

    fn origin(&mut self, line: u64, cursor: i64, out: &mut Output<impl Sink>) -> Origin {
        let (session, state) = self.sessions.current(out.dictionary);
        Origin { file: self.file, line, session, sql: state.sql(cursor) }
    }

    /// The current session, its clock advanced to `tim`.
    fn at(&mut self, line: u64, tim: i64, out: &mut Output<impl Sink>) -> &mut Session {
        let tim_us = self.tim(line, tim).filter(|&tim| self.window.holds(tim));
        let (_, session) = self.sessions.current(out.dictionary);
        if let Some(tim) = tim_us {
            session.tick(tim, 0);
        }
        session
    }

    fn parsing(&mut self, line: u64, mut parsing: ParsingLine, out: &mut Output<impl Sink>) {
        self.end_statement(out);
        self.in_header = false;
        let sql = match parsing.sqlid.is_empty() {
            true => out.dictionary.sql.id(&parsing.hv.to_string()),
            false => out.dictionary.sql.id(&parsing.sqlid),
        };
        self.at(line, parsing.tim, out).parsed(parsing.cursor, Some(sql));
        let (session, state) = self.sessions.current(out.dictionary);
        parsing.tim = state.clock_us;
        let origin = Origin { file: self.file, line, session, sql: Some(sql) };
        self.statement = Some((origin, Statement { line: parsing, text: Vec::new() }));
    }

    fn statement_text(&mut self, bytes: &[u8]) {
        if let Some((_, Statement { text, .. })) = &mut self.statement {
            let left = STATEMENT_BYTES_MAX - text.len();
            text.extend_from_slice(&bytes[..left.min(bytes.len())]);
        }
    }

    fn end_statement(&mut self, out: &mut Output<impl Sink>) {
        if let Some((origin, mut statement)) = self.statement.take() {
            let text = &mut statement.text;
            for end in [b'\n', b'\r'] {
                text.pop_if(|last| *last == end);
            }
            self.summary.statements += 1;
            out.sink.statement(out.dictionary, origin, statement);
        }
    }

    fn mark(&mut self, line: u64, mark: Mark, out: &mut Output<impl Sink>) {
        match mark {
            Mark::Header => {
                self.end_statement(out);
                self.sessions.restart();
                self.clock = Clock::MICROSECONDS;
                self.in_header = true;
            }
            Mark::Release(release) if self.in_header => self.clock = Clock::of_release(release),
            Mark::Process { pid } if self.in_header => {
                self.sessions.switch(SessionId { pid: Some(pid), ..SessionId::default() });
            }
            Mark::Session { sid, serial } => self.sessions.switch(SessionId {
                sid: Some(sid),
                serial: Some(serial),
                pid: self.sessions.current_id().pid,
            }),
            Mark::Switch { pid } => self.sessions.switch_process(pid),
            Mark::Time { local_us } => self.local_us = Some(local_us),
            Mark::SizeLimit => self.summary.size_limit_line = Some(line),
            Mark::Stars | Mark::Release(_) | Mark::Process { .. } => {}
        }
    }

    #[cold]
    fn damage(&mut self, line: u64, fault: Fault) {
        self.summary.damages.add(Damage { line, fault });
    }
}

/// Number of damaged lines kept per file.
pub const KEPT_PER_FILE: usize = 100;

/// A line that does not match the grammar of its beginning, or whose figures are impossible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// From 1.
    pub line: u64,
    pub fault: Fault,
}

/// The damage found in one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damages {
    pub count: u64,
    /// The first [`KEPT_PER_FILE`].
    pub first: Vec<Damage>,
}

impl Damages {
    pub(super) fn add(&mut self, damage: Damage) {
        self.count += 1;
        if self.first.len() < KEPT_PER_FILE {
            self.first.push(damage);
        }
    }
}
