//! Requests for cache lines in, accounts and miss ratios out.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arrow_array::RecordBatch;
use arrow_array::types::Int64Type;
use pyo3::exceptions::{PyInterruptedError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use spillcast_core::cache::{
    Class, Curve, Flow, NAMES, Options, OracleGeneral, Outcome, Request, Row, Rows, Rules, Run,
    Source, distances, distances_within, simulate,
};

use crate::arrow::{import, numbers};
use crate::error::read_error;

/// Miss ratios of LRU caches of every size.
#[pyclass(frozen, module = "spillcast._core")]
pub struct CacheCurve(Curve);

#[pymethods]
impl CacheCurve {
    #[new]
    fn new(
        rate: f64,
        references: u64,
        lines: f64,
        below: Vec<f64>,
        error_max: f64,
        lines_min: f64,
    ) -> CacheCurve {
        CacheCurve(Curve { rate, references, lines, below, error_max, lines_min })
    }

    /// Arguments of the constructor, for pickle.
    fn __getnewargs__(&self) -> (f64, u64, f64, Vec<f64>, f64, f64) {
        let Curve { rate, references, lines, ref below, error_max, lines_min } = self.0;
        (rate, references, lines, below.clone(), error_max, lines_min)
    }

    #[getter]
    fn references(&self) -> u64 {
        self.0.references
    }

    #[getter]
    fn lines(&self) -> f64 {
        self.0.lines
    }

    #[getter]
    fn error_max(&self) -> f64 {
        self.0.error_max
    }

    #[getter]
    fn lines_min(&self) -> f64 {
        self.0.lines_min
    }

    /// Share of the requests that miss, for each size of a cache in lines.
    fn miss_ratios(&self, lines: Vec<f64>) -> Vec<f64> {
        lines.into_iter().map(|lines| self.0.miss_ratio(lines)).collect()
    }
}

/// Requests for cache lines; one thread processes them, and another may cancel that.
#[pyclass(frozen, module = "spillcast._core")]
pub struct CacheRequests {
    source: Box<dyn Source + Send + Sync>,
    done: AtomicU64,
    cancelled: AtomicBool,
}

#[pymethods]
impl CacheRequests {
    /// A file in libCacheSim's format; each id is a line. The file is read for each use.
    #[staticmethod]
    fn oracle_general(path: PathBuf) -> CacheRequests {
        CacheRequests::of(OracleGeneral::new(&path))
    }

    /// Reads and writes of ranges of files, split into lines. ValueError for invalid rows.
    ///
    /// Columns, all int64 without nulls: time_s, file, offset, bytes, object, query, class (as in
    /// `classes`), ends_query (0 or 1).
    #[staticmethod]
    fn rows(rows: &Bound<'_, PyAny>, line_bytes: u64) -> PyResult<CacheRequests> {
        let rows = rows_of(&import(rows)?)?;
        if line_bytes == 0 || line_bytes > u64::from(u32::MAX) {
            return Err(PyValueError::new_err("lines of no bytes, or of 4 GiB and more"));
        }
        let rows = Rows::new(rows, line_bytes)
            .ok_or_else(|| PyValueError::new_err("offsets too large for lines of this size"))?;
        Ok(CacheRequests::of(rows))
    }

    /// The names of the classes, in order.
    #[staticmethod]
    fn classes() -> Vec<&'static str> {
        Class::ALL.iter().map(|class| class.name()).collect()
    }

    /// The names of the policies.
    #[staticmethod]
    fn policies() -> Vec<&'static str> {
        NAMES.to_vec()
    }

    /// What a cache of `lines` lines serves: accounts of each run, lines cached at the end.
    #[pyo3(signature = (policy, lines, *, kept=Vec::new(), temp_share=1.0, unread_s=86400,
                        temp_writes=false, runs=1, alone=false))]
    #[allow(clippy::too_many_arguments)]
    fn simulate<'py>(
        &self,
        py: Python<'py>,
        policy: String,
        lines: usize,
        kept: Vec<u32>,
        temp_share: f64,
        unread_s: u32,
        temp_writes: bool,
        runs: u32,
        alone: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        if lines == 0 || lines > 1 << 30 {
            return Err(PyValueError::new_err(format!("a cache of {lines} lines")));
        }
        let rules = Rules { kept, temp_share, unread_s };
        let options = Options { policy, lines, rules, temp_writes, runs, alone };
        self.cancelled.store(false, Ordering::Relaxed);
        let outcome = py
            .detach(|| simulate(self, &options))
            .ok_or_else(|| PyValueError::new_err(format!("no policy {:?}", options.policy)))?;
        self.ended(outcome).and_then(|outcome| document(py, &outcome))
    }

    /// Stack distances in the last of `runs` runs, of a share `rate` of the lines; or rounded, with
    /// a mean error of the miss ratios of at most `error` over all sizes.
    #[pyo3(signature = (*, rate=1.0, error=0.0, temp_writes=false, runs=1))]
    fn curve(
        &self,
        py: Python<'_>,
        rate: f64,
        error: f64,
        temp_writes: bool,
        runs: u32,
    ) -> PyResult<CacheCurve> {
        if !(rate > 0.0 && rate <= 1.0) {
            return Err(PyValueError::new_err(format!("a sampling rate of {rate}")));
        }
        if !(error == 0.0 || (error > 0.0 && error <= 1.0 && rate == 1.0)) {
            return Err(PyValueError::new_err(format!("an error of {error} at a rate of {rate}")));
        }
        self.cancelled.store(false, Ordering::Relaxed);
        let curve = py.detach(|| match error {
            0.0 => distances(self, rate, temp_writes, runs),
            error => distances_within(self, error, temp_writes, runs),
        });
        self.ended(curve).map(CacheCurve)
    }

    /// Number of requests processed so far by the current operation.
    fn requests(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Cancel the operation of another thread; later operations are not affected.
    fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }
}

