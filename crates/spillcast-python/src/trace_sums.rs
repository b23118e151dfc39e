//! Sums over waits of traces -> Arrow columns.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Decimal128Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::ArrowError;
use spillcast_core::oracle::{Column, Dictionary, Number, Sum, SumGroups, Summed, Text};
use spillcast_core::wait::Op;

use crate::trace_rows::coded;

/// A row for each group: its keys as in the table of waits, `all count`, and `NAME count`, `NAME
/// sum`, `NAME least` and `NAME most` of each number.
pub fn table(
    names: &Dictionary,
    groups: &SumGroups,
    of: &Summed,
) -> Result<RecordBatch, ArrowError> {
    let mut columns = Vec::new();
    for (at, (name, column)) in of.keys().iter().enumerate() {
        columns.push((name.clone(), key(names, *column, groups.key(at))?, true));
    }
    let counts = Arc::new(Int64Array::from(groups.waits().to_vec()));
    columns.push(("all count".to_owned(), counts as ArrayRef, true));
    let numbers = of.numbers().count();
    for (at, name) in of.numbers().enumerate() {
        let sums = || groups.sums(at, numbers);
        let some = |value: fn(Sum) -> i64| {
            let values = sums().map(|sum| (sum.count > 0).then(|| value(sum)));
            Arc::new(values.collect::<Int64Array>()) as ArrayRef
        };
        let total = sums().map(|sum| (sum.count > 0).then_some(sum.sum));
        let total = total.collect::<Decimal128Array>().with_precision_and_scale(38, 0)?;
        let count = Arc::new(sums().map(|sum| Some(sum.count)).collect::<Int64Array>());
        columns.push((format!("{name} count"), count, true));
        columns.push((format!("{name} sum"), Arc::new(total), true));
        columns.push((format!("{name} least"), some(|sum| sum.least), true));
        columns.push((format!("{name} most"), some(|sum| sum.most), true));
    }
    RecordBatch::try_from_iter_with_nullable(columns)
}

/// Values as they stand in the table of waits.
fn key(
    names: &Dictionary,
    column: Column,
    values: impl Iterator<Item = Option<i64>>,
) -> Result<ArrayRef, ArrowError> {
    let code = |value: Option<i64>| value.map(|code| code as i32);
    let op = |value| match value {
        Some(op) if op == Op::Read as i64 => Op::Read,
        Some(_) => Op::Write,
        None => Op::Null,
    };
    Ok(match column {
        Column::Text(Text::Event) => coded(names.events.list(), values.map(code)),
        Column::Text(Text::Sql) => coded(names.sql.list(), values.map(code)),
        Column::Text(Text::Op) => spillcast_recording::ops(values.map(op))?,
        Column::Flag(_) => {
            Arc::new(values.map(|value| value.map(|is| is == 1)).collect::<BooleanArray>())
        }
        Column::Number(Number::File) => {
            let texts = values.map(|value| value.map(|number| number.to_string()));
            Arc::new(texts.collect::<StringArray>())
        }
        Column::Number(_) => Arc::new(values.collect::<Int64Array>()),
    })
}
