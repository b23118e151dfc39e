//! Rows of the core -> Arrow columns; docs/schema.md describes each.

use std::sync::Arc;

use arrow_array::builder::{Int64Builder, ListBuilder};
use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Int32Array, Int64Array, RecordBatch, StringArray,
};
use arrow_schema::ArrowError;
use spillcast_core::capture::{Batch, SecondRow};
use spillcast_core::histogram::Histogram;
use spillcast_core::wait::{NameId, Op, Wait};

/// The waits of a batch, with its names as dictionaries.
pub fn waits(batch: &Batch) -> Result<RecordBatch, ArrowError> {
    let rows = &batch.waits;
    let none: Vec<String> = Vec::new();
    RecordBatch::try_from_iter_with_nullable([
        ("start_ns", int64(rows, |w| Some(w.start_ns)), false),
        ("elapsed_ns", int64(rows, |w| Some(w.elapsed_ns)), false),
        ("session", int64(rows, |w| Some(w.session)), false),
        ("event", names(rows, &batch.event_names, |w| Some(w.event))?, false),
        ("op", ops(rows.iter().map(|w| w.op))?, true),
        ("temp", Arc::new(rows.iter().map(|w| Some(w.temp)).collect::<BooleanArray>()), false),
        ("file", names(rows, &batch.file_names, |w| w.file)?, true),
        ("offset", int64(rows, |w| w.offset), true),
        ("bytes", int64(rows, |w| w.bytes), true),
        ("blocked", Arc::new(rows.iter().map(|w| w.blocked).collect::<BooleanArray>()), true),
        ("cpu_before_ns", int64(rows, |w| w.cpu_before_ns), true),
        ("woken_by", int64(rows, |w| w.woken_by), true),
        ("sql_id", names(rows, &none, |w| w.sql_id)?, true),
        ("object", int64(rows, |w| w.object), true),
        ("line", int64(rows, |w| w.line), true),
    ])
}

/// Seconds, each with its histogram as two lists: middle of the bucket in ns, count.
pub fn seconds(rows: &[SecondRow]) -> Result<RecordBatch, ArrowError> {
    let column = |of: fn(&SecondRow) -> i64| -> ArrayRef {
        Arc::new(rows.iter().map(of).collect::<Int64Array>())
    };
    let (latency_ns, latency_count) = histograms(rows.iter().map(|row| &row.histogram));
    RecordBatch::try_from_iter_with_nullable([
        ("second", column(|r| r.second), false),
        ("op", ops(rows.iter().map(|r| r.op))?, true),
        ("temp", Arc::new(rows.iter().map(|r| Some(r.temp)).collect::<BooleanArray>()), false),
        ("size_class_bytes", column(|r| r.size_class_bytes as i64), false),
        ("count", column(|r| r.histogram.count() as i64), false),
        ("bytes", column(|r| r.bytes as i64), false),
        ("total_ns", column(|r| r.histogram.total_ns() as i64), false),
        ("latency_ns", latency_ns, false),
        ("latency_count", latency_count, false),
    ])
}

/// Histograms as two parallel list columns.
pub fn histograms<'a>(rows: impl Iterator<Item = &'a Histogram>) -> (ArrayRef, ArrayRef) {
    let mut latency_ns = ListBuilder::new(Int64Builder::new());
    let mut latency_count = ListBuilder::new(Int64Builder::new());
    for histogram in rows {
        for (ns, count) in histogram.buckets() {
            latency_ns.values().append_value(ns as i64);
            latency_count.values().append_value(count as i64);
        }
        latency_ns.append(true);
        latency_count.append(true);
    }
    (Arc::new(latency_ns.finish()), Arc::new(latency_count.finish()))
}

fn int64(rows: &[Wait], of: impl Fn(&Wait) -> Option<i64>) -> ArrayRef {
    Arc::new(rows.iter().map(of).collect::<Int64Array>())
}

fn names(
    rows: &[Wait],
    list: &[String],
    of: impl Fn(&Wait) -> Option<NameId>,
) -> Result<ArrayRef, ArrowError> {
    dictionary(rows.iter().map(|row| of(row).map(|id| id as i32)).collect(), list)
}

/// The op column: `read`, `write`, or null for neither.
pub fn ops(rows: impl Iterator<Item = Op>) -> Result<ArrayRef, ArrowError> {
    const LIST: [&str; 2] = ["read", "write"];
    let key = |op: Op| LIST.iter().position(|name| Some(*name) == op.name()).map(|at| at as i32);
    dictionary(rows.map(key).collect(), &LIST)
}

fn dictionary<S: AsRef<str>>(keys: Int32Array, list: &[S]) -> Result<ArrayRef, ArrowError> {
    let values = Arc::new(list.iter().map(|name| Some(name.as_ref())).collect::<StringArray>());
    Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(keys, values)?))
}
