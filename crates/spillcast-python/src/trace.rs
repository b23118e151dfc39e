//! Extended SQL traces: profiles without rows, and rows in batches.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::ArrowError;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use spillcast_core::oracle::{
    Dictionary, Dimension, Options, Origin, Profile, ReadError, Reading, Rows, Sink, Statement,
    TimedCall, TimedWait, read,
};

use crate::arrow::Table;
use crate::{columns, trace_rows};

/// Reads traces; `profile` or `rows` does the work, other threads may watch and cancel.
#[pyclass(frozen, module = "spillcast._core")]
pub struct TraceReader {
    paths: Vec<PathBuf>,
    options: Options,
    bytes: Arc<AtomicU64>,
    cancelled: Arc<AtomicBool>,
}

#[pymethods]
impl TraceReader {
    #[new]
    #[pyo3(signature = (paths, *, lenient=false))]
    fn new(paths: Vec<PathBuf>, lenient: bool) -> TraceReader {
        TraceReader {
            paths,
            options: Options { lenient, ..Options::default() },
            bytes: Arc::default(),
            cancelled: Arc::default(),
        }
    }

    /// Count waits and CPU by event and call and by each dimension named: op, temp, idle, blocks,
    /// file, object, sql, session, second. Returns the groups and what was read of each file.
    ///
    /// ValueError where there are no trace lines, OSError where a file cannot be read.
    fn profile<'py>(
        &self,
        py: Python<'py>,
        by: Vec<String>,
    ) -> PyResult<(Table, Bound<'py, PyDict>)> {
        let mut dimensions = vec![Dimension::Event, Dimension::Call];
        for name in &by {
            let dimension = dimension(name)
                .ok_or_else(|| PyValueError::new_err(format!("no dimension '{name}'")))?;
            dimensions.push(dimension);
        }
        let mut sink = self.watched(Profile::new(dimensions.clone()));
        let reading =
            py.detach(|| read(&self.paths, &self.options, &mut sink)).map_err(to_python)?;
        let groups = groups(&sink.inner, &dimensions[2..], &reading.dictionary)
            .map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        Ok((Table(groups), facts(py, &reading)?))
    }

    /// Hand all rows to `take(waits, calls, statements)` in batches; returns what was read.
    fn rows<'py>(&self, py: Python<'py>, take: Py<PyAny>) -> PyResult<Bound<'py, PyDict>> {
        const BATCH_ROWS: usize = 200_000;
        let mut failure = None;
        let hand_on = |names: &Dictionary, batch| -> PyResult<()> {
            let tables = trace_rows::tables(names, &batch)
                .map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
            let [waits, calls, statements] = tables.map(Table);
            Python::attach(|py| take.call1(py, (waits, calls, statements)).map(drop))
        };
        let reading = py.detach(|| {
            let rows = Rows::new(BATCH_ROWS, |names, batch| match hand_on(names, batch) {
                Ok(()) => true,
                Err(error) => {
                    failure = Some(error);
                    false
                }
            });
            let mut sink = self.watched(rows);
            let reading = read(&self.paths, &self.options, &mut sink);
            reading.map(|reading| (sink.inner.finish(), reading))
        });
        if let Some(error) = failure {
            return Err(error);
        }
        let (last, reading) = reading.map_err(to_python)?;
        hand_on(&reading.dictionary, last)?;
        facts(py, &reading)
    }

    /// Bytes read so far.
    fn progress(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// End the reading that another thread does.
    fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }
}

impl TraceReader {
    fn watched<S: Sink>(&self, inner: S) -> Watched<S> {
        Watched { inner, bytes: self.bytes.clone(), cancelled: self.cancelled.clone() }
    }
}

/// A sink whose progress is seen from outside, and that can be told to end.
struct Watched<S> {
    inner: S,
    bytes: Arc<AtomicU64>,
    cancelled: Arc<AtomicBool>,
}

impl<S: Sink> Sink for Watched<S> {
    #[inline(always)]
    fn wait(&mut self, names: &Dictionary, origin: Origin, wait: &TimedWait) {
        self.inner.wait(names, origin, wait);
    }

    fn call(&mut self, names: &Dictionary, origin: Origin, call: &TimedCall) {
        self.inner.call(names, origin, call);
    }

    fn statement(&mut self, names: &Dictionary, origin: Origin, statement: Statement) {
        self.inner.statement(names, origin, statement);
    }

    fn progress(&mut self, names: &Dictionary, bytes: usize) -> bool {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        !self.cancelled.load(Ordering::Relaxed) && self.inner.progress(names, bytes)
    }
}

fn dimension(name: &str) -> Option<Dimension> {
    Some(match name {
        "op" => Dimension::Op,
        "temp" => Dimension::Temp,
        "idle" => Dimension::Idle,
        "blocks" => Dimension::Blocks,
        "file" => Dimension::File,
        "object" => Dimension::Object,
        "sql" => Dimension::Sql,
        "session" => Dimension::Session,
        "second" => Dimension::Second,
        _ => return None,
    })
}

