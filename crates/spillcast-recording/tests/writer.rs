//! The files contain what a capture passes on, tested without Python.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use spillcast_core::capture::{Second, Waits};
use spillcast_core::wait::{Op, Wait};
use spillcast_recording::{Bounds, Writer, seconds_of, waits_of};

const S: i64 = 1_000_000_000;

fn wait(waits: &Waits, start_ns: i64, file: &str) -> Wait {
    let mut names = waits.names.lock().unwrap();
    let (event, file) = (names.events.id("pread64"), names.files.id(file));
    Wait {
        temp: true,
        file: Some(file),
        bytes: Some(8192),
        cpu_before_ns: Some(5),
        ..Wait::new(7, event, Op::Read, (start_ns, 100))
    }
}

/// Start and file of each wait in the file.
fn read(path: &Path) -> Vec<(i64, String)> {
    let batches = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap();
    let of_batch = |waits: Waits| {
        let names = waits.names.lock().unwrap().files.clone();
        let named = |wait: Wait| (wait.start_ns, names.list()[wait.file.unwrap() as usize].clone());
        waits.rows.iter().map(named).collect::<Vec<_>>()
    };
    batches
        .build()
        .unwrap()
        .flat_map(|batch| of_batch(waits_of(&batch.unwrap()).unwrap()))
        .collect()
}

#[test]
fn rows_of_several_batches_are_in_one_file_with_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = Writer::new(folder.path().into(), Bounds::of(None)).unwrap();
    let (mut first, mut other) = (Waits::default(), Waits::default());
    let rows = [(2 * S, "/b"), (0, "/a")];
    for (start_ns, file) in rows {
        first.rows.push(&wait(&first, start_ns, file));
    }
    // The same capture later, and one whose names have other ids.
    let mut later = Waits { names: Arc::clone(&first.names), ..Waits::default() };
    later.rows.push(&wait(&later, 3 * S, "/c"));
    other.rows.push(&wait(&other, 4 * S, "/c"));
    for waits in [&first, &later, &other] {
        writer.add_waits(waits);
    }
    let second = Second {
        second: 3,
        op: Op::Write,
        temp: false,
        file: None,
        size_class_bytes: 8192,
        count: 2,
        bytes: 16_384,
        total_ns: 300,
        by_latency_ns: [(100, 1), (200, 1)].into_iter().collect(),
    };
    writer.add_seconds(std::slice::from_ref(&second));

    let kept = writer.finish(2 * S).unwrap();
    assert_eq!((kept.waits, kept.waits_seen, kept.slices_ns), (3, 3, None));
    assert_eq!(kept.written_bytes, (0, 16_384));
    let expected = [(0, "/b"), (S, "/c"), (2 * S, "/c")];
    let files = read(&folder.path().join("waits.parquet"));
    assert_eq!(files, expected.map(|(start_ns, file)| (start_ns, file.to_owned())));
    let file = File::open(folder.path().join("seconds.parquet")).unwrap();
    let mut batches = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
    let seconds = seconds_of(&batches.next().unwrap().unwrap()).unwrap();
    assert_eq!(seconds, [Second { second: 1, ..second }]);
    let mut left: Vec<_> =
        folder.path().read_dir().unwrap().map(|f| f.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["samples.parquet", "seconds.parquet", "waits.parquet"]);
}
