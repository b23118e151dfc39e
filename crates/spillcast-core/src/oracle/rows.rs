//! The rows of traces, for tables: waits, calls and statements, passed on in batches.

use super::line::StatLine;
use super::sink::{Bind, Dictionary, Origin, Sink, Statement, TimedCall, TimedWait};

/// Rows of all tables, each in the order of the trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    pub waits: Vec<(Origin, TimedWait)>,
    pub calls: Vec<(Origin, TimedCall)>,
    pub statements: Vec<(Origin, Statement)>,
    pub row_sources: Vec<(Origin, StatLine)>,
    pub binds: Vec<(Origin, Bind)>,
}

impl Batch {
    fn len(&self) -> usize {
        let few = self.statements.len() + self.row_sources.len() + self.binds.len();
        self.waits.len() + self.calls.len() + few
    }
}

/// The tables whose rows are collected.
#[derive(Clone, Copy, Debug)]
pub struct Tables {
    pub waits: bool,
    pub calls: bool,
    pub statements: bool,
    pub row_sources: bool,
    pub binds: bool,
    /// Columns of waits other than event, session and time.
    pub figures: bool,
}

/// Collects rows and passes on each full batch.
pub struct Rows<F> {
    batch: Batch,
    batch_rows: usize,
    tables: Tables,
    take: F,
}

impl<F: FnMut(&Dictionary, Batch) -> bool + Send> Rows<F> {
    /// `take` gets batches of about `batch_rows` rows, and returns false to end the reading.
    pub fn new(batch_rows: usize, tables: Tables, take: F) -> Self {
        Rows { batch: Batch::default(), batch_rows, tables, take }
    }

    /// Returns the remaining rows after the reading.
    pub fn finish(self) -> Batch {
        self.batch
    }
}

impl<F: FnMut(&Dictionary, Batch) -> bool + Send> Sink for Rows<F> {
    fn wait(&mut self, _names: &Dictionary, origin: Origin, wait: &TimedWait) {
        if self.tables.waits {
            self.batch.waits.push((origin, *wait));
        }
    }

    fn call(&mut self, _names: &Dictionary, origin: Origin, call: &TimedCall) {
        if self.tables.calls {
            self.batch.calls.push((origin, *call));
        }
    }

    fn statement(&mut self, _names: &Dictionary, origin: Origin, statement: Statement) {
        if self.tables.statements {
            self.batch.statements.push((origin, statement));
        }
    }

    fn row_source(&mut self, _names: &Dictionary, origin: Origin, line: StatLine) {
        if self.tables.row_sources {
            self.batch.row_sources.push((origin, line));
        }
    }

    fn bind(&mut self, _names: &Dictionary, origin: Origin, bind: Bind) {
        if self.tables.binds {
            self.batch.binds.push((origin, bind));
        }
    }

    fn needs_figures(&self) -> bool {
        self.tables.figures
    }

    /// Batches are passed on between chunks, so they are somewhat larger than requested.
    fn chunk_ended(&mut self, names: &Dictionary) -> bool {
        self.batch.len() < self.batch_rows || (self.take)(names, std::mem::take(&mut self.batch))
    }
}
