//! Rows of traces -> Arrow columns: the tables waits, calls and statements.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, DictionaryArray, Int32Array, RecordBatch, StringArray, new_null_array,
};
use arrow_schema::{ArrowError, DataType};
use spillcast_core::oracle::{
    Batch, Bind, Dictionary, Origin, StatLine, Statement, TimedCall, TimedWait,
};
use spillcast_recording::{booleans, int64, ops};

/// The requested columns, each with its table; None for all. Other columns are null. Names are
/// codes if columns are given.
pub struct Wanted(pub Option<Vec<(String, String)>>);

impl Wanted {
    pub fn table(&self, name: &str) -> bool {
        self.0.as_ref().is_none_or(|columns| columns.iter().any(|(table, _)| table == name))
    }

    /// Whether a requested column of waits is a figure of the wait's line, or depends on one.
    pub fn figures(&self) -> bool {
        const FIGURES: [&str; 9] =
            ["file", "bytes", "sql_id", "object", "blocks", "p1", "p2", "p3", "cursor"];
        FIGURES.iter().any(|name| self.column("waits", name))
    }

    fn column(&self, table: &str, name: &str) -> bool {
        let same = |(of, column): &(String, String)| of == table && column == name;
        self.0.as_ref().is_none_or(|columns| columns.iter().any(same))
    }
}

/// The tables of a batch.
pub fn tables(
    names: &Dictionary,
    batch: &Batch,
    wanted: &Wanted,
) -> Result<[RecordBatch; 5], ArrowError> {
    Ok([
        waits(names, &batch.waits, wanted)?,
        calls(names, &batch.calls)?,
        statements(&batch.statements)?,
        row_sources(names, &batch.row_sources)?,
        binds(names, &batch.binds)?,
    ])
}

/// Texts by index in a list.
fn coded(list: &[String], codes: impl Iterator<Item = Option<i32>>) -> ArrayRef {
    let texts = Arc::new(list.iter().map(Some).collect::<StringArray>());
    let codes: Int32Array = codes.collect();
    Arc::new(DictionaryArray::new(codes, texts))
}

fn text<'a, T>(rows: &'a [T], of: impl Fn(&'a T) -> Option<&'a str>) -> ArrayRef {
    Arc::new(rows.iter().map(of).collect::<StringArray>())
}

