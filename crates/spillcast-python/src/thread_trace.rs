//! Recorded waits as Arrow columns in; the work of their threads, or the plan of a replay, out.

use std::sync::Arc;

use arrow_array::types::{
    ArrowPrimitiveType, Float64Type, Int8Type, Int32Type, Int64Type, UInt32Type, UInt64Type,
};
use arrow_array::{ArrayRef, BooleanArray, PrimitiveArray, RecordBatch, StringArray, UInt32Array};
use arrow_buffer::BooleanBuffer;
use arrow_schema::ArrowError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use spillcast_core::probe::{FromWaits, Step, plan_of_moves, plan_of_waits};
use spillcast_core::thread_trace::{self as core, NONE, Recorded, Row, Slices};
use spillcast_core::wait::{NameId, Op, RowNames};
use spillcast_core::work::{Burst, Run, Work};
use spillcast_recording::each_wait;

use crate::arrow::{self, Table};
use crate::error::wrong;

/// The work of a recording's threads: their trace, and sums of their waits.
///
/// `waits` has the columns of a recording's waits, sorted by start. `slices_ns` are start and end
/// of each part of the run whose waits were kept; empty if all were. `memory` is the longest time
/// of an operation in memory, s, and its bytes per second. ValueError for other columns.
#[pyfunction]
pub fn work<'py>(
    py: Python<'py>,
    waits: &Bound<'py, PyAny>,
    slices_ns: Vec<(i64, i64)>,
    elapsed_s: f64,
    memory: (f64, f64),
) -> PyResult<Bound<'py, PyDict>> {
    let batch = arrow::import(waits)?;
    let slices = Slices(&slices_ns);
    let run = Run { elapsed_s, slices, memory_s: memory.0, memory_bytes_per_s: memory.1 };
    let (trace, trace_rows, worked, names) = py
        .detach(|| {
            let mut names = RowNames::default();
            let mut waits = Vec::with_capacity(batch.num_rows());
            let mut work = Work::new(run);
            each_wait(&batch, &mut names, |wait, names| {
                waits.push(Recorded::from(wait));
                work.push(wait, names);
            })?;
            let trace = core::thread_trace(&waits, &names.events, slices);
            let rows = trace_columns(&trace.rows, &waits, names.files.list().len())?;
            Ok::<_, ArrowError>((trace.cpu_known, Table(rows), work.finish(), names))
        })
        .map_err(wrong)?;
    let dict = PyDict::new(py);
    dict.set_item("cpu_known", trace)?;
    dict.set_item("trace", trace_rows)?;
    fields! { dict, worked => threads in_flight blocked_share woken owner }
    let sequential = worked.sequential.iter().map(|(&(op, size_class_bytes), sums)| {
        (op.name(), size_class_bytes, sums.following as f64 / sums.operations as f64)
    });
    dict.set_item("sequential", sequential.collect::<Vec<_>>())?;
    let event = |id: NameId| &names.events.list()[id as usize][..];
    let changes = worked.changes.iter().map(|(&id, sums)| (event(id), sums.calls, sums.total_ns));
    dict.set_item("changes", changes.collect::<Vec<_>>())?;
    let bursts = worked.bursts.as_deref().map(burst_columns).transpose().map_err(wrong)?;
    dict.set_item("bursts", bursts.map(Table))?;
    let reads = PyDict::new(py);
    let worked = &worked.reads;
    fields! { reads, worked => total_ns cold cold_bytes cold_elapsed_s threads_at_once }
    dict.set_item("data_reads", reads)?;
    Ok(dict)
}

/// The temp I/O of a recording as steps of a probe, and whether they are a closed loop, in which
/// threads work and wait for each other as recorded.
///
/// `waits` and `slices_ns` are those of `work`. With `moves_only` a step is a read or write after
/// the pause since its thread's previous one.
#[pyfunction]
#[pyo3(signature = (waits, slices_ns, *, moves_only=false))]
pub fn replay_plan(
    py: Python<'_>,
    waits: &Bound<'_, PyAny>,
    slices_ns: Vec<(i64, i64)>,
    moves_only: bool,
) -> PyResult<(Table, bool)> {
    let batch = arrow::import(waits)?;
    py.detach(|| {
        let (mut names, mut waits) = (RowNames::default(), Vec::new());
        each_wait(&batch, &mut names, |wait, _| waits.push(Recorded::from(wait)))?;
        let FromWaits { steps, closed_loop } = if moves_only {
            FromWaits { steps: plan_of_moves(waits, &names.events), closed_loop: false }
        } else {
            plan_of_waits(waits, &names.events, Slices(&slices_ns))
        };
        Ok::<_, ArrowError>((Table(step_columns(&steps)?), closed_loop))
    })
    .map_err(wrong)
}

