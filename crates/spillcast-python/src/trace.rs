//! Extended SQL traces: profiles without rows, and rows in batches.

use std::path::PathBuf;

use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};
use spillcast_core::oracle::{
    Batch, Dictionary, Dimension, Options, Profile, ReadError, Reading, Rows, Tables, Window, read,
};
use spillcast_core::wait::Op;

use crate::arrow::Table;
use crate::error::broken;
use crate::trace_rows::{self, Wanted};

/// Reads traces; `profile` or `rows` does the work, other threads may watch and cancel it.
#[pyclass(frozen, module = "spillcast._core")]
pub struct TraceReader {
    paths: Vec<PathBuf>,
    options: Options,
}

#[pymethods]
impl TraceReader {
    #[new]
    #[pyo3(signature = (paths, *, lenient=false, windows_us=Vec::new()))]
    fn new(paths: Vec<PathBuf>, lenient: bool, windows_us: Vec<(i64, i64)>) -> TraceReader {
        let window = |(first_us, last_us)| Window { first_us, last_us };
        let windows = windows_us.into_iter().map(window).collect();
        TraceReader {
            paths,
            options: Options { lenient, pasted: true, windows, ..Options::default() },
        }
    }

    /// Count waits and CPU by each dimension in `by`: event (calls: their kind), op, temp, idle,
    /// blocks, file, object, sql, session, second, minute, bytes, cursor, p1, p2, p3; without
    /// `calls`, waits only. Returns the groups, with sums of blocks if a dimension is a figure of
    /// waits, with `quantiles` in microseconds by name, and a summary of each file.
    ///
    /// ValueError if there are no trace lines, OSError if a file cannot be read.
    #[pyo3(signature = (by, *, calls=true, quantiles=Vec::new()))]
    fn profile<'py>(
        &self,
        py: Python<'py>,
        by: Vec<String>,
        calls: bool,
        quantiles: Vec<(String, f64)>,
    ) -> PyResult<(Bound<'py, PyList>, Bound<'py, PyDict>)> {
        let known = |name: &String| Dimension::NAMED.into_iter().find(|(known, _)| known == name);
        let unknown = |name| PyValueError::new_err(format!("no dimension '{name}'"));
        let by: Vec<_> = by
            .iter()
            .map(|name| known(name).ok_or_else(|| unknown(name)))
            .collect::<PyResult<_>>()?;
        let mut dimensions: Vec<_> = by.iter().map(|&(_, dimension)| dimension).collect();
        if dimensions.contains(&Dimension::Event) {
            dimensions.push(Dimension::Call);
        }
        let new = if calls { Profile::new } else { Profile::of_waits };
        let mut profile = new(dimensions);
        let reading =
            py.detach(|| read(&self.paths, &self.options, &mut profile)).map_err(to_python)?;
        let groups = groups(py, &profile, &by, &quantiles, &reading.dictionary)?;
        Ok((groups, facts(py, &reading)?))
    }

    /// The tables that `rows` passes on when columns are given, without rows.
    #[staticmethod]
    fn no_rows() -> PyResult<[Table; 5]> {
        let wanted = Wanted(Some(Vec::new()));
        let tables = trace_rows::tables(&Dictionary::default(), &Batch::default(), &wanted);
        Ok(tables.map_err(broken)?.map(Table))
    }

    /// Pass all rows to `take(waits, calls, statements, row_sources, binds)` in batches; returns a
    /// summary. `columns` are pairs of table and column; other tables have no rows, other columns
    /// are null.
    #[pyo3(signature = (take, *, columns=None))]
    fn rows<'py>(
        &self,
        py: Python<'py>,
        take: Py<PyAny>,
        columns: Option<Vec<(String, String)>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let batch_rows = if columns.is_some() { 16_000 } else { 200_000 };
        let wanted = Wanted(columns);
        let kinds = Tables {
            waits: wanted.table("waits"),
            calls: wanted.table("calls"),
            statements: wanted.table("statements"),
            row_sources: wanted.table("row_sources"),
            binds: wanted.table("binds"),
            figures: wanted.figures(),
        };
        let mut failure = None;
        let hand_on = |names: &Dictionary, batch| -> PyResult<()> {
            let tables = trace_rows::tables(names, &batch, &wanted).map_err(broken)?;
            Python::attach(|py| {
                take.call1(py, <(_, _, _, _, _)>::from(tables.map(Table))).map(drop)
            })
        };
        let options = Options { binds: kinds.binds, ..self.options.clone() };
        let reading = py.detach(|| {
            let mut rows =
                Rows::new(batch_rows, kinds, |names, batch| match hand_on(names, batch) {
                    Ok(()) => true,
                    Err(error) => {
                        failure = Some(error);
                        false
                    }
                });
            let reading = read(&self.paths, &options, &mut rows);
            reading.map(|reading| (rows.finish(), reading))
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
        self.options.watch.bytes()
    }

    /// Cancel the reading of another thread.
    fn cancel(&self) {
        self.options.watch.cancel();
    }
}

