//! The row that all modules share: a timed operation, and the names that its columns refer to.

use rustc_hash::FxHashMap;
use serde::{Serialize, Serializer};

/// What an operation did to storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Op {
    Read,
    Write,
    /// Neither: a lock, a network round trip, a timer; or a call that changes a temp file.
    #[default]
    Null,
}

/// As its name.
impl Serialize for Op {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.name().serialize(serializer)
    }
}

impl Op {
    pub fn name(self) -> Option<&'static str> {
        match self {
            Op::Read => Some("read"),
            Op::Write => Some("write"),
            Op::Null => None,
        }
    }

    /// The op whose `as u8` is this number; Null for any other.
    pub fn of_number(number: u8) -> Op {
        match number {
            0 => Op::Read,
            1 => Op::Write,
            _ => Op::Null,
        }
    }
}

/// A position in a [`Names`] list.
pub type NameId = u32;

/// One timed operation of one session.
///
/// `event`, `file` and `sql_id` are positions in the [`Names`] kept beside the rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wait {
    /// Nanoseconds since the start of the recording.
    pub start_ns: i64,
    pub elapsed_ns: i64,
    /// Thread id on Linux, session id in Oracle.
    pub session: i64,
    pub event: NameId,
    pub op: Op,
    pub temp: bool,
    pub file: Option<NameId>,
    /// Byte offset in the file; for a call that truncates the file, its new length.
    pub offset: Option<i64>,
    /// Bytes moved.
    pub bytes: Option<i64>,
    /// Whether the thread left the CPU during the operation.
    pub blocked: Option<bool>,
    /// CPU time of the thread between its previous operation and this one.
    pub cpu_before_ns: Option<i64>,
    /// The session that ended the wait.
    pub woken_by: Option<i64>,
    pub sql_id: Option<NameId>,
    pub object: Option<i64>,
    /// Line in the source file, from 1.
    pub line: Option<i64>,
}

impl Wait {
    /// An operation with no other known fields; start and duration are in ns.
    pub fn new(session: i64, event: NameId, op: Op, (start_ns, elapsed_ns): (i64, i64)) -> Wait {
        Wait { start_ns, elapsed_ns, session, event, op, ..Wait::default() }
    }

    /// Checks in debug builds what holds for every row.
    pub fn check(&self) {
        let not_negative = |number: Option<i64>| number.is_none_or(|number| number >= 0);
        debug_assert!(self.elapsed_ns >= 0, "{self:?}");
        debug_assert!(
            self.op != Op::Null || !self.temp || self.bytes.is_none(),
            "what is temp and has no operation moves no bytes: {self:?}"
        );
        debug_assert!(not_negative(self.bytes) && not_negative(self.cpu_before_ns), "{self:?}");
        debug_assert!(self.line.is_none_or(|line| line > 0), "{self:?}");
    }
}

/// Distinct names, each with a stable position: the dictionary of a column.
#[derive(Clone, Debug, Default)]
pub struct Names {
    list: Vec<String>,
    position: FxHashMap<String, NameId>,
}

impl Names {
    /// The position of `name`, which is added if it is new.
    pub fn id(&mut self, name: &str) -> NameId {
        if let Some(&id) = self.position.get(name) {
            return id;
        }
        let id = self.list.len() as NameId;
        self.list.push(name.to_owned());
        self.position.insert(name.to_owned(), id);
        id
    }

    /// The position of `name`, if it is known.
    pub fn get(&self, name: &str) -> Option<NameId> {
        self.position.get(name).copied()
    }

    pub fn list(&self) -> &[String] {
        &self.list
    }
}

/// The names that the rows of a recording point to.
#[derive(Clone, Debug, Default)]
pub struct RowNames {
    pub events: Names,
    pub files: Names,
    pub sql: Names,
    /// Whether files are temp, for rows that were made before that was decided.
    pub temp: FxHashMap<NameId, bool>,
}

impl RowNames {
    /// Returns a row with its final label.
    pub fn settled(&self, wait: Wait) -> Wait {
        let Some(&temp) = wait.file.and_then(|file| self.temp.get(&file)) else { return wait };
        match wait.op {
            // Calls that change a file are rows of temp files only; of others only the time counts.
            Op::Null if !temp => Wait { temp, file: None, offset: None, ..wait },
            _ => Wait { temp, ..wait },
        }
    }
}

/// The size class of an operation: `bytes` rounded up to an eighth of its power of two.
///
/// Sizes that engines use (8 KiB, 48 KiB, 224 KiB, 240 KiB, 256 KiB, 1 MiB) are classes of their
/// own; the number of classes stays small whatever a program does.
pub fn size_class_bytes(bytes: u64) -> u64 {
    if bytes <= 512 {
        return bytes.min(1) * 512;
    }
    let step = 1u64 << (63 - (bytes - 1).leading_zeros()).saturating_sub(3);
    bytes.div_ceil(step) * step
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_sizes_of_engines_are_separate_classes() {
        for kib in [1u64, 4, 8, 16, 32, 48, 64, 96, 160, 192, 224, 240, 256, 1024] {
            assert_eq!(size_class_bytes(kib << 10), kib << 10, "{kib} KiB");
        }
    }

    #[test]
    fn a_size_class_exceeds_its_sizes_by_at_most_an_eighth() {
        for bytes in 513..200_000u64 {
            let class = size_class_bytes(bytes);
            assert!(class >= bytes && (class - bytes) * 8 <= bytes, "{bytes} -> {class}");
        }
        assert_eq!(size_class_bytes(0), 0);
        assert_eq!(size_class_bytes(1), 512);
    }
}
