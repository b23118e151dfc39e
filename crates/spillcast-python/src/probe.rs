//! The probe: a plan of I/O as Arrow columns in, or only a directory; measured groups out.

use std::path::PathBuf;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::{UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use pyo3::prelude::*;
use serde_json::json;
use spillcast_core::capture::CallKind;
use spillcast_core::probe::{self as core, Options, Step, grid};
use spillcast_core::wait::Op;
use spillcast_recording::Measured;
use spillcast_recording::limits::bound_bytes;

use crate::arrow;
use crate::error::{os_error, probe_error, wrong};

/// A replay of recorded temp I/O on a directory.
#[pyclass(frozen, module = "spillcast._core")]
pub struct Probe(core::Probe);

#[pymethods]
impl Probe {
    /// `plan` has the columns thread, file, bytes (uint32), write (bool, null for a wait), offset
    /// and delay_ns (uint64), and, if the work of threads is known, cpu_ns, after_cpu_ns (uint64)
    /// and after (uint32, null for none), which is a row of another thread. `change` in a row is
    /// the name of a call that changes the file; the row then neither reads nor writes.
    ///
    /// Work and pauses are kept. The I/O goes through the page cache, or bypasses it with `direct`
    /// if possible. ValueError for a plan or directory that is unusable or too small.
    #[new]
    #[pyo3(signature = (plan, dir, *, budget_s, budget_bytes=None, direct=false))]
    fn new(
        plan: &Bound<'_, PyAny>,
        dir: PathBuf,
        budget_s: f64,
        budget_bytes: Option<u64>,
        direct: bool,
    ) -> PyResult<Probe> {
        let steps = steps(&arrow::import(plan)?)?;
        let options = Options { dir, budget: duration(budget_s)?, budget_bytes, direct };
        Ok(Probe(core::Probe::new(steps, options).map_err(probe_error)?))
    }

    /// Memory used by a run, in bytes.
    #[getter]
    fn memory_bytes(&self) -> u64 {
        self.0.memory_bytes()
    }

    /// Replay; blocks while other Python threads continue. Returns `groups`, `changes` and `facts`
    /// of storage.json.
    fn run(&self, py: Python<'_>) -> PyResult<String> {
        let outcome = py.detach(|| self.0.run()).map_err(probe_error)?;
        Ok(json!(Measured::from(&outcome)).to_string())
    }

    /// The limit of a run's page cache if the engine had `engine_bytes`; None if it needs no limit.
    fn page_cache_bound(&self, engine_bytes: Option<u64>) -> Option<u64> {
        bound_bytes(engine_bytes, &self.0)
    }

    /// Steps done or skipped, total steps, bytes so far.
    fn progress(&self) -> (u64, u64, u64) {
        let progress = self.0.progress();
        (progress.steps_done, progress.steps_total, progress.bytes)
    }

    /// Cancel a replay that runs in another thread.
    fn cancel(&self) {
        self.0.cancel();
    }
}

/// A grid of op, size, depth, pattern and access, measured on a directory.
#[pyclass(frozen, module = "spillcast._core")]
pub struct Grid(grid::Grid);

#[pymethods]
impl Grid {
    /// `psync` excludes io_uring. ValueError for a directory that is unusable or too small.
    #[new]
    #[pyo3(signature = (dir, *, budget_s, budget_bytes=None, psync=false))]
    fn new(dir: PathBuf, budget_s: f64, budget_bytes: Option<u64>, psync: bool) -> PyResult<Grid> {
        let budget = duration(budget_s)?;
        let options = grid::Options { dir, budget, budget_bytes, psync };
        Ok(Grid(grid::Grid::new(options).map_err(probe_error)?))
    }

    /// Measure; blocks while other Python threads continue. Returns the same as `Probe.run`.
    fn run(&self, py: Python<'_>) -> PyResult<String> {
        let outcome = py.detach(|| self.0.run()).map_err(probe_error)?;
        Ok(json!(Measured::from(&outcome)).to_string())
    }

    /// Milliseconds elapsed, total milliseconds, bytes so far.
    fn progress(&self) -> (u64, u64, u64) {
        let progress = self.0.progress();
        (progress.steps_done, progress.steps_total, progress.bytes)
    }

    /// Cancel a run in another thread.
    fn cancel(&self) {
        self.0.cancel();
    }
}

/// The steps of a plan. ValueError for an invalid plan.
fn steps(plan: &RecordBatch) -> PyResult<Vec<Step>> {
    let uint32 = |name| arrow::column(plan, name, |column| column.as_primitive_opt::<UInt32Type>());
    let uint64 = |name| arrow::column(plan, name, |column| column.as_primitive_opt::<UInt64Type>());
    let has = |name| plan.column_by_name(name).is_some();
    let (thread, file, bytes) = (uint32("thread")?, uint32("file")?, uint32("bytes")?);
    let (offset, delay) = (uint64("offset")?, uint64("delay_ns")?);
    let write = arrow::column(plan, "write", |column| column.as_boolean_opt())?;
    let cpu = has("cpu_ns").then(|| uint64("cpu_ns")).transpose()?;
    let after_cpu = has("after_cpu_ns").then(|| uint64("after_cpu_ns")).transpose()?;
    let after = has("after").then(|| uint32("after")).transpose()?;
    let kinds = |column: &ArrayRef| -> Option<Vec<Option<CallKind>>> {
        let known =
            |name: Option<&str>| name.map_or(Some(None), |name| CallKind::named(name).map(Some));
        column.as_string_opt::<i32>()?.iter().map(known).collect()
    };
    let changes = has("change").then(|| arrow::column(plan, "change", kinds)).transpose()?;
    let step = |row: usize| Step {
        thread: thread.value(row),
        op: match write.is_valid(row).then(|| write.value(row)) {
            Some(true) => Op::Write,
            Some(false) => Op::Read,
            None => Op::Null,
        },
        change: changes.as_ref().and_then(|changes| changes[row]),
        file: file.value(row),
        offset: offset.value(row),
        bytes: bytes.value(row),
        cpu_ns: cpu.map_or(0, |ns| ns.value(row)),
        after: after.filter(|after| after.is_valid(row)).map(|after| after.value(row)),
        after_cpu_ns: after_cpu.map_or(0, |ns| ns.value(row)),
        delay_ns: delay.value(row),
    };
    Ok((0..plan.num_rows()).map(step).collect())
}

fn duration(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(wrong)
}

/// The prefix of the names of files created by probes of this process.
#[pyfunction]
pub fn scratch_prefix() -> PyResult<&'static str> {
    core::scratch_prefix().map_err(os_error)
}
