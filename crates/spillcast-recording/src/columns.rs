//! Rows -> Arrow columns; docs/schema.md describes each.

use std::sync::Arc;

use arrow_array::builder::{Int64Builder, ListBuilder};
use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Int32Array, Int64Array, RecordBatch, StringArray,
};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use spillcast_core::capture::Second;
use spillcast_core::wait::{NameId, Names, Op, RowNames, Wait};

/// The names of waits, as the dictionaries of their columns.
pub struct Dictionaries {
    events: ArrayRef,
    files: ArrayRef,
    sql: ArrayRef,
}

impl Dictionaries {
    pub fn new(names: &RowNames) -> Dictionaries {
        let values = |names: &Names| strings(names.list());
        Dictionaries {
            events: values(&names.events),
            files: values(&names.files),
            sql: values(&names.sql),
        }
    }
}

pub fn wait_columns(rows: &[Wait], names: &Dictionaries) -> Result<RecordBatch, ArrowError> {
    RecordBatch::try_from_iter_with_nullable([
        ("start_ns", int64(rows, |w| Some(w.start_ns)), false),
        ("elapsed_ns", int64(rows, |w| Some(w.elapsed_ns)), false),
        ("session", int64(rows, |w| Some(w.session)), false),
        ("event", named(rows, &names.events, |w| Some(w.event))?, false),
        ("op", ops(rows.iter().map(|w| w.op))?, true),
        ("temp", booleans(rows, |w| Some(w.temp)), false),
        ("file", named(rows, &names.files, |w| w.file)?, true),
        ("offset", int64(rows, |w| w.offset), true),
        ("bytes", int64(rows, |w| w.bytes), true),
        ("blocked", booleans(rows, |w| w.blocked), true),
        ("cpu_before_ns", int64(rows, |w| w.cpu_before_ns), true),
        ("woken_by", int64(rows, |w| w.woken_by), true),
        ("sql_id", named(rows, &names.sql, |w| w.sql_id)?, true),
        ("object", int64(rows, |w| w.object), true),
        ("line", int64(rows, |w| w.line), true),
    ])
}

/// Per-second rows, each with its histogram as two lists: middle of the bucket in ns, count.
pub fn second_columns(rows: &[Second]) -> Result<RecordBatch, ArrowError> {
    let (latency_ns, latency_count) = pairs(rows.iter().map(Second::latencies));
    RecordBatch::try_from_iter_with_nullable([
        ("second", int64(rows, |r| Some(r.second)), false),
        ("op", ops(rows.iter().map(|r| r.op))?, true),
        ("temp", booleans(rows, |r| Some(r.temp)), false),
        ("size_class_bytes", int64(rows, |r| Some(r.size_class_bytes)), false),
        ("count", int64(rows, |r| Some(r.count)), false),
        ("bytes", int64(rows, |r| Some(r.bytes)), false),
        ("total_ns", int64(rows, |r| Some(r.total_ns)), false),
        ("latency_ns", latency_ns, false),
        ("latency_count", latency_count, false),
    ])
}

/// The columns of samples, which no capture produces.
pub fn sample_schema() -> Schema {
    let name = || DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let number = |name: &str, nullable| Field::new(name, DataType::Int64, nullable);
    Schema::new(vec![
        number("time_ns", false),
        number("session", false),
        Field::new("event", name(), true),
        number("time_waited_us", true),
        number("weight_us", false),
        Field::new("sql_id", name(), true),
        number("sql_exec_id", true),
        number("plan_line", true),
        number("coordinator", true),
    ])
}

/// The op column: `read`, `write`, or null for neither.
pub fn ops(rows: impl Iterator<Item = Op>) -> Result<ArrayRef, ArrowError> {
    const LIST: [&str; 2] = ["read", "write"];
    let key = |op: Op| LIST.iter().position(|name| Some(*name) == op.name()).map(|at| at as i32);
    dictionary(rows.map(key).collect(), &strings(&LIST))
}

/// Histograms as two parallel list columns.
fn pairs(rows: impl Iterator<Item = Vec<(i64, i64)>>) -> (ArrayRef, ArrayRef) {
    let mut latency_ns = ListBuilder::new(Int64Builder::new());
    let mut latency_count = ListBuilder::new(Int64Builder::new());
    for row in rows {
        for (ns, count) in row {
            latency_ns.values().append_value(ns);
            latency_count.values().append_value(count);
        }
        latency_ns.append(true);
        latency_count.append(true);
    }
    (Arc::new(latency_ns.finish()), Arc::new(latency_count.finish()))
}

/// A column of numbers; None becomes null.
pub fn int64<T>(rows: &[T], of: impl Fn(&T) -> Option<i64>) -> ArrayRef {
    Arc::new(rows.iter().map(of).collect::<Int64Array>())
}

/// A column of flags; None becomes null.
pub fn booleans<T>(rows: &[T], of: impl Fn(&T) -> Option<bool>) -> ArrayRef {
    Arc::new(rows.iter().map(of).collect::<BooleanArray>())
}

fn named(
    rows: &[Wait],
    names: &ArrayRef,
    of: impl Fn(&Wait) -> Option<NameId>,
) -> Result<ArrayRef, ArrowError> {
    dictionary(rows.iter().map(|row| of(row).map(|id| id as i32)).collect(), names)
}

fn dictionary(keys: Int32Array, values: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(keys, values.clone())?))
}

fn strings<S: AsRef<str>>(list: &[S]) -> ArrayRef {
    Arc::new(list.iter().map(|name| Some(name.as_ref())).collect::<StringArray>())
}
