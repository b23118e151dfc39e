//! The files contain what a capture passes on, tested without Python.

use std::fs::File;
use std::path::Path;

use arrow_array::RecordBatch;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use spillcast_core::capture::{Batch, Second, Waits};
use spillcast_core::wait::{Op, RowNames, Wait};
use spillcast_recording::{Bounds, Writer, each_wait, seconds_of};

const S: i64 = 1_000_000_000;

fn wait(names: &mut RowNames, start_ns: i64, file: &str) -> Wait {
    let (event, file) = (names.events.id("pread64"), names.files.id(file));
    Wait {
        temp: true,
        file: Some(file),
        bytes: Some(8192),
        cpu_before_ns: Some(5),
        ..Wait::new(7, event, Op::Read, (start_ns, 100))
    }
}

/// The rows of a file.
fn batches(path: &Path) -> impl Iterator<Item = RecordBatch> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap();
    reader.build().unwrap().map(Result::unwrap)
}

/// Start and file of each wait in the file.
fn read(path: &Path) -> Vec<(i64, String)> {
    let (mut names, mut rows) = (RowNames::default(), Vec::new());
    for batch in batches(path) {
        each_wait(&batch, &mut names, |wait, names| {
            rows.push((wait.start_ns, names.files.list()[wait.file.unwrap() as usize].clone()));
        })
        .unwrap();
    }
    rows
}

fn writer(folder: &Path) -> Writer {
    Writer::new(folder.into(), Bounds::of(None)).unwrap()
}

#[test]
fn rows_of_several_batches_are_in_one_file_with_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = writer(folder.path());
    let names = Waits::default().names;
    let batch = |rows: &[(i64, &str)], seconds| {
        let mut waits = Waits { names: names.clone(), ..Waits::default() };
        for (start_ns, file) in rows {
            waits.rows.push(&wait(&mut names.lock().unwrap(), *start_ns, file));
        }
        Batch { waits, seconds }
    };
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
    writer.add_batch(&batch(&[(2 * S, "/b"), (0, "/a")], vec![]));
    writer.add_batch(&Batch::default());
    writer.add_batch(&batch(&[(3 * S, "/c"), (4 * S, "/b")], vec![second.clone()]));

    let kept = writer.finish(2 * S).unwrap();
    assert_eq!((kept.waits, kept.waits_seen, kept.slices_ns), (3, 3, None));
    assert_eq!(kept.written_bytes, (0, 16_384));
    let expected = [(0, "/b"), (S, "/c"), (2 * S, "/b")];
    let files = read(&folder.path().join("waits.parquet"));
    assert_eq!(files, expected.map(|(start_ns, file)| (start_ns, file.to_owned())));
    let seconds = batches(&folder.path().join("seconds.parquet")).next().unwrap();
    assert_eq!(seconds_of(&seconds).unwrap(), [Second { second: 1, ..second }]);
    let mut left: Vec<_> =
        folder.path().read_dir().unwrap().map(|f| f.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["samples.parquet", "seconds.parquet", "waits.parquet"]);
}

#[test]
#[should_panic]
fn rows_of_two_captures_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = writer(folder.path());
    for _ in 0..2 {
        let mut waits = Waits::default();
        waits.rows.push(&wait(&mut waits.names.lock().unwrap(), 0, "/a"));
        writer.add_batch(&Batch { waits, ..Batch::default() });
    }
}
