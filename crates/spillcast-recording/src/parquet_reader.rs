//! Reads any Parquet file, some columns and rows at a time.

use std::cell::Cell;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::{Arc, Once};

use arrow_array::{ArrayRef, RecordBatch, new_null_array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::file::metadata::RowGroupMetaData;

use crate::checks::{Rule, check};

/// A file whose footer was read: its columns and row groups.
pub struct ParquetSource {
    input: File,
    metadata: ArrowReaderMetadata,
    schema: SchemaRef,
}

impl ParquetSource {
    /// Text is read as dictionary columns: a string per row would take many times the memory.
    ///
    /// A column of nulls only is not coded: the reader would create and hash a name for each row.
    pub fn open(input: File) -> Result<Self, String> {
        guarded(|| {
            let metadata = ArrowReaderMetadata::load(&input, ArrowReaderOptions::new())
                .map_err(|error| error.to_string())?;
            let groups = metadata.metadata().row_groups();
            let fields = metadata.schema().fields();
            let schema = Schema::new(fields.iter().map(|f| coded(f)).collect::<Vec<_>>());
            let read =
                fields.iter().map(|f| if all_null(groups, f) { (**f).clone() } else { coded(f) });
            let options = ArrowReaderOptions::new()
                .with_schema(Arc::new(Schema::new(read.collect::<Vec<_>>())));
            let metadata = ArrowReaderMetadata::try_new(metadata.metadata().clone(), options)
                .map_err(|error| error.to_string())?;
            Ok(ParquetSource { input, metadata, schema: Arc::new(schema) })
        })
    }

    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Uncompressed size and number of rows of each row group.
    pub fn row_groups(&self) -> Vec<(i64, i64)> {
        let groups = self.metadata.metadata().row_groups();
        groups.iter().map(|group| (group.total_byte_size(), group.num_rows())).collect()
    }

    /// Key-value metadata added by the writer.
    pub fn key_values(&self) -> Vec<(String, String)> {
        let pairs = self.metadata.metadata().file_metadata().key_value_metadata();
        let pairs = pairs.into_iter().flatten();
        pairs.filter_map(|pair| Some((pair.key.clone(), pair.value.clone()?))).collect()
    }

    /// Reads the columns at these positions, `rows` rows at a time, and checks `rules`.
    pub fn batches(
        self,
        columns: Vec<usize>,
        rows: usize,
        rules: Vec<Rule>,
    ) -> Result<ParquetBatches, String> {
        guarded(|| {
            let builder =
                ParquetRecordBatchReaderBuilder::new_with_metadata(self.input, self.metadata);
            let mut read = columns.clone();
            read.sort_unstable();
            read.dedup();
            let schema = self.schema.project(&read).map_err(|error| error.to_string())?;
            let mask = ProjectionMask::roots(builder.parquet_schema(), columns);
            let reader = builder.with_projection(mask).with_batch_size(rows).build();
            let reader = reader.map_err(|error| error.to_string())?;
            Ok(ParquetBatches { reader, schema: Arc::new(schema), rules })
        })
    }
}

/// The remaining rows of a file.
pub struct ParquetBatches {
    reader: ParquetRecordBatchReader,
    schema: SchemaRef,
    rules: Vec<Rule>,
}

impl ParquetBatches {
    /// The next rows; None at the end. Fails if they are damaged or break a rule.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>, String> {
        guarded(|| {
            let batch = self.reader.next().transpose().map_err(|error| error.to_string())?;
            let Some(batch) = batch else { return Ok(None) };
            let batch = self.with_names(&batch)?;
            check(&batch, &self.rules)?;
            Ok(Some(batch))
        })
    }

    /// Replaces columns declared as nulls only, which have no names.
    fn with_names(&self, batch: &RecordBatch) -> Result<RecordBatch, String> {
        let columns = batch.columns().iter().zip(self.schema.fields()).map(|(column, field)| {
            if column.data_type() == field.data_type() {
                return Ok(column.clone());
            }
            if column.null_count() < column.len() {
                return Err(format!("{}: values in a column of nulls", field.name()));
            }
            Ok(new_null_array(field.data_type(), column.len()))
        });
        let columns = columns.collect::<Result<Vec<ArrayRef>, String>>()?;
        RecordBatch::try_new(self.schema.clone(), columns).map_err(|error| error.to_string())
    }
}

/// Whether the statistics of a column report that all of its rows are null.
fn all_null(groups: &[RowGroupMetaData], field: &Field) -> bool {
    groups.iter().all(|group| {
        let named = |part: &String| part == field.name();
        let column = group.columns().iter().find(|c| {
            let parts = c.column_path().parts();
            parts.len() == 1 && parts.iter().all(named)
        });
        let nulls = column.and_then(|c| c.statistics()).and_then(|s| s.null_count_opt());
        nulls.is_some_and(|nulls| i64::try_from(nulls) == Ok(group.num_rows()))
    })
}

/// Turns panics of the reader on damaged files into errors, without a report on stderr.
fn guarded<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    thread_local! { static GUARDED: Cell<bool> = const { Cell::new(false) } }
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let report = take_hook();
        set_hook(Box::new(move |info| {
            if !GUARDED.get() || cfg!(panic = "abort") {
                report(info)
            }
        }));
    });
    GUARDED.set(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(false);
    result.unwrap_or_else(|_| Err("damaged data".to_owned()))
}

fn coded(field: &Field) -> Field {
    match field.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            let kind = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
            field.clone().with_data_type(kind)
        }
        _ => field.clone(),
    }
}
