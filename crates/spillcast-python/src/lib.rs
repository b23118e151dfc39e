//! The thin Python binding: Arrow in, Arrow out, progress, Ctrl-C.

/// Stores fields of a row in a dict under their own names.
macro_rules! fields {
    ($dict:ident, $row:expr => $($field:ident)*) => {
        $($dict.set_item(pyo3::intern!($dict.py(), stringify!($field)), &$row.$field)?;)*
    };
}

/// A value of a core type whose fields are attributes of a Python object.
macro_rules! extracted {
    ($($type:ident)::+, $from:expr => $($field:ident)*) => {
        $($type)::+ { $($field: $from.getattr(pyo3::intern!($from.py(), stringify!($field)))?.extract()?,)* }
    };
}

mod arrow;
mod behaviour;
mod bins;
mod cache;
mod capture;
mod columns;
mod emulate;
mod error;
mod gil;
mod observed;
mod output;
mod parquet;
mod probe;
mod recorder;
mod recording;
mod scan;
mod simulate;
mod spark;
mod thread_trace;
mod trace;
mod trace_rows;

use std::path::Path;

use pyo3::prelude::*;
/// The engine that names its temp files like this path, and what such a file contains.
#[pyfunction]
pub fn temp_name_of(path: &str) -> Option<(&'static str, &'static str)> {
    spillcast_core::capture::temp_name_of(Path::new(path)).map(|name| (name.engine, name.kind))
}

/// The size class of an operation of `bytes` bytes, in bytes.
#[pyfunction]
pub fn size_class_bytes(bytes: u64) -> u64 {
    spillcast_core::wait::size_class_bytes(bytes)
}

#[pymodule]
mod _core {
    #[pymodule_export]
    use crate::{
        arrow::{Stream, Table},
        bins::{burst_moments, covered_ns, spread},
        cache::{CacheCurve, CacheRequests},
        capture::{capture_cost, capture_cost_child},
        columns::Memory,
        emulate::Emulation,
        observed::{
            PeakMemory, age_s, group_folders, inputs_of, make_memory_group, memory_groups, mounted,
            status_bytes, temp_of,
        },
        output::{
            PartialFolder, RecordingWriter, check_free, check_output, is_partial, unused_name,
        },
        parquet::{Batches, ParquetReader, ParquetWriter, ZstdReader},
        probe::{Grid, Probe, scratch_prefix},
        recorder::{
            Recorder, Target, check_attaches, describe_machine, source_refusal, try_source,
        },
        recording::Rows,
        scan::Scan,
        simulate::simulate,
        size_class_bytes,
        spark::{SparkApplication, SparkWork},
        temp_name_of,
        thread_trace::{replay_plan, work},
        trace::TraceReader,
    };

    #[pymodule_export]
    #[expect(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_export]
    const IN_MEMORY: [&str; 3] = spillcast_recording::limits::IN_MEMORY;
}
