//! The waits of a recording, read back a few thousand at a time.

use std::fs::File;
use std::io;
use std::path::Path;

use spillcast_core::wait::{RowNames, Wait};

use crate::parquet_reader::ParquetSource;
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
    let source = ParquetSource::open(File::open(path)?).map_err(damaged)?;
    let columns = (0..source.schema().fields().len()).collect();
    let mut parts = source.batches(columns, PART_ROWS, Vec::new()).map_err(damaged)?;
    while let Some(part) = parts.next_batch().map_err(damaged)? {
        each_wait(&part, names, |wait, _| each(wait))
            .map_err(|error| damaged(error.to_string()))?;
    }
    Ok(())
}
