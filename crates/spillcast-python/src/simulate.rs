//! The simulation: rows of threads as Arrow columns in, how long they take out.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt32Type};
use arrow_array::{Array, ArrayRef, Float64Array, RecordBatch};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use spillcast_core::simulate::{Io, Memory, Row, Wait, run};
use spillcast_core::wait::Op;

use crate::arrow::{self, Table};
use crate::behaviour::Behaviour;

/// How long threads take that share `cores`, with the I/O of some rows on a storage.
///
/// `rows` has the columns thread (uint32), cpu_ns, wait_ns, after, after_cpu_ns (int64), on_core and
/// temp (bool), file, offset, bytes (int64) and write (bool). A row with `after` >= 0 waits for that
/// row of another thread, and for after_cpu_ns of that thread's work behind it; one that is temp and
/// whose bytes are above 0 waits for the storage `behaviour`, if there is one. What takes no longer
/// than `memory`, ns and ns a byte, keeps its core. ValueError for columns of another kind.
#[pyfunction]
#[pyo3(signature = (rows, cores, behaviour=None, memory=(0.0, 0.0)))]
pub fn simulate<'py>(
    py: Python<'py>,
    rows: &Bound<'py, PyAny>,
    cores: usize,
    behaviour: Option<Behaviour>,
    memory: (f64, f64),
) -> PyResult<(Bound<'py, PyDict>, Table)> {
    let rows = parse(&arrow::import(rows)?, behaviour.is_some())
        .ok_or_else(|| PyValueError::new_err("the rows lack a column, or one is out of range"))?;
    let model = behaviour.map(Behaviour::into_core).transpose()?.unwrap_or_default();
    let memory = Memory { ns: memory.0, ns_per_byte: memory.1 };
    let outcome = py.detach(|| run(&rows, cores, model, memory));
    let dict = PyDict::new(py);
    fields! { dict, outcome => elapsed_ns temp_ns temp_busy_ns forced limited_ns }
    let io_ns = Float64Array::from(outcome.io_ns);
    let columns = RecordBatch::try_from_iter([("io_ns", Arc::new(io_ns) as ArrayRef)]);
    let table = columns.map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
    Ok((dict, Table(table)))
}

fn parse(batch: &RecordBatch, on_storage: bool) -> Option<Vec<Row>> {
    let int64 = |name| batch.column_by_name(name)?.as_primitive_opt::<Int64Type>();
    let boolean = |name| batch.column_by_name(name)?.as_boolean_opt();
    let thread = batch.column_by_name("thread")?.as_primitive_opt::<UInt32Type>()?;
    let (cpu_ns, wait_ns) = (int64("cpu_ns")?, int64("wait_ns")?);
    let (after, after_cpu_ns) = (int64("after")?, int64("after_cpu_ns")?);
    let (file, offset, bytes) = (int64("file")?, int64("offset")?, int64("bytes")?);
    let (on_core, temp, write) = (boolean("on_core")?, boolean("temp")?, boolean("write")?);
    let io = |at: usize| {
        let offset =
            if offset.is_null(at) { None } else { Some(u64::try_from(offset.value(at)).ok()?) };
        let op = if write.value(at) { Op::Write } else { Op::Read };
        let (file, bytes) =
            (u32::try_from(file.value(at)).ok()?, u64::try_from(bytes.value(at)).ok()?);
        Some(Io { op, file, offset, bytes })
    };
    let row = |at: usize| {
        let wait_ns = u64::try_from(wait_ns.value(at)).ok()?;
        let wait = match usize::try_from(after.value(at)) {
            Ok(row) if row >= batch.num_rows() => return None,
            Ok(row) => Wait::Until { row, cpu_ns: u64::try_from(after_cpu_ns.value(at)).ok()? },
            Err(_) if on_storage && temp.value(at) && bytes.value(at) > 0 => Wait::Io(io(at)?),
            Err(_) if on_core.value(at) => Wait::OnCore(wait_ns),
            Err(_) => Wait::For(wait_ns),
        };
        let cpu_ns = u64::try_from(cpu_ns.value(at)).ok()?;
        Some(Row { thread: thread.value(at), cpu_ns, wait, temp: temp.value(at) })
    };
    (0..batch.num_rows()).map(row).collect()
}