impl CacheRequests {
    fn of(source: impl Source + Send + Sync + 'static) -> CacheRequests {
        let (done, cancelled) = Default::default();
        CacheRequests { source: Box::new(source), done, cancelled }
    }

    fn ended<T>(&self, result: io::Result<T>) -> PyResult<T> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(PyInterruptedError::new_err("cancelled"));
        }
        result.map_err(read_error)
    }
}

impl Source for CacheRequests {
    fn each(&self, take: &mut dyn FnMut(&[Request]) -> Flow) -> io::Result<()> {
        self.source.each(&mut |requests| {
            self.done.fetch_add(requests.len() as u64, Ordering::Relaxed);
            if self.cancelled.load(Ordering::Relaxed) {
                return Flow::Break(());
            }
            take(requests)
        })
    }
}

fn rows_of(batch: &RecordBatch) -> PyResult<Vec<Row>> {
    let column = |name| numbers::<Int64Type>(batch, name);
    let (time_s, file, offset) = (column("time_s")?, column("file")?, column("offset")?);
    let (bytes, object, query) = (column("bytes")?, column("object")?, column("query")?);
    let (class, ends_query) = (column("class")?, column("ends_query")?);
    let row = |at: usize| {
        Some(Row {
            time_s: time_s[at].try_into().ok()?,
            file: file[at].try_into().ok()?,
            offset: offset[at].try_into().ok()?,
            bytes: bytes[at].try_into().ok()?,
            object: object[at].try_into().ok()?,
            query: query[at].try_into().ok()?,
            class: *Class::ALL.get(usize::try_from(class[at]).ok()?)?,
            ends_query: ends_query[at] != 0,
        })
    };
    let rows: Option<Vec<Row>> = (0..batch.num_rows()).map(row).collect();
    rows.ok_or_else(|| PyValueError::new_err("a number of the rows is out of range"))
}

fn document<'py>(py: Python<'py>, outcome: &Outcome) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let runs = PyList::empty(py);
    for run in &outcome.runs {
        runs.append(run_document(py, run)?)?;
    }
    dict.set_item("runs", runs)?;
    dict.set_item("cached_lines", &outcome.cached_lines)?;
    Ok(dict)
}

fn run_document<'py>(py: Python<'py>, run: &Run) -> PyResult<Bound<'py, PyDict>> {
    let accounts = PyList::empty(py);
    for (object, classes) in run.accounts.iter().enumerate() {
        for (class, account) in Class::ALL.iter().zip(classes) {
            if account.requests == 0 {
                continue;
            }
            let dict = PyDict::new(py);
            dict.set_item("object", object)?;
            dict.set_item("class", class.name())?;
            fields! { dict, account => requests bytes hits hit_bytes alone_hits
            flash_write_bytes disk_write_bytes }
            accounts.append(dict)?;
        }
    }
    let dict = PyDict::new(py);
    dict.set_item("accounts", accounts)?;
    dict.set_item("lines_written_back", run.lines_written_back)?;
    Ok(dict)
}
