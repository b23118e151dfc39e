//! Parquet files and zstd streams for Python.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Mutex;

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use spillcast_recording::{BatchFile, ParquetBatches, ParquetSource, Rule};

use crate::arrow::{Table, import};
use crate::columns::fields_of;
use crate::error::os_error;

/// A Parquet file: its columns and row groups, then its rows, which can be taken once.
#[pyclass(frozen, module = "spillcast._core")]
pub struct ParquetReader(Mutex<Option<ParquetSource>>);

#[pymethods]
impl ParquetReader {
    /// OSError if it cannot be opened, ValueError if it is damaged.
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<ParquetReader> {
        let file = File::open(path).map_err(os_error)?;
        let source = py.detach(|| ParquetSource::open(file)).map_err(PyValueError::new_err)?;
        Ok(ParquetReader(Mutex::new(Some(source))))
    }

    /// Name and kind of each column, and whether it is nullable.
    fn fields(&self) -> PyResult<Vec<(String, String, bool)>> {
        self.with(|source| fields_of(&source.schema()))
    }

    /// Uncompressed size in bytes and number of rows of each row group.
    fn row_groups(&self) -> PyResult<Vec<(i64, i64)>> {
        self.with(ParquetSource::row_groups)
    }

    /// Key-value metadata added by the writer.
    fn key_values(&self) -> PyResult<Vec<(String, String)>> {
        self.with(ParquetSource::key_values)
    }

    /// Read the columns at these positions, `rows` rows at a time.
    ///
    /// `rules` are for columns: name, whether it is nullable, its smallest and largest valid
    /// numbers.
    #[pyo3(signature = (columns, rows, rules=Vec::new()))]
    fn batches(
        &self,
        py: Python<'_>,
        columns: Vec<usize>,
        rows: usize,
        rules: Vec<(String, bool, i64, i64)>,
    ) -> PyResult<Batches> {
        let source = self.0.lock().expect("no holder panics").take().ok_or_else(taken)?;
        let rule = |(name, nullable, least, greatest)| Rule { name, nullable, least, greatest };
        let rules = rules.into_iter().map(rule).collect();
        let batches = py.detach(|| source.batches(columns, rows, rules));
        Ok(Batches(Mutex::new(batches.map_err(PyValueError::new_err)?)))
    }
}

impl ParquetReader {
    fn with<T>(&self, of: impl FnOnce(&ParquetSource) -> T) -> PyResult<T> {
        self.0.lock().expect("no holder panics").as_ref().map(of).ok_or_else(taken)
    }
}

fn taken() -> PyErr {
    PyValueError::new_err("the rows were taken already")
}

/// The rows of a Parquet file; None follows the last.
#[pyclass(frozen, module = "spillcast._core")]
pub struct Batches(Mutex<ParquetBatches>);

#[pymethods]
impl Batches {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Table>> {
        let batch = py.detach(|| self.0.lock().expect("no holder panics").next_batch());
        Ok(batch.map_err(PyValueError::new_err)?.map(Table))
    }
}

/// Writes record batches of the same columns to a Parquet file, compressed by zstd.
#[pyclass(frozen, module = "spillcast._core")]
pub struct ParquetWriter(Mutex<Option<BatchFile>>);

#[pymethods]
impl ParquetWriter {
    /// Columns are those of `like`; `key_values` are stored as metadata.
    #[new]
    #[pyo3(signature = (path, like, group_rows = None, key_values = None))]
    fn new(
        path: PathBuf,
        like: &Bound<'_, PyAny>,
        group_rows: Option<usize>,
        key_values: Option<Vec<(String, String)>>,
    ) -> PyResult<ParquetWriter> {
        let schema = import(like)?.schema();
        let file = BatchFile::new(&path, &schema, group_rows, key_values.unwrap_or_default());
        let file = file.map_err(os_error)?;
        Ok(ParquetWriter(Mutex::new(Some(file))))
    }

    /// Write rows.
    fn write(&self, py: Python<'_>, rows: &Bound<'_, PyAny>) -> PyResult<()> {
        let batch = import(rows)?;
        py.detach(|| match self.0.lock().expect("no holder panics").as_mut() {
            Some(file) => file.write(&batch).map_err(os_error),
            None => Err(PyValueError::new_err("the file is complete")),
        })
    }

    /// Write the footer; only then is the file readable.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let file = self.0.lock().expect("no holder panics").take();
        py.detach(|| file.map_or(Ok(()), |file| file.finish().map_err(os_error)))
    }
}

/// The content of a file compressed by zstd.
#[pyclass(module = "spillcast._core")]
pub struct ZstdReader(Mutex<zstd::Decoder<'static, std::io::BufReader<File>>>);

#[pymethods]
impl ZstdReader {
    /// OSError if it cannot be opened.
    #[new]
    fn new(path: PathBuf) -> PyResult<ZstdReader> {
        let file = File::open(path).map_err(os_error)?;
        Ok(ZstdReader(Mutex::new(zstd::Decoder::new(file).map_err(os_error)?)))
    }

    /// Up to `size` bytes; empty at the end. OSError if the rest of the file is damaged.
    fn read(&self, py: Python<'_>, size: usize) -> PyResult<Vec<u8>> {
        let mut bytes = Vec::new();
        let read = py.detach(|| {
            let mut decoder = self.0.lock().expect("no holder panics");
            decoder.by_ref().take(size as u64).read_to_end(&mut bytes)
        });
        match read {
            Err(error) if bytes.is_empty() => Err(PyOSError::new_err(error.to_string())),
            _ => Ok(bytes),
        }
    }
}
