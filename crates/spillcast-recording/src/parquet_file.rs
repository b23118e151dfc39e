//! A Parquet file written a few thousand rows at a time.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::Path;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

/// Number of rows that are converted to columns at a time.
const CHUNK_ROWS: usize = 8_192;
/// Number of rows that are encoded in memory before they are written.
const ROW_GROUP_ROWS: usize = 131_072;
/// Numbers that rarely repeat; their dictionary would be as large as the column.
const DISTINCT: [&str; 4] = ["start_ns", "elapsed_ns", "offset", "cpu_before_ns"];

/// Collects rows and converts them to columns with `columns`.
pub struct ParquetFile<R, C> {
    file: BatchFile,
    rows: Vec<R>,
    columns: C,
}

impl<R, C: Fn(&[R]) -> Result<RecordBatch, ArrowError>> ParquetFile<R, C> {
    pub fn new(path: &Path, columns: C) -> io::Result<Self> {
        let schema = columns(&[]).map_err(io::Error::other)?.schema();
        let file = BatchFile::new(path, &schema, None, Vec::new())?;
        Ok(ParquetFile { file, rows: Vec::with_capacity(CHUNK_ROWS), columns })
    }

    pub fn add(&mut self, row: R) -> io::Result<()> {
        self.rows.push(row);
        if self.rows.len() == CHUNK_ROWS { self.write() } else { Ok(()) }
    }

    pub fn finish(mut self) -> io::Result<()> {
        self.write()?;
        self.file.finish()
    }

    fn write(&mut self) -> io::Result<()> {
        let batch = (self.columns)(&self.rows).map_err(io::Error::other)?;
        self.rows.clear();
        self.file.write(&batch)
    }
}

/// Writes record batches.
pub struct BatchFile(ArrowWriter<File>);

impl BatchFile {
    /// Writes row groups of `group_rows`, and key-value metadata.
    pub fn new(
        path: &Path,
        schema: &Schema,
        group_rows: Option<usize>,
        key_values: Vec<(String, String)>,
    ) -> io::Result<BatchFile> {
        let level = ZstdLevel::try_new(1).expect("a level that zstd has");
        let mut properties = WriterProperties::builder()
            .set_created_by("spillcast".into())
            .set_compression(Compression::ZSTD(level))
            .set_max_row_group_row_count(Some(group_rows.unwrap_or(ROW_GROUP_ROWS)));
        for name in DISTINCT {
            properties = properties.set_column_dictionary_enabled(name.into(), false);
        }
        // Arrow's readers look for the metadata in the schema, others in the file's metadata.
        let pairs: HashMap<String, String> = key_values.iter().cloned().collect();
        let schema = schema.clone().with_metadata(pairs).into();
        let file = File::create(path)?;
        let writer = ArrowWriter::try_new(file, schema, Some(properties.build()));
        let mut writer = writer.map_err(os_error)?;
        for (key, value) in key_values {
            writer.append_key_value_metadata(KeyValue::new(key, value));
        }
        Ok(BatchFile(writer))
    }

    pub fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        self.0.write(batch).map_err(os_error)
    }

    pub fn finish(self) -> io::Result<()> {
        self.0.close().map(drop).map_err(os_error)
    }
}

/// The underlying error of the file system, if any.
fn os_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(error) => match error.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(error) => io::Error::other(error),
        },
        error => io::Error::other(error),
    }
}
