//! Emulated storage: a mount that lives as long as its Python object.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use spillcast_core::emulate::{self as core, Curve, Distribution, Latencies, Model, OpStats};
use spillcast_core::histogram::Histogram;
use spillcast_core::wait::Op;

use crate::arrow::Table;
use crate::{os_error, probe};

/// A directory mounted at a pace; `unmount()` or the end of the process ends it.
#[pyclass(module = "spillcast._core")]
pub struct Emulation(Option<core::Emulation>);

/// Latencies of one op, pattern and size.
#[derive(FromPyObject)]
pub struct Point {
    op: String,
    sequential: bool,
    size_bytes: u64,
    latency_ns: Vec<f64>,
    latency_count: Vec<u64>,
}

/// The fields of `spillcast.storage.Limit`.
#[derive(FromPyObject)]
pub struct Limit {
    read_random_ns: f64,
    read_sequential_ns: f64,
    write_random_ns: f64,
    write_sequential_ns: f64,
    read_ns_per_byte: f64,
    write_ns_per_byte: f64,
    operation_bytes: Option<u64>,
    burst_ns: f64,
}

#[pymethods]
impl Emulation {
    /// Show `backing` at `mountpoint`.
    ///
    /// `points` have the attributes op, sequential, size_bytes, latency_ns and latency_count;
    /// `limits` those of `spillcast.storage.Limit`. ValueError where one of the directories cannot
    /// be used; OSError says what else is missing.
    #[new]
    #[pyo3(signature = (backing, mountpoint, points, *, servers=None, limits=vec![],
                        page_cache=false))]
    fn new(
        py: Python<'_>,
        backing: PathBuf,
        mountpoint: PathBuf,
        points: Vec<Point>,
        servers: Option<usize>,
        limits: Vec<Limit>,
        page_cache: bool,
    ) -> PyResult<Emulation> {
        let model = model(&points, servers, limits)?;
        let mount = || core::Emulation::mount(&backing, &mountpoint, model, page_cache);
        let mounted = py.detach(mount).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => PyValueError::new_err(error.to_string()),
            _ => os_error(error),
        })?;
        Ok(Emulation(Some(mounted)))
    }

    /// What the mount itself adds: op, size in bytes, ns.
    fn floor(&self) -> Vec<(&'static str, u64, u64)> {
        let floor = self.0.as_ref().map(core::Emulation::floor).unwrap_or_default();
        let point = |point: &core::FloorPoint| (name(point.op), point.bytes, point.added_ns);
        floor.points().iter().map(point).collect()
    }

    /// What was done so far, a dict for reads and one for writes.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let stats = self.0.as_ref().map(core::Emulation::stats).unwrap_or_default();
        let dicts =
            [operations(py, Op::Read, &stats.read)?, operations(py, Op::Write, &stats.write)?];
        PyList::new(py, dicts)
    }

    /// Whether it is still there: anyone who may can unmount it.
    fn is_mounted(&self) -> PyResult<bool> {
        self.0.as_ref().map_or(Ok(false), |emulation| emulation.is_mounted().map_err(os_error))
    }

    /// Unmount; files that are open there keep working until they are closed.
    fn unmount(&mut self, py: Python<'_>) -> PyResult<()> {
        match self.0.take() {
            Some(emulation) => py.detach(|| emulation.unmount()).map_err(os_error),
            None => Ok(()),
        }
    }
}

/// How long each step of a plan would take on a storage, with a clock of its own.
///
/// `plan` is that of a Probe, `points`, `servers` and `limits` are those of an Emulation. Each thread
/// does its steps in their order, each after its pause. Returns the column elapsed_ns (double).
/// ValueError for a plan or points that cannot be used.
#[pyfunction]
#[pyo3(signature = (plan, points, *, servers=None, limits=vec![]))]
pub fn rehearse(
    py: Python<'_>,
    plan: &Bound<'_, PyAny>,
    points: Vec<Point>,
    servers: Option<usize>,
    limits: Vec<Limit>,
) -> PyResult<Table> {
    let steps = probe::steps(plan)?;
    let model = model(&points, servers, limits)?;
    let elapsed_ns: Float64Array = py.detach(|| core::rehearse(model, &steps)).into();
    let columns = RecordBatch::try_from_iter([("elapsed_ns", Arc::new(elapsed_ns) as ArrayRef)]);
    columns.map(Table).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

fn model(points: &[Point], servers: Option<usize>, limits: Vec<Limit>) -> PyResult<Model> {
    Ok(Model {
        read: latencies("read", points)?,
        write: latencies("write", points)?,
        servers,
        limits: limits.into_iter().map(Limit::into_core).collect(),
    })
}

fn name(op: Op) -> &'static str {
    op.name().unwrap_or_default()
}

fn latencies(op: &str, points: &[Point]) -> PyResult<Latencies> {
    let curve = |sequential: bool| -> PyResult<Curve> {
        let of_curve = points.iter().filter(|p| p.op == op && p.sequential == sequential);
        let points: PyResult<Vec<_>> =
            of_curve.map(|p| Ok((p.size_bytes, p.histogram()?))).collect();
        Ok(Curve::new(points?))
    };
    Ok(Latencies { sequential: curve(true)?, random: curve(false)? })
}

impl Point {
    fn histogram(&self) -> PyResult<Distribution> {
        let buckets: Vec<(f64, u64)> =
            self.latency_ns.iter().copied().zip(self.latency_count.iter().copied()).collect();
        if !buckets.iter().any(|&(_, count)| count > 0) {
            return Err(PyValueError::new_err("a point without latencies"));
        }
        Ok(Distribution::new(&buckets))
    }
}

impl Limit {
    fn into_core(self) -> core::Limit {
        core::Limit {
            read_random_ns: self.read_random_ns,
            read_sequential_ns: self.read_sequential_ns,
            write_random_ns: self.write_random_ns,
            write_sequential_ns: self.write_sequential_ns,
            read_ns_per_byte: self.read_ns_per_byte,
            write_ns_per_byte: self.write_ns_per_byte,
            operation_bytes: self.operation_bytes,
            burst_ns: self.burst_ns,
        }
    }
}

fn operations<'py>(py: Python<'py>, op: Op, stats: &OpStats) -> PyResult<Bound<'py, PyDict>> {
    let histogram: &Histogram = &stats.achieved;
    let (latency_ns, latency_count): (Vec<u64>, Vec<u64>) = histogram.buckets().unzip();
    let dict = PyDict::new(py);
    dict.set_item("op", name(op))?;
    dict.set_item("count", histogram.count())?;
    fields! { dict, stats => bytes sequential late }
    dict.set_item("total_ns", histogram.total_ns())?;
    dict.set_item("latency_ns", latency_ns)?;
    dict.set_item("latency_count", latency_count)?;
    Ok(dict)
}
