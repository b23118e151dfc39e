//! Intervals and bursts of a run as Arrow columns in, sums by bin of the run out.

use arrow_array::RecordBatch;
use arrow_array::types::{Float64Type, Int8Type, Int64Type};
use pyo3::prelude::*;
use spillcast_core::bins::Bins;
use spillcast_core::bursts::{Burst, moments};

use crate::arrow::{import, numbers};

/// Sums by bin of `values` (float64), each spread evenly from begin_ns to end_ns (int64).
///
/// There are `count` bins of `width_ns`, starting at 0. A value is spread within them only; if its
/// interval is before or after them, it counts in the first or last bin. ValueError for columns of
/// another kind.
#[pyfunction]
pub fn spread(
    py: Python<'_>,
    rows: &Bound<'_, PyAny>,
    width_ns: f64,
    count: usize,
) -> PyResult<Vec<f64>> {
    let batch = import(rows)?;
    let (begin, end) = ends(&batch)?;
    let values = numbers::<Float64Type>(&batch, "values")?;
    let intervals =
        begin.iter().zip(end).zip(values).map(|((&begin, &end), &value)| (begin, end, value));
    Ok(py.detach(|| Bins { width_ns, count }.spread(intervals)))
}

/// By bin, ns that at least one interval from begin_ns to end_ns (int64) covers.
///
/// There are `count` bins of `width_ns`, starting at 0. ValueError for columns of another kind.
#[pyfunction]
pub fn covered_ns(
    py: Python<'_>,
    rows: &Bound<'_, PyAny>,
    width_ns: f64,
    count: usize,
) -> PyResult<Vec<f64>> {
    let batch = import(rows)?;
    let (begin, end) = ends(&batch)?;
    let bins = Bins { width_ns, count };
    Ok(py.detach(|| {
        if begin.is_sorted() {
            return bins.covered_ns(begin.iter().copied().zip(end.iter().copied()));
        }
        let mut order: Vec<u32> = (0..begin.len() as u32).collect();
        order.sort_by_key(|&at| begin[at as usize]);
        bins.covered_ns(order.iter().map(|&at| (begin[at as usize], end[at as usize])))
    }))
}

/// By bin, sums of the squares of weights, and of their products with CPU times, about the means of
/// similar bursts.
///
/// `rows` are bursts: weight, cpu_s, end_s (float64), bytes, session (int64), op and next_op
/// (int8). Similar bursts agree in session, op, next_op, the bin of their end (of `bins` in
/// `whole_s`) and the class of bytes (`sizes` per power of two). ValueError for other columns.
#[pyfunction]
pub fn burst_moments(
    py: Python<'_>,
    rows: &Bound<'_, PyAny>,
    whole_s: f64,
    bins: u32,
    sizes: f64,
) -> PyResult<(Vec<f64>, Vec<f64>)> {
    let batch = import(rows)?;
    let (weight, cpu_s) =
        (numbers::<Float64Type>(&batch, "weight")?, numbers::<Float64Type>(&batch, "cpu_s")?);
    let (end_s, bytes) =
        (numbers::<Float64Type>(&batch, "end_s")?, numbers::<Int64Type>(&batch, "bytes")?);
    let (op, next_op) =
        (numbers::<Int8Type>(&batch, "op")?, numbers::<Int8Type>(&batch, "next_op")?);
    let session = numbers::<Int64Type>(&batch, "session")?;
    let bursts = (0..weight.len()).map(|at| Burst {
        weight: weight[at],
        cpu_s: cpu_s[at],
        bin: ((end_s[at] / whole_s * f64::from(bins)) as u32).min(bins - 1),
        size: (sizes * (bytes[at].max(1) as f64).log2()).round_ties_even() as u16,
        op: op[at] as u8,
        next_op: next_op[at] as u8,
        session: session[at],
    });
    let moments_by_bin = py.detach(|| moments(bursts, bins as usize));
    Ok((moments_by_bin.weight_weight, moments_by_bin.weight_cpu))
}

fn ends(batch: &RecordBatch) -> PyResult<(&[i64], &[i64])> {
    Ok((numbers::<Int64Type>(batch, "begin_ns")?, numbers::<Int64Type>(batch, "end_ns")?))
}
