//! Arrow columns -> rows, of a recording or of a capture source outside the core.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{
    Array, BooleanArray, Int32Array, Int64Array, ListArray, RecordBatch, downcast_integer_array,
};
use arrow_schema::{ArrowError, DataType};
use spillcast_core::capture::Second;
use spillcast_core::wait::{NameId, Names, Op, RowNames, Wait};

use crate::parquet_reader::ParquetSource;

/// Passes on the waits of some columns one by one; their names are indexes in `names`, to which
/// they are added.
///
/// Fails like [`each_wait`].
pub fn each_wait(
    batch: &RecordBatch,
    names: &mut RowNames,
    mut each: impl FnMut(&Wait, &RowNames),
) -> Result<(), ArrowError> {
    let columns = WaitColumns::of(batch, names)?;
    (0..batch.num_rows()).for_each(|at| each(&columns.wait(at), names));
    Ok(())
}

/// The columns of waits. Recordings of earlier versions lack some of the nullable columns.
pub struct WaitColumns<'a> {
    pub start_ns: Numbers<'a>,
    pub elapsed_ns: Numbers<'a>,
    pub session: Numbers<'a>,
    pub temp: &'a BooleanArray,
    pub op: Option<Named<'a, Op>>,
    pub file: Option<Named<'a, NameId>>,
    pub offset: Option<Numbers<'a>>,
    pub bytes: Option<Numbers<'a>>,
    event: Named<'a, NameId>,
    blocked: Option<&'a BooleanArray>,
    cpu_before_ns: Option<Numbers<'a>>,
    woken_by: Option<Numbers<'a>>,
    sql_id: Option<Named<'a, NameId>>,
    object: Option<Numbers<'a>>,
    line: Option<Numbers<'a>>,
}

impl<'a> WaitColumns<'a> {
    /// Names become indexes in `names`, to which they are added. Fails like [`each_wait`].
    pub fn of(batch: &'a RecordBatch, names: &mut RowNames) -> Result<WaitColumns<'a>, ArrowError> {
        let from = Columns(batch);
        let event = from.names("event", &mut names.events)?;
        let event = event.filter(|event| event.keys.null_count() == 0);
        Ok(WaitColumns {
            start_ns: from.needed("start_ns")?,
            elapsed_ns: from.needed("elapsed_ns")?,
            session: from.needed("session")?,
            temp: from.booleans("temp")?.ok_or_else(|| invalid("there is no column temp"))?,
            event: event.ok_or_else(|| invalid("column event: absent, or a null"))?,
            op: from.ops()?,
            file: from.names("file", &mut names.files)?,
            sql_id: from.names("sql_id", &mut names.sql)?,
            blocked: from.booleans("blocked")?,
            offset: from.int64("offset")?,
            bytes: from.int64("bytes")?,
            cpu_before_ns: from.int64("cpu_before_ns")?,
            woken_by: from.int64("woken_by")?,
            object: from.int64("object")?,
            line: from.int64("line")?,
        })
    }

    pub fn wait(&self, at: usize) -> Wait {
        let op = name(&self.op, at).unwrap_or(Op::Null);
        let span = (self.start_ns.value(at), self.elapsed_ns.value(at));
        Wait {
            temp: boolean(Some(self.temp), at) == Some(true),
            file: name(&self.file, at),
            offset: number(&self.offset, at),
            bytes: number(&self.bytes, at),
            blocked: boolean(self.blocked, at),
            cpu_before_ns: number(&self.cpu_before_ns, at),
            woken_by: number(&self.woken_by, at),
            sql_id: name(&self.sql_id, at),
            object: number(&self.object, at),
            line: number(&self.line, at),
            ..Wait::new(self.session.value(at), self.event.values[self.event.key(at)], op, span)
        }
    }

    /// Whether a row reads or writes a temp file.
    pub fn is_temp_io(&self, at: usize) -> bool {
        self.temp.value(at) && name(&self.op, at).is_some_and(|op| op != Op::Null)
    }
}

/// Converts columns to per-second rows.
///
/// Fails like [`each_wait`].
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
            op: name(&op, at).unwrap_or(Op::Null),
            temp: boolean(temp, at) == Some(true),
            size_class_bytes: size_class_bytes.value(at),
            count: count.value(at),
            bytes: bytes.value(at),
            total_ns: total_ns.value(at),
            ..Second::default()
        };
        for (&ns, &count) in ns.values().iter().zip(counts.values()) {
            row.add_latency(ns, count);
        }
        row
    });
    Ok(rows.collect())
}

/// Integers of 64 bits, borrowed, or converted from narrower ones.
pub type Numbers<'a> = Cow<'a, Int64Array>;

struct Columns<'a>(&'a RecordBatch);

