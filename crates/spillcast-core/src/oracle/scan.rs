//! Parses one chunk of a trace into records with line numbers, and the state at its end.
//!
//! Threads scan chunks in parallel, each as if it began outside SQL text and bind values. If it did
//! not, `resync` scans its beginning again.

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::digits::Text;
use super::grammar;
use super::line::{Fault, Line, Mark};

/// A longer line is damage, whatever its content.
pub(super) const LINE_BYTES_MAX: usize = 1 << 20;

/// A bind value may exceed its stated length by this much, and contain lines that look like others.
const VALUE_BYTES_MORE: i64 = 4_000;

/// Scans `bytes`, which are whole lines, as if no opaque text were open.
pub(super) fn scan(bytes: &[u8], wanted: Wanted) -> Scanned {
    let mut scanner = Scanner::new(bytes, State::Normal, wanted);
    while scanner.step() {}
    scanner.finish()
}

/// Scans again from the true state `entry` up to the first line that both scans read outside opaque
/// text. From there on both scans agree, because later lines depend on nothing else.
pub(super) fn resync(bytes: &[u8], entry: State, wanted: Wanted, mut guess: Scanned) -> Scanned {
    let mut scanner = Scanner::new(bytes, entry, wanted);
    let mut next = 0;
    loop {
        let behind = |record: &Numbered| record.line < scanner.line || !record.is_of_its_line();
        next += guess.records[next..].iter().take_while(|record| behind(record)).count();
        let agree = guess.records.get(next).is_some_and(|record| record.line == scanner.line);
        if agree && !matches!(scanner.state, State::Opaque { .. }) {
            break;
        }
        if !scanner.step() {
            return scanner.finish();
        }
    }
    let mut mended = scanner.finish();
    let events_before = mended.events.len() as u32;
    for record in &mut guess.records[next..] {
        if let Record::Line(Line::Wait(wait)) = &mut record.record {
            wait.event += events_before;
        }
    }
    mended.records.extend(guess.records.drain(next..));
    mended.events.append(&mut guess.events);
    Scanned { lines: guess.lines, exit: guess.exit, ..mended }
}

struct Scanner<'a> {
    bytes: &'a [u8],
    wanted: Wanted,
    /// Offset of the next line.
    at: usize,
    line: u32,
    state: State,
    /// Start of the statement's text while it is being read.
    text_start: (usize, u32),
    records: Vec<Numbered>,
    events: Vec<Range<u32>>,
    event_position: FxHashMap<&'a [u8], u32>,
}

impl<'a> Scanner<'a> {
    fn new(bytes: &'a [u8], state: State, wanted: Wanted) -> Self {
        Scanner {
            bytes,
            wanted,
            at: 0,
            line: 0,
            state,
            text_start: (0, 0),
            records: Vec::with_capacity(bytes.len() / 100),
            events: Vec::new(),
            event_position: FxHashMap::default(),
        }
    }

    fn finish(mut self) -> Scanned {
        self.end_statement_text(self.at);
        let Scanner { records, events, line: lines, state: exit, .. } = self;
        Scanned { records, events, lines, exit }
    }

    /// Reads one line; returns false at the end of the chunk.
    #[inline(always)]
    fn step(&mut self) -> bool {
        let start = self.at;
        let rest = &self.bytes[start..];
        if rest.is_empty() {
            return false;
        }
        let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let line = &rest[..end];
        let whole = line.len() <= LINE_BYTES_MAX;
        let line = if whole { line } else { &line[..LINE_BYTES_MAX] };
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match self.state {
            State::Opaque { block, left } => self.opaque_line(line, block, left),
            _ if whole => self.normal_line(line),
            _ => {
                self.state = State::Normal;
                self.push(Record::Damage("line longer than 1 MiB"));
            }
        }
        self.at = self.bytes.len().min(start + end + 1);
        self.line += 1;
        true
    }

    fn push(&mut self, record: Record) {
        self.records.push(Numbered { line: self.line, record });
    }

