//! The waits of a recording, read back a few thousand at a time.

use std::fs::File;
use std::io;
use std::path::Path;

use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use spillcast_core::wait::{RowNames, Wait};

use crate::rows::each_wait;

/// Rows of which columns are held at a time; the names of each such part are looked up once.
const PART_ROWS: usize = 32_768;

/// Gives the waits of a file in its order; their names are positions in `names`.
///
/// Errors: those of the file; InvalidData where it does not hold the waits of a recording.
pub fn read_waits(
    path: &Path,
    names: &mut RowNames,
    mut each: impl FnMut(&Wait),
) -> io::Result<()> {
    let damaged = |error: String| io::Error::new(io::ErrorKind::InvalidData, error);
    let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(path)?);
    let builder = builder.map_err(|error| damaged(error.to_string()))?;
    let parts = builder.with_batch_size(PART_ROWS).build();
    for part in parts.map_err(|error| damaged(error.to_string()))? {
        let part = part.map_err(|error| damaged(error.to_string()))?;
        each_wait(&part, names, &mut each).map_err(|error| damaged(error.to_string()))?;
    }
    Ok(())
}
