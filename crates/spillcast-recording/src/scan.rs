//! One pass over the waits of a recording, few of which stay in memory: sums of all waits, and the
//! waits that start within slices of the run.

use std::sync::{Arc, Mutex};

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use spillcast_core::capture::Waits;
use spillcast_core::packed::Packed;
use spillcast_core::simulate::{CachedReads, Io};
use spillcast_core::wait::{Op, RowNames};

use crate::rows::{WaitColumns, name, number};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    pub rows: u64,
    pub bytes: i64,
    pub elapsed_ns: i64,
    /// The end of the last wait.
    pub end_ns: i64,
}

/// Takes the waits of a recording in order.
#[derive(Default)]
pub struct Scan {
    /// Start and end of each slice, by time, without overlap.
    edges_ns: Vec<i64>,
    /// By slice, its part of the sample.
    parts: Vec<usize>,
    cached: Option<CachedReads>,
    names: RowNames,
    rows: Packed,
    pub sums: Sums,
    /// By file, the most bytes that it held; the first entry is for rows without a file name.
    held_bytes: Vec<u64>,
    unplaced: u64,
    /// Number of edges before the last row.
    edge: usize,
}

impl Scan {
    /// Keeps the rows of slices. `cached` estimates which reads of temp files the page cache
    /// served.
    pub fn new(slices_ns: &[(i64, i64)], parts: Vec<usize>, cached: Option<CachedReads>) -> Scan {
        Scan {
            edges_ns: slices_ns.iter().flat_map(|&(begin, end)| [begin, end]).collect(),
            parts,
            cached,
            held_bytes: vec![0],
            ..Scan::default()
        }
    }

    /// Takes the next rows. Fails if the columns are not those of waits.
    pub fn push(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        let columns = WaitColumns::of(batch, &mut self.names)?;
        self.held_bytes.resize(self.names.files.list().len() + 1, 0);
        self.sums.rows += batch.num_rows() as u64;
        for at in 0..batch.num_rows() {
            let start_ns = columns.start_ns.value(at);
            let elapsed_ns = columns.elapsed_ns.value(at);
            self.sums.elapsed_ns += elapsed_ns;
            self.sums.bytes += number(&columns.bytes, at).unwrap_or(0);
            self.sums.end_ns = self.sums.end_ns.max(start_ns + elapsed_ns);
            let slice = self.slice_of(start_ns);
            if columns.is_temp_io(at) {
                self.temp_io(&columns, at, slice);
            }
            if slice.is_some() {
                self.rows.push(&columns.wait(at));
            }
        }
        Ok(())
    }

    /// The slice of a row that starts at `start_ns`.
    fn slice_of(&mut self, start_ns: i64) -> Option<usize> {
        // Rows are almost in order, so the edge is usually that of the previous row.
        let edge = |at: usize| self.edges_ns.get(at).copied().unwrap_or(i64::MAX);
        let is_last =
            self.edge > 0 && edge(self.edge - 1) <= start_ns && start_ns < edge(self.edge);
        if !is_last {
            self.edge = self.edges_ns.partition_point(|&edge| edge <= start_ns);
        }
        (self.edge % 2 == 1).then_some(self.edge / 2)
    }

    fn temp_io(&mut self, columns: &WaitColumns, at: usize, slice: Option<usize>) {
        let file = name(&columns.file, at);
        let offset = number(&columns.offset, at).and_then(|offset| u64::try_from(offset).ok());
        let bytes = number(&columns.bytes, at).map(|bytes| bytes as u64);
        if let Some(offset) = offset {
            let held = &mut self.held_bytes[file.map_or(0, |file| file as usize + 1)];
            *held = bytes.map_or(0, |bytes| offset.saturating_add(bytes)).max(*held);
        } else {
            self.unplaced += 1;
        }
        if let (Some(cached), Some(bytes @ 1..)) = (&mut self.cached, bytes) {
            let op = name(&columns.op, at).unwrap_or(Op::Null);
            let file = file.unwrap_or_else(|| self.names.files.id(""));
            let waited = (columns.session.value(at), columns.elapsed_ns.value(at));
            let io = Io { op, file, offset, bytes, ..Io::default() };
            cached.push(io, waited, slice.map(|slice| (self.parts[slice], self.rows.row_count())));
        }
    }

    /// The most bytes that the temp files held together: the sum of their ends, as if none was
    /// removed; and the number of operations with unknown offsets.
    pub fn held_bytes(&self) -> (u64, u64) {
        (self.held_bytes.iter().fold(0, |sum, &held| sum.saturating_add(held)), self.unplaced)
    }

    /// The rows of the slices and, if `cached` was given, by row the bytes that a page cache of
    /// `room_bytes` lacked, for reads of temp files.
    pub fn into_rows(self, room_bytes: u64) -> (Waits, Option<Vec<Option<u64>>>) {
        let count = self.rows.row_count();
        let waits = Waits { rows: self.rows, names: Arc::new(Mutex::new(self.names)) };
        let missing = self.cached.map(|cached| {
            let mut missing = vec![None; count];
            for (row, bytes) in cached.missing_bytes(room_bytes) {
                missing[row] = Some(bytes);
            }
            missing
        });
        (waits, missing)
    }
}

#[cfg(test)]
mod tests {
    use spillcast_core::wait::Wait;

    use super::*;
    use crate::columns::{Dictionaries, wait_columns};

    /// Writes of temp files: start (ns), file, offset and bytes.
    fn scanned(scan: Scan, writes: &[(i64, &str, Option<i64>, i64)]) -> Scan {
        let mut scan = scan;
        for part in writes.chunks(2) {
            let mut names = RowNames::default();
            let event = names.events.id("pwrite64");
            let wait = |&(start_ns, file, offset, bytes): &(i64, &str, Option<i64>, i64)| Wait {
                temp: true,
                file: Some(names.files.id(file)),
                offset,
                bytes: Some(bytes),
                ..Wait::new(1, event, Op::Write, (start_ns, 10))
            };
            let rows: Vec<Wait> = part.iter().map(wait).collect();
            scan.push(&wait_columns(&rows, &Dictionaries::new(&names)).unwrap()).unwrap();
        }
        scan
    }

    #[test]
    fn held_bytes_count_up_to_the_end_of_each_file() {
        let writes = [
            (0, "a", Some(65536), 8192),
            (10, "a", Some(0), 8192),
            (20, "b", Some(0), 100),
            (30, "c", None, 5),
        ];
        let scan = scanned(Scan::new(&[], Vec::new(), None), &writes);
        assert_eq!(scan.held_bytes(), (73728 + 100, 1));
        let sums = Sums { rows: 4, bytes: 16489, elapsed_ns: 40, end_ns: 40 };
        assert_eq!(scan.sums, sums);
    }

    #[test]
    fn rows_that_start_within_a_slice_are_kept_in_any_order() {
        let starts = [9, 30, 10, 39, 19, 20, 12, 40, 35];
        let writes: Vec<_> = starts.iter().map(|&start| (start, "a", Some(0), 1)).collect();
        let scan = scanned(Scan::new(&[(10, 20), (30, 40)], vec![0, 1], None), &writes);
        let (waits, missing) = scan.into_rows(0);
        let kept: Vec<i64> = waits.rows.iter().map(|wait| wait.start_ns).collect();
        assert_eq!(kept, [30, 10, 39, 19, 12, 35]);
        assert!(missing.is_none());
    }
}