fn groups(
    profile: &Profile,
    by: &[Dimension],
    names: &Dictionary,
) -> Result<RecordBatch, ArrowError> {
    let groups = profile.groups();
    let number = |of: &dyn Fn(usize) -> Option<i64>| -> ArrayRef {
        Arc::new((0..groups.len()).map(of).collect::<Int64Array>())
    };
    let text = |of: &dyn Fn(usize) -> Option<String>| -> ArrayRef {
        Arc::new((0..groups.len()).map(of).collect::<StringArray>())
    };
    let named = |list: &[String], dimension| {
        text(&|at| groups[at].0.get(dimension).map(|id| list[id as usize].clone()))
    };
    let histograms: Vec<_> = groups.iter().map(|(_, group)| group.histogram()).collect();
    let (latency_ns, latency_count) = columns::histograms(histograms.iter());
    let mut list = vec![
        ("event", named(names.events.list(), Dimension::Event)),
        ("call", text(&|at| groups[at].0.call().map(|kind| kind.name().to_owned()))),
    ];
    for &dimension in by {
        list.push(match dimension {
            Dimension::Op => ("op", columns::ops(groups.iter().map(|(key, _)| key.op()))?),
            Dimension::Sql => ("sql", named(names.sql.list(), Dimension::Sql)),
            Dimension::Session => {
                let id = |at: usize| {
                    let session = groups[at].0.get(Dimension::Session)?;
                    names.sessions[session as usize].sid
                };
                ("session", number(&id))
            }
            other => (title(other), number(&|at| groups[at].0.get(other))),
        });
    }
    list.extend([
        ("count", number(&|at| Some(groups[at].1.count as i64))),
        ("total_us", number(&|at| Some(groups[at].1.total_us))),
        ("min_us", number(&|at| Some(groups[at].1.min_us))),
        ("max_us", number(&|at| Some(groups[at].1.max_us))),
        ("max_file", number(&|at| Some(groups[at].1.max_at.file as i64))),
        ("max_line", number(&|at| Some(groups[at].1.max_at.line as i64))),
        ("latency_ns", latency_ns),
        ("latency_count", latency_count),
    ]);
    RecordBatch::try_from_iter(list)
}

fn title(dimension: Dimension) -> &'static str {
    match dimension {
        Dimension::Temp => "temp",
        Dimension::Idle => "idle",
        Dimension::Blocks => "blocks",
        Dimension::File => "file",
        Dimension::Object => "object",
        _ => "second",
    }
}

/// What was read of each file: lines, rows, damage, sessions and their times in microseconds.
fn facts<'py>(py: Python<'py>, reading: &Reading) -> PyResult<Bound<'py, PyDict>> {
    let files = PyList::empty(py);
    for file in &reading.files {
        let dict = PyDict::new(py);
        dict.set_item("lines", file.lines)?;
        dict.set_item("waits", file.waits)?;
        dict.set_item("calls", file.calls)?;
        dict.set_item("statements", file.statements)?;
        dict.set_item("damaged", file.damages.count)?;
        let first: Vec<(u64, &str)> =
            file.damages.first.iter().map(|damage| (damage.line, damage.what)).collect();
        dict.set_item("damage", first)?;
        dict.set_item("size_limit_line", file.size_limit_line)?;
        dict.set_item("waits_in_text", file.waits_in_text)?;
        let sessions = PyList::empty(py);
        for (session, times) in &file.sessions {
            let id = reading.dictionary.sessions[*session];
            let dict = PyDict::new(py);
            dict.set_item("sid", id.sid)?;
            dict.set_item("serial", id.serial)?;
            dict.set_item("elapsed_us", times.elapsed_us)?;
            dict.set_item("cpu_us", times.cpu_us)?;
            dict.set_item("wait_us", times.wait_us)?;
            dict.set_item("idle_us", times.idle_us)?;
            dict.set_item("unaccounted_us", times.unaccounted_us())?;
            dict.set_item("first_tim_us", times.first_tim_us)?;
            dict.set_item("last_tim_us", times.last_tim_us)?;
            dict.set_item("steps_back", times.steps_back)?;
            sessions.append(dict)?;
        }
        dict.set_item("sessions", sessions)?;
        files.append(dict)?;
    }
    let dict = PyDict::new(py);
    dict.set_item("files", files)?;
    Ok(dict)
}

fn to_python(error: ReadError) -> PyErr {
    match error {
        ReadError::File { path, error } => {
            let code = error.raw_os_error().unwrap_or(0);
            PyOSError::new_err((code, error.to_string(), path))
        }
        ReadError::NoTraceLines { .. } => PyValueError::new_err(error.to_string()),
        ReadError::Stopped => PyRuntimeError::new_err("the reading was ended"),
    }
}
