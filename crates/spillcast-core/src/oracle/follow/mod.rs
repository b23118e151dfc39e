//! Turns records into timed waits, calls and statements, in the order of the file.
//!
//! One line hands its state to the next. Only this module decides what a record means.

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
    /// Waits whose length cannot be, below zero or above 115 days: in no row, and in no time.
    pub waits_unmeasured: u64,
    pub calls: u64,
    pub statements: u64,
    /// Waits and calls that ended outside of the time that is asked for: in no row and no time.
    pub outside: u64,
    pub damages: Damages,
    /// The line that says the trace stopped at `max_dump_file_size`.
    pub size_limit_line: Option<u64>,
    /// The last error (ORA number) that ends a statement before it has done its work.
    pub failure: Option<i64>,
    /// Waits that stand in running text and were not counted: there is no trace around them.
    pub waits_in_text: u64,
    /// Position in [`Dictionary::sessions`], and where its time went.
    pub sessions: Vec<(usize, SessionTimes)>,
}

/// Errors of a statement that ran: a user cancelled it, its snapshot was too old, temp space or the
/// memory of the process was used up. Other errors may be usual, as 1403 is in PL/SQL.
const FAILURES: [i64; 4] = [1013, 1555, 1652, 4036];

/// Follows one file from line to line.
pub(super) struct Follower {
    file: usize,
    wanted: Wanted,
    window: Window,
    /// The state of the scanner behind the last chunk.
    scan_state: State,
    clock: Clock,
    /// Before the first timed line, where the release stands.
    in_header: bool,
    /// Whether a record has shown that this is a trace and not running text.
    is_trace: bool,
    statement: Option<(Origin, Statement)>,
    bind: Option<(Origin, Bind)>,
    /// The cursor that values are bound to.
    bound: i64,
    /// A time of the day that stood before the next `tim`.
    local_us: Option<i64>,
    sessions: Sessions,
    summary: FileSummary,
}

/// How a release writes times.
#[derive(Clone, Copy)]
struct Clock {
    /// Microseconds in a unit of `ela`, `c`, `e` and `tim`.
    unit_us: i64,
    /// 11.1.0.7 writes the `tim` of waits in units of 1,024 ns.
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

    /// Takes the file's next chunk, scanned as if nothing opaque were open before it.
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

    /// The summary of the file, after its last chunk.
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

    /// The current session, its clock moved on to `tim`.
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

/// Damaged lines kept of each file.
pub const KEPT_PER_FILE: usize = 100;

/// A line that could not be read as what it begins as, or not with the figures it has.
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