impl<'a> Columns<'a> {
    fn column(&self, name: &str) -> Option<&'a dyn Array> {
        self.0.column_by_name(name).map(|column| &**column)
    }

    /// The column as converted by `of`; fails if that is not possible.
    fn typed<T>(
        &self,
        name: &str,
        type_name: &str,
        of: impl FnOnce(&'a dyn Array) -> Option<T>,
    ) -> Result<Option<T>, ArrowError> {
        let wrong = || invalid(format!("column {name} is no {type_name}"));
        self.column(name).map(|column| of(column).ok_or_else(wrong)).transpose()
    }

    fn int64(&self, name: &str) -> Result<Option<Numbers<'a>>, ArrowError> {
        self.typed(name, "int64", numbers)
    }

    fn needed(&self, name: &str) -> Result<Numbers<'a>, ArrowError> {
        let column = self.int64(name)?.filter(|column| column.null_count() == 0);
        column.ok_or_else(|| invalid(format!("column {name}: absent, or a null")))
    }

    fn booleans(&self, name: &str) -> Result<Option<&'a BooleanArray>, ArrowError> {
        self.typed(name, "bool", |column| column.as_boolean_opt())
    }

    fn lists(&self, name: &str) -> Result<&'a ListArray, ArrowError> {
        let of_int64 = |list: &&ListArray| list.values().as_primitive_opt::<Int64Type>().is_some();
        let list = self
            .typed(name, "list of int64", |column| column.as_list_opt::<i32>().filter(of_int64));
        list?.ok_or_else(|| invalid(format!("there is no column {name}")))
    }

    /// A column of names, each of which `of` converts.
    fn named<T>(
        &self,
        name: &str,
        of: impl FnMut(&str) -> T,
    ) -> Result<Option<Named<'a, T>>, ArrowError> {
        self.typed(name, "dictionary of int32 to string", |column| {
            let column = column.as_dictionary_opt::<Int32Type>()?;
            let values = column.values().as_string_opt::<i32>()?;
            let values = values.iter().map(Option::unwrap_or_default).map(of).collect();
            Some(Named { keys: column.keys(), values })
        })
    }

    /// The index of each row's name in `names`, to which it is added.
    fn names(
        &self,
        name: &str,
        names: &mut Names,
    ) -> Result<Option<Named<'a, NameId>>, ArrowError> {
        self.named(name, |value| names.id(value))
    }

    fn ops(&self) -> Result<Option<Named<'a, Op>>, ArrowError> {
        self.named("op", |name| match name {
            "read" => Op::Read,
            "write" => Op::Write,
            _ => Op::Null,
        })
    }
}

/// A column of names, with the value of each.
pub struct Named<'a, T> {
    keys: &'a Int32Array,
    values: Vec<T>,
}

impl<T> Named<'_, T> {
    fn key(&self, at: usize) -> usize {
        self.keys.value(at) as usize
    }
}

pub fn name<T: Copy>(column: &Option<Named<T>>, at: usize) -> Option<T> {
    let column = column.as_ref()?;
    column.keys.is_valid(at).then(|| column.values[column.key(at)])
}

pub fn number(column: &Option<Numbers>, at: usize) -> Option<i64> {
    let column = column.as_ref()?;
    column.is_valid(at).then(|| column.value(at))
}

fn boolean(column: Option<&BooleanArray>, at: usize) -> Option<bool> {
    let column = column?;
    column.is_valid(at).then(|| column.value(at))
}

/// Integers of any width that fits 64 bits.
#[expect(clippy::unnecessary_cast, reason = "needless for one of the widths")]
fn numbers(column: &dyn Array) -> Option<Numbers<'_>> {
    match column.data_type() {
        DataType::Int64 => Some(Cow::Borrowed(column.as_primitive())),
        DataType::UInt64 => None,
        _ => downcast_integer_array!(
            column => Some(Cow::Owned(column.iter().map(|n| n.map(|n| n as i64)).collect())),
            _ => None
        ),
    }
}

fn invalid(text: impl Into<String>) -> ArrowError {
    ArrowError::SchemaError(text.into())
}

/// Rows whose columns are held at a time; the names of each such part are looked up once.
const PART_ROWS: usize = 32_768;

/// Passes on the waits of a file in order; their names are indexes in `names`.
///
/// Fails on errors of the file, and with InvalidData if it does not hold the waits of a recording.
pub fn read_waits(
    path: &Path,
    names: &mut RowNames,
    mut each: impl FnMut(&Wait),
) -> io::Result<()> {
    let damaged = |error: String| io::Error::new(io::ErrorKind::InvalidData, error);
    let source = ParquetSource::open(File::open(path)?).map_err(damaged)?;
    let columns = (0..source.schema().fields().len()).collect();
    let mut parts = source.batches(columns, PART_ROWS, Vec::new()).map_err(damaged)?;
    while let Some(part) = parts.next_batch().map_err(damaged)? {
        each_wait(&part, names, |wait, _| each(wait))
            .map_err(|error| damaged(error.to_string()))?;
    }
    Ok(())
}
