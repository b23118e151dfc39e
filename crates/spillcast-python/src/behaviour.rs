//! A storage as Python describes it, as the core's model.

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
#[derive(FromPyObject)]
struct Limit {
    read_random_ns: f64,
    read_sequential_ns: f64,
    write_random_ns: f64,
    write_sequential_ns: f64,
    read_ns_per_byte: f64,
    write_ns_per_byte: f64,
    operation_bytes: Option<u64>,
    burst_ns: f64,
}

impl Behaviour {
    /// ValueError for a point without latencies.
    pub fn into_core(self) -> PyResult<Model> {
        Ok(Model {
            read: self.latencies("read")?,
            write: self.latencies("write")?,
            servers: self.servers,
            limits: self.limits.into_iter().map(Limit::into_core).collect(),
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
