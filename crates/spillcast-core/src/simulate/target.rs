//! The storage that simulated I/O goes to.

use std::collections::HashMap;

use super::{Row, Wait};
use crate::storage::{Model, Operation, Schedule};
use crate::wait::Op;

/// A read or write.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Io {
    pub op: Op,
    pub file: u32,
    /// Where in the file; None where that is not known: then it is taken to follow the last one.
    pub offset: Option<u64>,
    pub bytes: u64,
}

/// What answers as fast as this is memory: the thread stays on its core meanwhile.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    pub ns: f64,
    pub ns_per_byte: f64,
}

pub struct Target {
    schedule: Schedule,
    memory: Memory,
    /// Where the last operation of an op on a file ended.
    ends: HashMap<(u32, Op), u64>,
}

impl Target {
    pub fn new(model: Model, memory: Memory, rows: &[Row]) -> Target {
        let operations = rows.iter().filter_map(|row| match row.wait {
            Wait::Io(io) => Some((io.op, io.bytes)),
            _ => None,
        });
        Target { schedule: Schedule::of(model, operations), memory, ends: HashMap::new() }
    }

    /// How long an operation takes that begins at `now_ns`, and whether its thread keeps its core.
    pub fn takes(&mut self, now_ns: u64, io: Io) -> (f64, bool) {
        let operation = Operation { op: io.op, sequential: self.follows(io), bytes: io.bytes };
        let ns = self.schedule.elapsed_ns(now_ns, operation);
        let memory_ns = self.memory.ns + self.memory.ns_per_byte * io.bytes as f64;
        (ns, ns <= memory_ns)
    }

    pub fn limited_ns(&self) -> Vec<f64> {
        self.schedule.limited_ns()
    }

    /// Whether it begins where the last one ended; a first one does, as on a mount.
    fn follows(&mut self, io: Io) -> bool {
        let Some(offset) = io.offset else { return true };
        let last = self.ends.insert((io.file, io.op), offset + io.bytes);
        last.is_none_or(|end| end == offset)
    }
}
