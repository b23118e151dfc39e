//! The simulation: rows of threads as Arrow columns in, how long they take out.

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt32Type};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use spillcast_core::simulate::{Row, Wait, run};

use crate::arrow;

/// How long threads take that share `cores`.
///
/// `rows` has the columns thread (uint32), cpu_ns, wait_ns, after, after_cpu_ns (int64), on_core and
/// temp (bool). A row with `after` >= 0 waits for that row of another thread, and for after_cpu_ns of
/// that thread's work behind it. ValueError for columns of another kind.
#[pyfunction]
pub fn simulate<'py>(
    py: Python<'py>,
    rows: &Bound<'py, PyAny>,
    cores: usize,
) -> PyResult<Bound<'py, PyDict>> {
    let rows = parse(&arrow::import(rows)?)
        .ok_or_else(|| PyValueError::new_err("the rows lack a column, or one is out of range"))?;
    let outcome = py.detach(|| run(&rows, cores));
    let dict = PyDict::new(py);
    fields! { dict, outcome => elapsed_ns temp_ns temp_busy_ns forced }
    Ok(dict)
}

fn parse(batch: &RecordBatch) -> Option<Vec<Row>> {
    let int64 = |name| batch.column_by_name(name)?.as_primitive_opt::<Int64Type>();
    let thread = batch.column_by_name("thread")?.as_primitive_opt::<UInt32Type>()?;
    let (cpu_ns, wait_ns) = (int64("cpu_ns")?, int64("wait_ns")?);
    let (after, after_cpu_ns) = (int64("after")?, int64("after_cpu_ns")?);
    let on_core = batch.column_by_name("on_core")?.as_boolean_opt()?;
    let temp = batch.column_by_name("temp")?.as_boolean_opt()?;
    let row = |at: usize| {
        let wait_ns = u64::try_from(wait_ns.value(at)).ok()?;
        let wait = match usize::try_from(after.value(at)) {
            Ok(row) if row >= batch.num_rows() => return None,
            Ok(row) => Wait::Until { row, cpu_ns: u64::try_from(after_cpu_ns.value(at)).ok()? },
            Err(_) if on_core.value(at) => Wait::OnCore(wait_ns),
            Err(_) => Wait::For(wait_ns),
        };
        let cpu_ns = u64::try_from(cpu_ns.value(at)).ok()?;
        Some(Row { thread: thread.value(at), cpu_ns, wait, temp: temp.value(at) })
    };
    (0..batch.num_rows()).map(row).collect()
}
