//! The simulation: rows of threads as Arrow columns in, how long they take out.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt32Type};
use arrow_array::{Array, ArrayRef, Float64Array, RecordBatch};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use spillcast_core::simulate::{Cpus, Io, Memory, PageCacheRoom, Quota, Row, Wait, run};
use spillcast_core::wait::Op;

use crate::arrow::{self, Table};
use crate::behaviour::Behaviour;

/// How long threads take that share `cores`, with the I/O of some rows on a storage.
///
/// `rows` has the columns thread (uint32), cpu_ns, wait_ns, after, after_cpu_ns (int64), on_core and
/// temp (bool), file, offset, bytes (int64) and write (bool). A row with `after` >= 0 waits for that
/// row of another thread, and for after_cpu_ns of that thread's work behind it; one that is temp and
/// whose bytes are above 0 waits for the storage `behaviour`, if there is one. What takes no longer
/// than `memory`, ns and ns a byte, keeps its core. With `page_cache`, the bytes that it may hold
/// and how many of them may be dirty, a row takes cached_ns (int64) where memory answers it. `quota`
/// is the CPU time, ns, that the threads may have of each period, and the length of one; call_ns
/// (int64) of a wait off the core is of that, too.
/// ValueError for columns of another kind.
#[pyfunction]
#[pyo3(signature = (rows, cores, behaviour=None, memory=(0.0, 0.0), page_cache=None, quota=None))]
pub fn simulate<'py>(
    py: Python<'py>,
    rows: &Bound<'py, PyAny>,
    cores: usize,
    behaviour: Option<Behaviour>,
    memory: (f64, f64),
    page_cache: Option<(u64, u64)>,
    quota: Option<(u64, u64)>,
) -> PyResult<(Bound<'py, PyDict>, Table)> {
    let rows = parse(&arrow::import(rows)?, behaviour.is_some())
        .ok_or_else(|| PyValueError::new_err("the rows lack a column, or one is out of range"))?;
    let model = behaviour.map(Behaviour::into_core).transpose()?.unwrap_or_default();
    let memory = Memory { ns: memory.0, ns_per_byte: memory.1 };
    let room = page_cache.map(|(bytes, dirty_bytes)| PageCacheRoom { bytes, dirty_bytes });
    let quota = quota.map(|(quota_ns, period_ns)| Quota { quota_ns, period_ns });
    let cpus = Cpus { cores, quota };
    let outcome = py.detach(|| run(&rows, cpus, model, memory, room));
    let dict = PyDict::new(py);
    fields! { dict, outcome => elapsed_ns temp_ns temp_busy_ns forced limited_ns throttled_ns }
    let column = |values| Arc::new(Float64Array::from(values)) as ArrayRef;
    let columns = RecordBatch::try_from_iter([
        ("io_ns", column(outcome.io_ns)),
        ("storage_ns", column(outcome.storage_ns)),
    ]);
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
    let (cached_ns, call_ns) = (int64("cached_ns"), int64("call_ns"));
    let (on_core, temp, write) = (boolean("on_core")?, boolean("temp")?, boolean("write")?);
    let io = |at: usize| {
        let offset =
            if offset.is_null(at) { None } else { Some(u64::try_from(offset.value(at)).ok()?) };
        let op = if write.value(at) { Op::Write } else { Op::Read };
        let (file, bytes) =
            (u32::try_from(file.value(at)).ok()?, u64::try_from(bytes.value(at)).ok()?);
        let cached_ns = cached_ns.map_or(Some(0), |ns| u64::try_from(ns.value(at)).ok())?;
        Some(Io { op, file, offset, bytes, cached_ns })
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
        let call_ns = call_ns.map_or(Some(0), |ns| u64::try_from(ns.value(at)).ok())?;
        Some(Row { thread: thread.value(at), cpu_ns, wait, call_ns, temp: temp.value(at) })
    };
    (0..batch.num_rows()).map(row).collect()
}
