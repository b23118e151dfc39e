//! What a capture saw, as Arrow columns and as the Parquet files of a recording.
//!
//! Rows go to disk packed while the recording lasts. Only when it ends do they become Parquet, a
//! few thousand at a time, so that memory does not grow with its length.

mod clock;
mod columns;
mod files;
mod folder;
mod parquet_file;
mod parts;
mod reader;
mod rows;
mod seconds;
mod writer;

pub use columns::{Dictionaries, histograms, ops, second_columns, wait_columns};
pub use files::FileSums;
pub use folder::rename;
pub use parts::Bounds;
pub use reader::read_waits;
pub use rows::{seconds_of, waits_of};
pub use seconds::Second;
pub use writer::{Kept, Writer};
