//! One pass over the waits of a recording: Arrow batches in; sums, and the rows of a sample, out.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use spillcast_core::simulate::{CachedReads, Memory};
use spillcast_recording as recording;

use crate::arrow::{self, Table};
use crate::error::wrong;
use crate::recording::table_of;

/// Sums of the waits of a recording, and the waits that start within slices.
#[pyclass(module = "spillcast._core")]
pub struct Scan(Option<recording::Scan>);

#[pymethods]
impl Scan {
    /// Each slice has a start and an end, ns, and the number of its part of a sample; slices do not
    /// overlap.
    ///
    /// `page_cache` estimates which reads of temp files the page cache served: share of the regions
    /// of files, number of parts, and the time of a read from memory, ns and ns per byte.
    #[new]
    #[pyo3(signature = (slices_ns=Vec::new(), page_cache=None))]
    fn new(
        slices_ns: Vec<(i64, i64, usize)>,
        page_cache: Option<(f64, usize, (f64, f64))>,
    ) -> Scan {
        let parts = slices_ns.iter().map(|slice| slice.2).collect();
        let slices: Vec<(i64, i64)> = slices_ns.iter().map(|slice| (slice.0, slice.1)).collect();
        let cached = page_cache.map(|(rate, parts, (ns, ns_per_byte))| {
            CachedReads::new(rate, parts.max(1), Memory { ns, ns_per_byte })
        });
        Scan(Some(recording::Scan::new(&slices, parts, cached)))
    }

    /// Takes the next waits. ValueError for other columns.
    fn push(&mut self, py: Python<'_>, waits: &Bound<'_, PyAny>) -> PyResult<()> {
        let scan = self.0.as_mut().ok_or_else(ended)?;
        let batch = arrow::import(waits)?;
        py.detach(|| scan.push(&batch)).map_err(wrong)
    }

    /// Rows, bytes, ns, and the end of the last wait, ns.
    fn sums(&self) -> PyResult<(u64, i64, i64, i64)> {
        let sums = self.0.as_ref().ok_or_else(ended)?.sums;
        Ok((sums.rows, sums.bytes, sums.elapsed_ns, sums.end_ns))
    }

    /// The most bytes that the temp files held together, as if none was removed, from the known
    /// offsets; and the number of operations with unknown offsets.
    fn held_bytes(&self) -> PyResult<(u64, u64)> {
        Ok(self.0.as_ref().ok_or_else(ended)?.held_bytes())
    }

    /// The rows of the slices and, with `page_cache`, the bytes that a page cache of `room_bytes`
    /// lacked; null for rows other than reads of temp files. Ends the scan.
    fn rows(&mut self, py: Python<'_>, room_bytes: u64) -> PyResult<(Table, Option<Table>)> {
        let scan = self.0.take().ok_or_else(ended)?;
        let (waits, missing) = py.detach(|| scan.into_rows(room_bytes));
        let table = |missing: Vec<Option<u64>>| {
            let bytes = missing.into_iter().map(|bytes| bytes.map(|bytes| bytes as i64));
            let column = Arc::new(bytes.collect::<Int64Array>()) as ArrayRef;
            RecordBatch::try_from_iter_with_nullable([("missing_bytes", column, true)]).map(Table)
        };
        Ok((table_of(&waits)?, missing.map(table).transpose().map_err(wrong)?))
    }
}

fn ended() -> PyErr {
    PyValueError::new_err("the rows were taken already")
}
