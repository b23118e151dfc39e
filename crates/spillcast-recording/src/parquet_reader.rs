//! Any Parquet file, read some columns and rows at a time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::file::reader::ChunkReader;

/// A file whose end was read: its columns and row groups.
pub struct ParquetSource<R: ChunkReader + 'static> {
    input: R,
    metadata: ArrowReaderMetadata,
}

impl<R: ChunkReader + 'static> ParquetSource<R> {
    /// Text becomes numbers of names as it is read: a row's own would take many times the memory.
    pub fn open(input: R) -> Result<Self, String> {
        guarded(|| {
            let metadata = ArrowReaderMetadata::load(&input, ArrowReaderOptions::new())
                .map_err(|error| error.to_string())?;
            let coded: Vec<_> = metadata.schema().fields().iter().map(|f| coded(f)).collect();
            let schema: SchemaRef = Arc::new(Schema::new(coded));
            let options = ArrowReaderOptions::new().with_schema(schema);
            let metadata = ArrowReaderMetadata::try_new(metadata.metadata().clone(), options)
                .map_err(|error| error.to_string())?;
            Ok(ParquetSource { input, metadata })
        })
    }

    pub fn schema(&self) -> SchemaRef {
        self.metadata.schema().clone()
    }

    /// Bytes without compression and rows of each row group.
    pub fn row_groups(&self) -> Vec<(i64, i64)> {
        let groups = self.metadata.metadata().row_groups();
        groups.iter().map(|group| (group.total_byte_size(), group.num_rows())).collect()
    }

    /// Key and value pairs that its writer has added.
    pub fn key_values(&self) -> Vec<(String, String)> {
        let pairs = self.metadata.metadata().file_metadata().key_value_metadata();
        let pairs = pairs.into_iter().flatten();
        pairs.filter_map(|pair| Some((pair.key.clone(), pair.value.clone()?))).collect()
    }

    /// The rows of the columns at these positions, `rows` at a time.
    pub fn batches(self, columns: Vec<usize>, rows: usize) -> Result<ParquetBatches, String> {
        guarded(|| {
            let builder =
                ParquetRecordBatchReaderBuilder::new_with_metadata(self.input, self.metadata);
            let mask = ProjectionMask::roots(builder.parquet_schema(), columns);
            let reader = builder.with_projection(mask).with_batch_size(rows).build();
            Ok(ParquetBatches(reader.map_err(|error| error.to_string())?))
        })
    }
}

/// What is left of a file's rows.
pub struct ParquetBatches(ParquetRecordBatchReader);

impl ParquetBatches {
    pub fn schema(&self) -> SchemaRef {
        self.0.schema()
    }

    /// The next rows; None at the end.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>, String> {
        guarded(|| self.0.next().transpose().map_err(|error| error.to_string()))
    }
}

/// The reader panics at some damage.
fn guarded<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err("damaged data".to_owned()))
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