    #[inline(always)]
    fn normal_line(&mut self, line: &'a [u8]) {
        match grammar::parse(line, self.wanted.figures) {
            Ok((Line::Text, _)) => self.text_line(line),
            Ok((parsed, event)) => self.parsed_line(parsed, event),
            Err(fault) => {
                self.state = State::Normal;
                if line.starts_with(b"PARSING IN CURSOR #") {
                    // The following text is opaque even if its length is unknown.
                    self.open(Block::Statement, 0);
                }
                self.push(Record::Damage(fault));
            }
        }
    }

    #[inline(always)]
    fn parsed_line(&mut self, mut line: Line, event: &'a [u8]) {
        self.state = State::Normal;
        match &mut line {
            Line::Wait(wait) => wait.event = self.event(event),
            Line::Parsing(parsing) => self.open(Block::Statement, parsing.len.max(0)),
            Line::ParseError { len, .. } => self.open(Block::FailedStatement, (*len).max(0)),
            _ => {}
        }
        self.push(Record::Line(line));
    }

    fn open(&mut self, block: Block, left: i64) {
        self.state = State::Opaque { block, left };
        let next = self.bytes.len() - self.at;
        let next = memchr::memchr(b'\n', &self.bytes[self.at..]).map_or(next, |end| end + 1);
        self.text_start = (self.at + next, self.line + 1);
    }

    /// A line of unknown kind: in a bind block, in a dump, or anything else.
    fn text_line(&mut self, line: &'a [u8]) {
        let avl = match self.state {
            State::Bind { avl } => avl,
            _ => 0,
        };
        self.state = State::Normal;
        if line.starts_with(b" ") {
            if self.wanted.binds {
                self.bind_part(line);
            }
            if let Some(value) = line.trim_ascii_start().strip_prefix(b"value=\"") {
                if !closes_value(value) {
                    self.open(Block::BindValue, avl.saturating_sub(value.len() as i64 + 1));
                }
                return;
            }
            if let Some(avl) = bind_length(line) {
                self.state = State::Bind { avl };
            }
        }
        if self.wanted.lenient {
            for (wait, event) in grammar::waits_within(line, self.wanted.figures) {
                self.parsed_line(wait, event);
            }
        }
    }

    /// Parses a line of a bind block.
    fn bind_part(&mut self, line: &'a [u8]) {
        let mut text = Text::new(line.trim_ascii_start());
        let part = if text.eat(b"Bind#") {
            text.int().map(BindPart::Position)
        } else if text.eat(b"oacdty=") {
            text.int().map(BindPart::Kind)
        } else {
            text.eat(b"value=").then(|| self.bind_value(text.rest(), false))
        };
        if let Some(part) = part {
            self.push(Record::Bind(part));
        }
    }

    fn bind_value(&self, value: &'a [u8], more: bool) -> BindPart {
        let start = (value.as_ptr() as usize - self.bytes.as_ptr() as usize) as u32;
        BindPart::Value { start, end: start + value.len() as u32, more }
    }

    /// A line within opaque text: more of it, its end, or a trace line although it is not closed.
    fn opaque_line(&mut self, line: &'a [u8], block: Block, left: i64) {
        let of_value = block == Block::BindValue && self.wanted.binds;
        let ends = match block {
            Block::Statement => line == b"END OF STMT",
            Block::BindValue => closes_value(line),
            Block::FailedStatement => false,
        };
        if ends {
            if of_value {
                self.push(Record::Bind(self.bind_value(line, true)));
            }
            self.end_statement_text(self.at);
            self.state = State::Normal;
            if block == Block::Statement {
                self.push(Record::Line(Line::EndOfStatement));
            }
            return;
        }
        if goes_on(line, block, left) {
            self.end_statement_text(self.at);
            self.push(Record::Damage(block.unclosed()));
            self.normal_line(line);
            return;
        }
        if of_value {
            self.push(Record::Bind(self.bind_value(line, true)));
        }
        let left = left.saturating_sub(line.len() as i64 + 1);
        let left = if block == Block::BindValue { left } else { left.max(0) };
        let over = block == Block::FailedStatement && left == 0;
        self.state = if over { State::Normal } else { State::Opaque { block, left } };
    }

    /// Records the statement's text up to `end` if a statement is being read.
    fn end_statement_text(&mut self, end: usize) {
        if let State::Opaque { block: Block::Statement, .. } = self.state {
            let (start, line) = self.text_start;
            if start < end {
                let record = Record::StatementText { start: start as u32, end: end as u32 };
                self.records.push(Numbered { line, record });
            }
        }
    }

