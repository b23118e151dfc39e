//! The result of scanning a chunk: records, each with its line, and the state at its end.

use std::ops::Range;

use super::line::{Fault, Line};

/// What the lines before have to tell the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Normal,
    /// The line before gave the length of a bind value.
    Bind {
        avl: i64,
    },
    /// In opaque text, `left` bytes of which are still to come by what its header said; below zero
    /// where a bind value is longer.
    Opaque {
        block: Block,
        left: i64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Block {
    /// Up to `END OF STMT`.
    Statement,
    /// Behind `PARSE ERROR`, which has no end mark: as many bytes as its `len` says.
    FailedStatement,
    /// `value="...` up to a line that ends with the closing quote.
    BindValue,
}

impl Block {
    /// What is wrong with a trace that ends, or goes on with other lines, within this block.
    pub fn unclosed(self) -> Fault {
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
    /// Bytes of the chunk that are text of the statement last parsed.
    StatementText {
        start: u32,
        end: u32,
    },
    Bind(BindPart),
    Damage(Fault),
}

/// A part of a bound value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum BindPart {
    /// `Bind#N`: another one begins.
    Position(i64),
    /// `oacdty=N`: its type by Oracle's number.
    Kind(i64),
    /// Bytes of the chunk that are its value, or with `more` a further line of it.
    Value { start: u32, end: u32, more: bool },
}

/// Selects what the scan collects.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// WAIT lines in running text.
    pub lenient: bool,
    /// Bound values.
    pub binds: bool,
    /// Of waits also cursor, parameters and object.
    pub figures: bool,
}

/// A record and its line in the chunk, from 0.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Numbered {
    pub line: u32,
    pub record: Record,
}

impl Numbered {
    /// Whether the record shows that its line was read outside of opaque text.
    pub fn is_of_its_line(&self) -> bool {
        matches!(&self.record, Record::Line(line) if *line != Line::EndOfStatement)
    }
}

/// The content of a chunk.
#[derive(Debug)]
pub(super) struct Scanned {
    pub records: Vec<Numbered>,
    /// Event names, as bytes of the chunk.
    pub events: Vec<Range<u32>>,
    pub lines: u32,
    /// The state behind the last line.
    pub exit: State,
}