/// One dict per group, so that Python need not load Arrow. There may be one per second, so names
/// are shared objects, and numbers take few bytes.
fn groups<'py>(
    py: Python<'py>,
    profile: &Profile,
    by: &[(&str, Dimension)],
    quantiles: &[(String, f64)],
    names: &Dictionary,
) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    let array = py.import("array")?.getattr("array")?;
    let by: Vec<_> =
        by.iter().map(|&(title, dimension)| (PyString::intern(py, title), dimension)).collect();
    let quantiles: Vec<_> =
        quantiles.iter().map(|(title, share)| (PyString::intern(py, title), *share)).collect();
    for (key, group) in profile.groups() {
        let dict = PyDict::new(py);
        let named = |list: &[String], dimension| {
            key.get(dimension).map(|id| PyString::intern(py, &list[id as usize]))
        };
        let op = |op: Op| op.name().map(|name| PyString::intern(py, name));
        dict.set_item(intern!(py, "op"), op(group.op))?;
        fields! { dict, group => idle waits count total_us min_us max_us blocks_count }
        dict.set_item(intern!(py, "blocks_sum"), group.blocks)?;
        for (title, dimension) in &by {
            match *dimension {
                Dimension::Event => {
                    dict.set_item(title, named(names.events.list(), *dimension))?;
                    let call = key.call().map(|kind| PyString::intern(py, kind.name()));
                    dict.set_item(intern!(py, "call"), call)?;
                }
                Dimension::Op => dict.set_item(title, op(key.op()))?,
                Dimension::Temp | Dimension::Idle => {
                    dict.set_item(title, key.get(*dimension) == Some(1))?;
                }
                Dimension::Sql => dict.set_item(title, named(names.sql.list(), *dimension))?,
                other => dict.set_item(title, key.get(other))?,
            }
        }
        let buckets = group.buckets();
        for (title, share) in &quantiles {
            dict.set_item(title, group.quantile_us(&buckets, *share))?;
        }
        let (middles, counts): (Vec<u64>, Vec<u64>) = buckets.into_iter().unzip();
        dict.set_item(intern!(py, "max_file"), group.max_at.file)?;
        dict.set_item(intern!(py, "max_line"), group.max_at.line)?;
        dict.set_item(intern!(py, "latency_ns"), packed(&array, &middles)?)?;
        dict.set_item(intern!(py, "latency_count"), packed(&array, &counts)?)?;
        list.append(dict)?;
    }
    Ok(list)
}

/// An array of type `array` with the smallest integers that hold `values`.
fn packed<'py>(array: &Bound<'py, PyAny>, values: &[u64]) -> PyResult<Bound<'py, PyAny>> {
    let (code, bytes) = match values.iter().max().copied().unwrap_or(0) {
        0..=0xffff => ("H", 2),
        0x1_0000..=0xffff_ffff => ("I", 4),
        _ => ("Q", 8),
    };
    // Little-endian numbers start with their low bytes.
    let low = |value: &u64| value.to_le_bytes().into_iter().take(bytes);
    let bytes: Vec<u8> = values.iter().flat_map(low).collect();
    array.call1((code, PyBytes::new(array.py(), &bytes)))
}

/// Summary of each file: lines, rows, damage, sessions and their times in microseconds.
fn facts<'py>(py: Python<'py>, reading: &Reading) -> PyResult<Bound<'py, PyDict>> {
    let files = PyList::empty(py);
    for file in &reading.files {
        let dict = PyDict::new(py);
        fields! { dict, file => lines waits waits_unmeasured calls statements outside
        size_limit_line failure waits_in_text }
        dict.set_item("damaged", file.damages.count)?;
        let first: Vec<(u64, &str)> =
            file.damages.first.iter().map(|damage| (damage.line, damage.fault)).collect();
        dict.set_item("damage", first)?;
        let sessions = PyList::empty(py);
        for (session, times) in &file.sessions {
            let id = reading.dictionary.sessions[*session];
            let dict = PyDict::new(py);
            fields! { dict, id => sid serial }
            fields! { dict, times => elapsed_us cpu_us wait_us idle_us open_us }
            dict.set_item("unaccounted_us", times.unaccounted_us())?;
            fields! { dict, times => first_tim_us last_tim_us steps_back local_less_tim_us }
            dict.set_item("session", id.number())?;
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