fn burst_columns(bursts: &[Burst]) -> Result<RecordBatch, ArrowError> {
    let floats = |of: fn(&Burst) -> f64| numbers::<Float64Type, _>(bursts, of);
    let int64 = |of: fn(&Burst) -> i64| numbers::<Int64Type, _>(bursts, of);
    let ops = |of: fn(&Burst) -> Op| {
        numbers::<Int8Type, _>(bursts, |burst| i8::from(of(burst) == Op::Write))
    };
    RecordBatch::try_from_iter([
        ("end_s", floats(|burst| burst.start_ns as f64 / 1e9 + burst.wait_ns as f64 / 1e9)),
        ("wait_s", floats(|burst| burst.wait_ns as f64 / 1e9)),
        ("bytes", int64(|burst| burst.bytes)),
        ("op", ops(|burst| burst.op)),
        ("next_op", ops(|burst| burst.next_op)),
        ("session", int64(|burst| burst.session)),
        ("cpu_s", floats(|burst| burst.cpu_ns as f64 / 1e9)),
    ])
}

/// Files are numbered by first appearance, and an additional number stands for no file. File,
/// offset and bytes are 0 for operations on files that are not temp.
fn trace_columns(
    rows: &[Row],
    waits: &[Recorded],
    file_names: usize,
) -> Result<RecordBatch, ArrowError> {
    let wait = |row: &Row| waits.get(row.source as usize);
    let temp = |row: &Row| wait(row).filter(|wait| wait.temp);
    let (mut numbers, mut count) = (vec![NONE; file_names], 0);
    for wait in rows.iter().filter_map(temp) {
        if let Some(number @ &mut NONE) = numbers.get_mut(wait.file as usize) {
            *number = count;
            count += 1;
        }
    }
    let number = |wait: &Recorded| numbers.get(wait.file as usize).copied().unwrap_or(count);
    RecordBatch::try_from_iter([
        ("thread", int32(rows, |row| row.thread)),
        ("start_ns", int64(rows, |row| row.start_ns)),
        ("cpu_ns", int64(rows, |row| row.cpu_ns)),
        ("ready_ns", int64(rows, |row| row.ready_ns)),
        ("wait_ns", int64(rows, |row| row.end_ns - row.start_ns)),
        ("on_core", flags(rows, |row| row.on_core)),
        ("after", int32(rows, |row| row.after)),
        ("after_cpu_ns", int64(rows, |row| row.after_cpu_ns)),
        ("temp", flags(rows, |row| temp(row).is_some())),
        ("change", flags(rows, |row| temp(row).is_some_and(Recorded::changes))),
        ("io", flags(rows, |row| !row.blocked_outside && row.source != NONE)),
        ("source", int32(rows, |row| row.source)),
        ("file", int32(rows, |row| temp(row).map_or(0, number))),
        (
            "offset",
            int64(rows, |row| temp(row).map_or(0, |w| w.offset().map_or(-1, |at| at as i64))),
        ),
        ("bytes", int64(rows, |row| temp(row).map_or(0, |wait| i64::from(wait.bytes)))),
        ("write", flags(rows, |row| temp(row).is_some_and(|wait| wait.op == Op::Write))),
    ])
}

fn numbers<N: ArrowPrimitiveType, T>(rows: &[T], of: impl Fn(&T) -> N::Native) -> ArrayRef {
    Arc::new(PrimitiveArray::<N>::from_iter_values(rows.iter().map(of)))
}

fn int64(rows: &[Row], of: impl Fn(&Row) -> i64) -> ArrayRef {
    numbers::<Int64Type, _>(rows, of)
}

/// NONE becomes -1.
fn int32(rows: &[Row], of: impl Fn(&Row) -> u32) -> ArrayRef {
    numbers::<Int32Type, _>(rows, |row| of(row) as i32)
}

fn flags(rows: &[Row], of: impl Fn(&Row) -> bool) -> ArrayRef {
    Arc::new(BooleanArray::from(BooleanBuffer::collect_bool(rows.len(), |at| of(&rows[at]))))
}

fn step_columns(steps: &[Step]) -> Result<RecordBatch, ArrowError> {
    let uint32 = |of: fn(&Step) -> u32| numbers::<UInt32Type, _>(steps, of);
    let uint64 = |of: fn(&Step) -> u64| numbers::<UInt64Type, _>(steps, of);
    let write = |step: &Step| (step.op != Op::Null).then_some(step.op == Op::Write);
    let change = |step: &Step| step.change.map(|kind| kind.name());
    RecordBatch::try_from_iter_with_nullable([
        ("thread", uint32(|step| step.thread), false),
        ("file", uint32(|step| step.file), false),
        ("write", Arc::new(steps.iter().map(write).collect::<BooleanArray>()) as ArrayRef, true),
        ("offset", uint64(|step| step.offset), false),
        ("bytes", uint32(|step| step.bytes), false),
        ("delay_ns", uint64(|step| step.delay_ns), false),
        ("cpu_ns", uint64(|step| step.cpu_ns), false),
        ("after", Arc::new(steps.iter().map(|step| step.after).collect::<UInt32Array>()), true),
        ("after_cpu_ns", uint64(|step| step.after_cpu_ns), false),
        ("change", Arc::new(steps.iter().map(change).collect::<StringArray>()), true),
    ])
}