/// The last columns of a table: the statement and session of each row, its line and its source.
fn of_origin<T>(names: &Dictionary, rows: &[(Origin, T)]) -> [(&'static str, ArrayRef, bool); 4] {
    let sql = |(origin, _): &(Origin, T)| Some(names.sql.list()[origin.sql? as usize].as_str());
    [
        ("sql_id", Arc::new(rows.iter().map(sql).collect::<StringArray>()), true),
        ("session", int64(rows, |(o, _)| names.sessions[o.session].number()), true),
        ("line", int64(rows, |(origin, _)| Some(origin.line as i64)), false),
        ("source", int64(rows, |(origin, _)| Some(origin.file as i64)), false),
    ]
}

/// The columns of every recording's waits, and those that only traces have.
fn waits(
    names: &Dictionary,
    rows: &[(Origin, TimedWait)],
    wanted: &Wanted,
) -> Result<RecordBatch, ArrowError> {
    type Row = (Origin, TimedWait);
    let none: ArrayRef = new_null_array(&DataType::Int64, rows.len());
    let number = |name, of: &dyn Fn(&Row) -> Option<i64>| match wanted.column("waits", name) {
        true => (name, int64(rows, of), true),
        false => (name, none.clone(), true),
    };
    let flags = |name, of: fn(&Row) -> bool| match wanted.column("waits", name) {
        true => (name, booleans(rows, |row| Some(of(row))), true),
        false => (name, new_null_array(&DataType::Boolean, rows.len()), true),
    };
    let code = |name, of: fn(&Row) -> Option<u32>, list: &[String]| {
        if wanted.0.is_none() {
            return (name, text(rows, |row| of(row).map(|id| list[id as usize].as_str())), true);
        }
        let wanted = wanted.column("waits", name);
        let codes = rows.iter().map(|row| of(row).filter(|_| wanted).map(|id| id as i32));
        (name, coded(if wanted { list } else { &[] }, codes), true)
    };
    let op = ops(rows.iter().map(|(_, wait)| wait.class.op))?;
    let files = match wanted.column("waits", "file") {
        true => rows.iter().map(|(_, w)| w.file.map(|n| n.to_string())).collect::<StringArray>(),
        false => StringArray::new_null(rows.len()),
    };
    RecordBatch::try_from_iter_with_nullable([
        number("start_ns", &|(_, w)| Some(w.start_us * 1_000)),
        number("elapsed_ns", &|(_, w)| Some(w.elapsed_us * 1_000)),
        number("session", &|(o, _)| Some(names.sessions[o.session].number().unwrap_or(0))),
        code("event", |(_, w)| Some(w.event), names.events.list()),
        ("op", op, true),
        flags("temp", |(_, w)| w.class.temp),
        ("file", Arc::new(files) as ArrayRef, true),
        // A trace does not give the size of a block, so the offset in bytes is unknown.
        ("offset", none.clone(), true),
        number("bytes", &|(_, w)| w.bytes),
        code("sql_id", |(o, _)| o.sql, names.sql.list()),
        number("object", &|(_, w)| w.object.map(i64::from)),
        number("line", &|(o, _)| i64::try_from(o.line).ok()),
        number("blocks", &|(_, w)| w.blocks),
        number("p1", &|(_, w)| Some(w.params[0])),
        number("p2", &|(_, w)| Some(w.params[1])),
        number("p3", &|(_, w)| Some(w.params[2])),
        flags("idle", |(_, w)| w.class.idle),
        number("cursor", &|(_, w)| Some(w.cursor)),
        number("source", &|(o, _)| Some(o.file as i64)),
    ])
}

fn calls(names: &Dictionary, rows: &[(Origin, TimedCall)]) -> Result<RecordBatch, ArrowError> {
    let number = |of: fn(&TimedCall) -> i64| int64(rows, move |(_, call)| Some(of(call)));
    let columns = [
        ("call", text(rows, |(_, call)| Some(call.line.kind.name())), false),
        ("cursor", number(|call| call.line.cursor), false),
        ("c_us", number(|call| call.line.c), false),
        ("e_us", number(|call| call.line.e), false),
        ("self_c_us", number(|call| call.self_c_us), false),
        ("self_e_us", number(|call| call.self_e_us), false),
        ("p", number(|call| call.line.p), false),
        ("cr", number(|call| call.line.cr), false),
        ("cu", number(|call| call.line.cu), false),
        ("mis", number(|call| call.line.mis), false),
        ("r", number(|call| call.line.r), false),
        ("dep", number(|call| call.line.dep.into()), false),
        ("plh", number(|call| call.line.plh), false),
        ("tim_us", number(|call| call.line.tim), false),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().chain(of_origin(names, rows)))
}

fn statements(rows: &[(Origin, Statement)]) -> Result<RecordBatch, ArrowError> {
    let number = |of: fn(&Statement) -> i64| int64(rows, move |(_, row)| Some(of(row)));
    let texts: ArrayRef = Arc::new(
        rows.iter()
            .map(|(_, statement)| Some(String::from_utf8_lossy(&statement.text).into_owned()))
            .collect::<StringArray>(),
    );
    RecordBatch::try_from_iter_with_nullable([
        ("sql_id", text(rows, |(_, row)| Some(row.line.sqlid.as_str())), false),
        ("cursor", number(|row| row.line.cursor), false),
        ("len", number(|row| row.line.len), false),
        ("dep", number(|row| row.line.dep), false),
        ("uid", number(|row| row.line.uid), false),
        ("oct", number(|row| row.line.oct), false),
        ("lid", number(|row| row.line.lid), false),
        ("tim_us", number(|row| row.line.tim), false),
        ("hv", number(|row| row.line.hv), false),
        ("text", texts, false),
        ("line", int64(rows, |(origin, _)| Some(origin.line as i64)), false),
        ("source", int64(rows, |(origin, _)| Some(origin.file as i64)), false),
    ])
}

fn row_sources(names: &Dictionary, rows: &[(Origin, StatLine)]) -> Result<RecordBatch, ArrowError> {
    let number = |of: fn(&StatLine) -> i64| int64(rows, move |(_, row)| Some(of(row)));
    let perhaps = |of: fn(&StatLine) -> Option<i64>| int64(rows, move |(_, row)| of(row));
    let columns = [
        ("id", number(|r| r.id), false),
        ("parent", number(|r| r.pid), false),
        ("position", number(|r| r.pos), false),
        ("operation", text(rows, |(_, r)| Some(r.op.as_str())), false),
        ("object", number(|r| r.obj), false),
        ("rows", number(|r| r.cnt), false),
        ("starts", perhaps(|r| r.starts), true),
        ("gets", perhaps(|r| r.cr), true),
        ("blocks_read", perhaps(|r| r.pr), true),
        ("blocks_written", perhaps(|r| r.pw), true),
        ("elapsed_us", perhaps(|r| r.time_us), true),
        ("cursor", number(|r| r.cursor), false),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().chain(of_origin(names, rows)))
}

fn binds(names: &Dictionary, rows: &[(Origin, Bind)]) -> Result<RecordBatch, ArrowError> {
    let value = |(_, bind): &(Origin, Bind)| {
        bind.value.as_ref().map(|value| String::from_utf8_lossy(value).into_owned())
    };
    let values: ArrayRef = Arc::new(rows.iter().map(value).collect::<StringArray>());
    let columns = [
        ("cursor", int64(rows, |(_, bind)| Some(bind.cursor)), false),
        ("position", int64(rows, |(_, bind)| Some(bind.position)), false),
        ("type", int64(rows, |(_, bind)| bind.kind), true),
        ("value", values, true),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().chain(of_origin(names, rows)))
}
