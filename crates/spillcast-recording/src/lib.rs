//! Recordings: the recorder of a command or a process, the files that it writes, and what /proc
//! shows of the observed processes.
//!
//! Rows are packed on disk during the recording, and become Parquet only at its end, a few thousand
//! at a time. So columns cost nothing during the observed run, removing a file drops a part, rows
//! are shifted to the start of the run as they pass, and memory does not grow with the recording.
//!
//! This is a crate of its own because Arrow and Parquet take three times as long to compile as the
//! core, which needs neither.

pub mod cgroups;
mod checks;
mod columns;
mod earlier_work;
pub mod failure;
pub mod file_sizes;
mod files;
pub mod folder;
pub mod json;
pub mod limits;
pub mod machine;
mod measured;
pub mod memory_group;
pub mod meta;
mod output;
mod parquet_file;
mod parquet_reader;
mod parts;
mod recorder;
mod rows;
mod scan;
mod seconds;
pub mod sources;
pub mod target;
mod temp_places;
mod writer;

pub use checks::Rule;
pub use columns::{Dictionaries, booleans, int64, ops, second_columns, wait_columns};
pub use files::{FileSums, TempKind};
pub use measured::Measured;
pub use output::Output;
pub use parquet_file::BatchFile;
pub use parquet_reader::{ParquetBatches, ParquetSource};
pub use parts::Bounds;
pub use recorder::{Observed, Recorder};
pub use rows::{each_wait, read_waits, seconds_of};
pub use scan::{Scan, Sums};
pub use temp_places::{TempPlace, device_name, temp_places, without_secrets};
pub use writer::{Kept, Writer};