    /// The position of an event's name, which is added if it is new.
    #[inline(always)]
    fn event(&mut self, name: &'a [u8]) -> u32 {
        *self.event_position.entry(name).or_insert_with(|| {
            let start = (name.as_ptr() as usize - self.bytes.as_ptr() as usize) as u32;
            self.events.push(start..start + name.len() as u32);
            self.events.len() as u32 - 1
        })
    }
}

/// Whether a bind value, or its last line, ends here. A truncated value ends with dots.
fn closes_value(line: &[u8]) -> bool {
    line.ends_with(b"\"") || line.ends_with(b"\"...")
}

/// The length of the value on the next line, as in `... bln=22  avl=03  flg=05`.
fn bind_length(line: &[u8]) -> Option<i64> {
    let at = memchr::memmem::find(line, b" avl=")?;
    Text::new(&line[at + 5..]).int()
}

/// Whether a trace line ends opaque text that was not closed: the text has its stated length, or
/// the line begins a new file or session.
///
/// A bind value ends with its quote. For a while beyond its length, waits and calls are still taken
/// as part of it: a missing or wrong length is as likely as a lost quote.
fn goes_on(line: &[u8], block: Block, left: i64) -> bool {
    let Ok((line, _)) = grammar::parse(line, false) else { return false };
    match line {
        Line::Mark(Mark::Header | Mark::Session { .. } | Mark::Switch { .. } | Mark::SizeLimit) => {
            true
        }
        Line::Text | Line::EndOfStatement | Line::Mark(_) => false,
        Line::Wait(_) | Line::Call(_) if block == Block::BindValue => left <= -VALUE_BYTES_MORE,
        _ => left <= 0,
    }
}

/// The state that the lines before pass on to the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Normal,
    /// The previous line gave the length of a bind value.
    Bind {
        avl: i64,
    },
    /// In opaque text, of which `left` bytes remain by the length in its header; below zero if a
    /// bind value is longer.
    Opaque {
        block: Block,
        left: i64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Block {
    /// Up to `END OF STMT`.
    Statement,
    /// After `PARSE ERROR`: no end mark, but a length of `len` bytes.
    FailedStatement,
    /// `value="...` up to a line that ends with the closing quote.
    BindValue,
}

impl Block {
    /// The fault of a trace that ends, or continues with other lines, within this block.
    pub(crate) fn unclosed(self) -> Fault {
        match self {
            Block::Statement => "SQL text without END OF STMT",
            Block::FailedStatement => "SQL text shorter than PARSE ERROR says",
            Block::BindValue => "bind value without a closing quote",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Record {
    Line(Line),
    /// Bytes of the chunk that belong to the text of the last parsed statement.
    StatementText {
        start: u32,
        end: u32,
    },
    Bind(BindPart),
    Damage(Fault),
}

/// A part of a bind value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum BindPart {
    /// `Bind#N`: the next value begins.
    Position(i64),
    /// `oacdty=N`: Oracle's number of the data type.
    Kind(i64),
    /// Bytes of the chunk that are the value, or a further line of it if `more`.
    Value { start: u32, end: u32, more: bool },
}

/// Selects what the scan collects.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// Read WAIT lines in running text.
    pub lenient: bool,
    /// Read bind values.
    pub binds: bool,
    /// Read cursor, parameters and object of waits.
    pub figures: bool,
}

/// A record and its line in the chunk, from 0.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Numbered {
    pub line: u32,
    pub(crate) record: Record,
}

impl Numbered {
    /// Whether the record shows that its line was read outside opaque text.
    pub(crate) fn is_of_its_line(&self) -> bool {
        matches!(&self.record, Record::Line(line) if *line != Line::EndOfStatement)
    }
}

/// The content of a chunk.
#[derive(Debug)]
pub(super) struct Scanned {
    pub(crate) records: Vec<Numbered>,
    /// Event names, as byte ranges of the chunk.
    pub events: Vec<Range<u32>>,
    pub lines: u32,
    /// The state after the last line.
    pub exit: State,
}
