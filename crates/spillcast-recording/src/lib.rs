//! What a capture saw, as Arrow columns and as the Parquet files of a recording; and what /proc tells of
//! those observed.
//!
//! Rows are on disk in packed form while the recording lasts, and become Parquet only when it ends,
//! a few thousand at a time. So columns cost nothing during the observed run, removing a file drops
//! a part, rows move to the run's start as they pass, and memory does not grow with the recording.
//!
//! This is a crate of its own because Arrow and Parquet take three times as long to compile as the
//! core, which needs neither.

pub mod cgroups;
mod clock;
mod columns;
pub mod file_sizes;
mod files;
mod folder;
pub mod limits;
mod parquet_file;
mod parts;
pub mod proc;
mod reader;
mod rows;
mod seconds;
mod sockets;
mod temp_places;
mod writer;

pub use columns::{Dictionaries, histograms, ops, second_columns, wait_columns};
pub use files::FileSums;
pub use folder::rename;
pub use parts::Bounds;
pub use reader::read_waits;
pub use rows::{seconds_of, waits_of};
pub use seconds::Second;
pub use temp_places::{TempPlace, device_name, temp_places};
pub use writer::{Kept, Writer};
