//! Converts a storage described in Python to the core's model.

use std::collections::BTreeMap;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use spillcast_core::storage::{self as core, Curve, Curves, Distribution, Latencies, Model};

/// The fields of `spillcast.storage.model.Behaviour`.
#[derive(FromPyObject)]
pub struct Behaviour {
    points: Vec<Point>,
    servers: Option<usize>,
    limits: Vec<Limit>,
}

/// Latencies of one op, pattern, size and depth.
#[derive(FromPyObject)]
struct Point {
    op: String,
    sequential: bool,
    size_bytes: u64,
    depth: u32,
    latency_ns: Vec<f64>,
    latency_count: Vec<u64>,
}

/// The fields of `spillcast.storage.Limit`.
struct Limit(core::Limit);

impl<'py> FromPyObject<'_, 'py> for Limit {
    type Error = PyErr;

    fn extract(limit: Borrowed<'_, 'py, PyAny>) -> PyResult<Limit> {
        Ok(Limit(
            extracted!(core::Limit, limit => read_random_ns read_sequential_ns write_random_ns
            write_sequential_ns read_ns_per_byte write_ns_per_byte operation_bytes burst_ns),
        ))
    }
}

impl Behaviour {
    /// ValueError for a point without latencies.
    pub fn into_core(self) -> PyResult<Model> {
        Ok(Model {
            read: self.latencies("read")?,
            write: self.latencies("write")?,
            servers: self.servers,
            limits: self.limits.into_iter().map(|limit| limit.0).collect(),
        })
    }

    fn latencies(&self, op: &str) -> PyResult<Latencies> {
        let curves = |sequential: bool| -> PyResult<Curves> {
            let mut by_depth: BTreeMap<u32, Vec<(u64, Distribution)>> = BTreeMap::new();
            for point in self.points.iter().filter(|p| p.op == op && p.sequential == sequential) {
                let at = (point.size_bytes, point.histogram()?);
                by_depth.entry(point.depth).or_default().push(at);
            }
            let curve = |(depth, at)| (depth, Curve::new(at));
            Ok(Curves::new(by_depth.into_iter().map(curve).collect()))
        };
        Ok(Latencies { sequential: curves(true)?, random: curves(false)? })
    }
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
