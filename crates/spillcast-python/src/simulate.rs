//! The simulation: rows of threads as Arrow columns in, their time out.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{ArrayRef, BooleanArray, Float64Array, RecordBatch};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use spillcast_core::simulate::{Cpus, Io, Memory, PageCacheLimits, Quota, Row, Rows, Wait, run};
use spillcast_core::wait::Op;

use crate::arrow::{self, Table};
use crate::behaviour::Behaviour;
use crate::error::broken;

/// Simulate the time of threads that share `cores`, with the I/O of some rows on a storage.
///
/// `rows` has the columns thread (int32, from 0), cpu_ns, wait_ns (int64), after (int32),
/// after_cpu_ns (int64), on_core and temp (bool), file (int32, from 0), offset (negative if
/// unknown), bytes (int64) and write (bool). A row with `after` >= 0 waits for that row of another
/// thread, and then for after_cpu_ns of that thread's work; a row that is temp and whose bytes are
/// above 0 waits for the storage `behaviour`, if given. A wait that takes no longer than `memory`,
/// ns and ns per byte, keeps its core. `page_cache` is its size and its dirty limit, in bytes: a
/// row takes cached_ns (int64) if memory serves it, and a read with a missing_bytes (int64) of 0 or
/// more reads that many from the storage. `quota` is the CPU time of all threads in each period,
/// and the length of a period, ns; call_ns (int64), CPU time of a wait off the core, counts towards
/// it.
///
/// Returns elapsed_ns; temp_ns, the sum of the temp waits; temp_busy_ns, the time with at least one
/// in progress; forced, the number of waits that nothing would have ended; limited_ns, the time
/// operations waited for each limit, and served_ns, their own cost there; queued_ns, the time they
/// waited for a server; latency_ns; throttled_ns, the time threads waited for the next period. And,
/// by row, the columns io_ns, its time, and storage_ns, the storage's part of it.
///
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
    let batch = arrow::import(rows)?;
    let rows = Columns::of(&batch, behaviour.is_some())?;
    if !rows.in_range() {
        return Err(PyValueError::new_err("a number of the rows is out of range"));
    }
    let model = behaviour.map(Behaviour::into_core).transpose()?.unwrap_or_default();
    let memory = Memory { ns: memory.0, ns_per_byte: memory.1 };
    let limits = page_cache.map(|(bytes, dirty_bytes)| PageCacheLimits { bytes, dirty_bytes });
    let quota = quota.map(|(quota_ns, period_ns)| Quota { quota_ns, period_ns });
    let cpus = Cpus { cores, quota };
    let outcome = py.detach(|| run(&rows, cpus, model, memory, limits));
    let dict = PyDict::new(py);
    fields! { dict, outcome => elapsed_ns temp_ns temp_busy_ns forced throttled_ns }
    let waits = &outcome.waits;
    fields! { dict, waits => limited_ns served_ns queued_ns latency_ns }
    let column = |values| Arc::new(Float64Array::from(values)) as ArrayRef;
    let io_ns = column(outcome.io_ns);
    let storage_ns = if page_cache.is_some() { column(outcome.storage_ns) } else { io_ns.clone() };
    let columns = [("io_ns", io_ns), ("storage_ns", storage_ns)];
    Ok((dict, Table(RecordBatch::try_from_iter(columns).map_err(broken)?)))
}

/// Columns of rows, each of which is built only when it is needed.
struct Columns<'a> {
    on_storage: bool,
    thread: &'a [i32],
    cpu_ns: &'a [i64],
    wait_ns: &'a [i64],
    after: &'a [i32],
    after_cpu_ns: &'a [i64],
    file: &'a [i32],
    offset: &'a [i64],
    bytes: &'a [i64],
    cached_ns: Option<&'a [i64]>,
    missing_bytes: Option<&'a [i64]>,
    call_ns: Option<&'a [i64]>,
    on_core: &'a BooleanArray,
    temp: &'a BooleanArray,
    write: &'a BooleanArray,
}

impl<'a> Columns<'a> {
    fn of(batch: &'a RecordBatch, on_storage: bool) -> PyResult<Columns<'a>> {
        let int32 = |name| arrow::numbers::<Int32Type>(batch, name);
        let int64 = |name| arrow::numbers::<Int64Type>(batch, name);
        let optional = |name| batch.column_by_name(name).map(|_| int64(name)).transpose();
        let boolean = |name| arrow::column(batch, name, |column| column.as_boolean_opt());
        Ok(Columns {
            on_storage,
            thread: int32("thread")?,
            cpu_ns: int64("cpu_ns")?,
            wait_ns: int64("wait_ns")?,
            after: int32("after")?,
            after_cpu_ns: int64("after_cpu_ns")?,
            file: int32("file")?,
            offset: int64("offset")?,
            bytes: int64("bytes")?,
            cached_ns: optional("cached_ns")?,
            missing_bytes: optional("missing_bytes")?,
            call_ns: optional("call_ns")?,
            on_core: boolean("on_core")?,
            temp: boolean("temp")?,
            write: boolean("write")?,
        })
    }

    /// Whether no time, size or file is negative, and rows wait only for existing rows.
    fn in_range(&self) -> bool {
        let times = [self.cpu_ns, self.wait_ns, self.after_cpu_ns, self.bytes];
        let optional = [self.cached_ns, self.call_ns].into_iter().flatten();
        times.into_iter().chain(optional).flatten().all(|&value| value >= 0)
            && self.thread.iter().chain(self.file).all(|&number| number >= 0)
            && self.after.iter().all(|&row| row < self.thread.len() as i32)
    }
}

impl Rows for Columns<'_> {
    fn count(&self) -> usize {
        self.thread.len()
    }

    fn row(&self, at: usize) -> Row {
        let temp = self.temp.value(at);
        let wait = if let Ok(row) = usize::try_from(self.after[at]) {
            Wait::Until { row, cpu_ns: self.after_cpu_ns[at] as u64 }
        } else if self.on_storage && temp && self.bytes[at] > 0 {
            Wait::Io(Io {
                op: if self.write.value(at) { Op::Write } else { Op::Read },
                file: self.file[at] as u32,
                offset: u64::try_from(self.offset[at]).ok(),
                bytes: self.bytes[at] as u64,
                cached_ns: self.cached_ns.map_or(0, |ns| ns[at] as u64),
                missing_bytes: self.missing_bytes.and_then(|bytes| bytes[at].try_into().ok()),
            })
        } else if self.on_core.value(at) {
            Wait::OnCore(self.wait_ns[at] as u64)
        } else {
            Wait::For(self.wait_ns[at] as u64)
        };
        let call_ns = self.call_ns.map_or(0, |ns| ns[at] as u64);
        Row { thread: self.thread[at] as u32, cpu_ns: self.cpu_ns[at] as u64, wait, call_ns, temp }
    }
}
