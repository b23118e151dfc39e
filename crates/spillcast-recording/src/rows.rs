//! Arrow columns -> rows: what a capture source outside the core hands over.

use std::sync::{Arc, Mutex};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, BooleanArray, Int32Array, Int64Array, ListArray, RecordBatch};
use arrow_schema::ArrowError;
use spillcast_core::capture::{Second, Waits};
use spillcast_core::packed::Packed;
use spillcast_core::wait::{NameId, Names, Op, RowNames, Wait};

/// Waits from their columns.
///
/// Errors: a column that is not there or of another type, a null where none may be.
pub fn waits_of(batch: &RecordBatch) -> Result<Waits, ArrowError> {
    let (mut names, mut rows) = (RowNames::default(), Packed::default());
    each_wait(batch, &mut names, |wait| rows.push(wait))?;
    Ok(Waits { rows, names: Arc::new(Mutex::new(names)) })
}

/// Gives the waits of some columns one by one; their names are positions in `names`, which takes
/// them in.
///
/// Errors: as of [`waits_of`].
pub fn each_wait(
    batch: &RecordBatch,
    names: &mut RowNames,
    mut each: impl FnMut(&Wait),
) -> Result<(), ArrowError> {
    let from = Columns(batch);
    let (start_ns, elapsed_ns) = (from.needed("start_ns")?, from.needed("elapsed_ns")?);
    let (session, temp) = (from.needed("session")?, from.booleans("temp")?);
    let event = from.names("event", &mut names.events)?;
    let file = from.names("file", &mut names.files)?;
    let sql_id = from.names("sql_id", &mut names.sql)?;
    let (op, blocked) = (from.ops()?, from.booleans("blocked")?);
    let (offset, bytes) = (from.int64("offset")?, from.int64("bytes")?);
    let (cpu_before_ns, woken_by) = (from.int64("cpu_before_ns")?, from.int64("woken_by")?);
    let (object, line) = (from.int64("object")?, from.int64("line")?);
    for at in 0..batch.num_rows() {
        let unnamed = || invalid("column event: a null");
        let event = event.value(at).ok_or_else(unnamed)?;
        let span = (start_ns.value(at), elapsed_ns.value(at));
        each(&Wait {
            temp: boolean(temp, at) == Some(true),
            file: file.value(at),
            offset: number(offset, at),
            bytes: number(bytes, at),
            blocked: boolean(blocked, at),
            cpu_before_ns: number(cpu_before_ns, at),
            woken_by: number(woken_by, at),
            sql_id: sql_id.value(at),
            object: number(object, at),
            line: number(line, at),
            ..Wait::new(session.value(at), event, op.value(at).unwrap_or(Op::Null), span)
        });
    }
    Ok(())
}

/// Seconds from their columns.
///
/// Errors: as of [`waits_of`].
pub fn seconds_of(batch: &RecordBatch) -> Result<Vec<Second>, ArrowError> {
    let from = Columns(batch);
    let (second, temp, op) = (from.needed("second")?, from.booleans("temp")?, from.ops()?);
    let (size_class_bytes, count) = (from.needed("size_class_bytes")?, from.needed("count")?);
    let (bytes, total_ns) = (from.needed("bytes")?, from.needed("total_ns")?);
    let (ns, counts) = (from.lists("latency_ns")?, from.lists("latency_count")?);
    let rows = (0..batch.num_rows()).map(|at| {
        let numbers = |list: &ListArray| list.value(at).as_primitive::<Int64Type>().clone();
        let (ns, counts) = (numbers(ns), numbers(counts));
        let mut row = Second {
            second: second.value(at),
            op: op.value(at).unwrap_or(Op::Null),
            temp: boolean(temp, at) == Some(true),
            file: None,
            size_class_bytes: size_class_bytes.value(at),
            count: count.value(at),
            bytes: bytes.value(at),
            total_ns: total_ns.value(at),
            by_latency_ns: Default::default(),
        };
        for (&ns, &count) in ns.values().iter().zip(counts.values()) {
            row.add_latency(ns, count);
        }
        row
    });
    Ok(rows.collect())
}

struct Columns<'a>(&'a RecordBatch);

impl<'a> Columns<'a> {
    fn column(&self, name: &str) -> Result<&'a dyn Array, ArrowError> {
        let column = self.0.column_by_name(name).map(|column| &**column);
        column.ok_or_else(|| invalid(format!("there is no column {name}")))
    }

    fn int64(&self, name: &str) -> Result<&'a Int64Array, ArrowError> {
        self.column(name)?.as_primitive_opt().ok_or_else(|| of_type(name, "int64"))
    }

    fn needed(&self, name: &str) -> Result<&'a Int64Array, ArrowError> {
        let column = self.int64(name)?;
        let whole = (column.null_count() == 0).then_some(column);
        whole.ok_or_else(|| invalid(format!("column {name}: a null")))
    }

    fn booleans(&self, name: &str) -> Result<&'a BooleanArray, ArrowError> {
        self.column(name)?.as_boolean_opt().ok_or_else(|| of_type(name, "bool"))
    }

    fn lists(&self, name: &str) -> Result<&'a ListArray, ArrowError> {
        let list = self.column(name)?.as_list_opt::<i32>();
        list.filter(|list| list.values().as_primitive_opt::<Int64Type>().is_some())
            .ok_or_else(|| of_type(name, "list of int64"))
    }

    /// A column of names, each of which becomes what `of` makes of it.
    fn named<T>(&self, name: &str, of: impl FnMut(&str) -> T) -> Result<Named<'a, T>, ArrowError> {
        let wrong = || of_type(name, "dictionary of int32 to string");
        let column = self.column(name)?.as_dictionary_opt::<Int32Type>().ok_or_else(wrong)?;
        let values = column.values().as_string_opt::<i32>().ok_or_else(wrong)?;
        let values = values.iter().map(Option::unwrap_or_default).map(of).collect();
        Ok(Named { keys: column.keys(), values })
    }

    /// The position of each row's name in `names`, which takes them in.
    fn names(&self, name: &str, names: &mut Names) -> Result<Named<'a, NameId>, ArrowError> {
        self.named(name, |value| names.id(value))
    }

    fn ops(&self) -> Result<Named<'a, Op>, ArrowError> {
        self.named("op", |name| match name {
            "read" => Op::Read,
            "write" => Op::Write,
            _ => Op::Null,
        })
    }
}

/// A column of names, with what stands for each.
struct Named<'a, T> {
    keys: &'a Int32Array,
    values: Vec<T>,
}

impl<T: Copy> Named<'_, T> {
    fn value(&self, at: usize) -> Option<T> {
        self.keys.is_valid(at).then(|| self.values[self.keys.value(at) as usize])
    }
}

fn number(column: &Int64Array, at: usize) -> Option<i64> {
    column.is_valid(at).then(|| column.value(at))
}

fn boolean(column: &BooleanArray, at: usize) -> Option<bool> {
    column.is_valid(at).then(|| column.value(at))
}

fn of_type(name: &str, wanted: &str) -> ArrowError {
    invalid(format!("column {name} is no {wanted}"))
}

fn invalid(text: impl Into<String>) -> ArrowError {
    ArrowError::SchemaError(text.into())
}
