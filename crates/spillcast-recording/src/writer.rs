//! The rows of a recording: written to disk as they arrive, and to Parquet files at the end.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use spillcast_core::capture::{Batch, Second};
use spillcast_core::wait::{Op, RowNames, Wait};

use crate::columns::{Dictionaries, sample_schema, second_columns, wait_columns};
use crate::files::{FileSums, Files, TempKind};
use crate::meta::RowSums;
use crate::parquet_file::{BatchFile, ParquetFile};
use crate::parts::{Bounds, Parts, make_folder};
use crate::rows::{each_wait, seconds_of};
use crate::seconds::SecondsFile;

const PARTS: &str = "parts";
const SECONDS: &str = "seconds.packed";

/// Reserved space, so that the per-second rows can be written on a full disk.
const RESERVE: &str = "reserve";
const RESERVE_BYTES: u64 = 1 << 20;

/// Writes the waits and per-second rows of one recording to a folder.
pub struct Writer {
    folder: PathBuf,
    parts: Parts,
    seconds: SecondsFile,
    waits_count: u64,
    /// The names of all rows: those of the capture, if the rows are those of one.
    names: Option<Arc<Mutex<RowNames>>>,
}

/// The final content of a recording.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kept {
    /// Waits of the run that were written, and all waits that arrived.
    pub waits: u64,
    pub waits_seen: u64,
    /// Start and end of the parts whose waits are kept, since the recording's start; None if all
    /// are kept.
    pub slices_ns: Option<Vec<(i64, i64)>>,
    /// Why waits were dropped that should have been kept; None if there is no such reason.
    pub because: Option<String>,
    /// Bytes written to temp files, and to other files.
    pub written_bytes: (i64, i64),
    pub sums: RowSums,
    /// Files that are not temp, from the waits that are kept.
    pub other_files: Vec<(String, FileSums)>,
    /// Bytes read and written on temp files by folder, from the waits that are kept.
    pub temp_folders: BTreeMap<String, i64>,
    /// Temp I/O by kind of file, from the waits that are kept.
    pub temp_kinds: Vec<TempKind>,
}

impl Writer {
    /// Writes to the existing `folder`. Fails if it cannot be written or has no room.
    pub fn new(folder: PathBuf, bounds: Bounds) -> io::Result<Writer> {
        let reserve = File::create_new(folder.join(RESERVE))?;
        match fallocate(&reserve, FallocateFlags::empty(), 0, RESERVE_BYTES) {
            // Some file systems do not support it.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => (),
            Err(error) => return Err(error.into()),
        }
        Ok(Writer {
            parts: Parts::new(folder.join(PARTS), bounds)?,
            seconds: SecondsFile::new(&folder.join(SECONDS))?,
            folder,
            waits_count: 0,
            names: None,
        })
    }

    /// Adds the rows of a capture. All rows of a recording are those of one capture, or columns.
    pub fn add_batch(&mut self, Batch { waits, seconds }: &Batch) {
        if waits.rows.row_count() == 0 && seconds.is_empty() {
            return;
        }
        let names = self.names.get_or_insert_with(|| waits.names.clone());
        assert!(Arc::ptr_eq(names, &waits.names), "rows of another capture");
        waits.rows.iter().for_each(|wait| self.parts.add(&wait));
        self.waits_count += waits.rows.row_count() as u64;
        self.parts.thin_out();
        seconds.iter().for_each(|row| self.seconds.add(row));
    }

    /// Adds waits from columns. Fails if they are not those of waits.
    pub fn add_waits(&mut self, columns: &RecordBatch) -> Result<(), ArrowError> {
        let names = self.names.get_or_insert_default();
        let mut names = names.lock().expect("no holder panics");
        each_wait(columns, &mut names, |wait, _| self.parts.add(wait))?;
        self.waits_count += columns.num_rows() as u64;
        self.parts.thin_out();
        Ok(())
    }

    /// Adds per-second rows from columns. Fails if they are not those of such rows.
    pub fn add_seconds(&mut self, columns: &RecordBatch) -> Result<(), ArrowError> {
        seconds_of(columns)?.iter().for_each(|row| self.seconds.add(row));
        Ok(())
    }

    /// Writes waits.parquet, seconds.parquet and a samples.parquet without rows; removes all other
    /// files that it wrote, and creates the folder again if it is gone. Times are relative to
    /// `zero_ns`. Fails if not even the per-second rows can be written.
    pub fn finish(mut self, zero_ns: i64) -> io::Result<Kept> {
        make_folder(&self.folder)?;
        let names = self.names.take().unwrap_or_default();
        let names = names.lock().expect("no holder panics").clone();
        let mut kept = self.finish_waits(&names, zero_ns)?;
        let _ = fs::remove_file(self.folder.join(RESERVE));
        loop {
            match self.finish_seconds(&names, zero_ns, &mut kept) {
                Ok(()) => break,
                Err(error) if !self.parts.keeps_any() => return Err(error),
                // The waits are written, and take up the space.
                Err(error) => {
                    self.parts.use_fewer(error);
                    kept = self.finish_waits(&names, zero_ns)?;
                }
            }
        }
        let _ = fs::remove_file(self.folder.join(SECONDS));
        self.parts.remove();
        Ok(kept)
    }

    /// Writes the waits, or fewer if there is no room for all.
    fn finish_waits(&mut self, names: &RowNames, zero_ns: i64) -> io::Result<Kept> {
        loop {
            let kept = self.parts.kept();
            match self.write_waits(names, &kept, zero_ns) {
                Ok(kept_waits) => return Ok(kept_waits),
                Err(_) if kept.is_empty() && fs::remove_file(self.folder.join(RESERVE)).is_ok() => {
                }
                Err(error) if kept.is_empty() => return Err(error),
                Err(error) => self.parts.use_fewer(error),
            }
        }
    }

    fn write_waits(&self, names: &RowNames, kept: &[(i64, u64)], zero_ns: i64) -> io::Result<Kept> {
        let dictionaries = Dictionaries::new(names);
        let columns = |rows: &[Wait]| wait_columns(rows, &dictionaries);
        let mut file = ParquetFile::new(&self.folder.join("waits.parquet"), columns)?;
        let (mut written, mut sums, mut files) = (0, RowSums::default(), Files::default());
        for &(index, _) in kept {
            self.parts.read(index, |wait| match moved(wait, zero_ns) {
                Some(wait) => {
                    let wait = names.settled(wait);
                    written += 1;
                    sums.waits_bytes = sums.waits_bytes.wrapping_add(wait.bytes.unwrap_or(0));
                    sums.waits_ns = sums.waits_ns.wrapping_add(wait.elapsed_ns);
                    files.add(&wait);
                    file.add(wait)
                }
                None => Ok(()),
            })?;
        }
        file.finish()?;
        let rows = kept.iter().map(|part| part.1).sum::<u64>();
        let slices_ns = || kept.iter().map(|part| self.parts.span_ns(part.0)).collect();
        let all = rows == self.waits_count;
        Ok(Kept {
            waits: written,
            waits_seen: self.waits_count - (rows - written),
            slices_ns: (!all).then(slices_ns),
            because: self.parts.trouble.as_ref().filter(|_| !all).map(because),
            written_bytes: (0, 0),
            sums,
            other_files: files.others(names),
            temp_folders: files.temp_folders(names),
            temp_kinds: files.temp_kinds(names),
        })
    }

    fn finish_seconds(
        &mut self,
        names: &RowNames,
        zero_ns: i64,
        kept: &mut Kept,
    ) -> io::Result<()> {
        let mut file = ParquetFile::new(&self.folder.join("seconds.parquet"), second_columns)?;
        self.seconds.read_folded(
            |file| names.temp.get(&file).copied(),
            |row| {
                let Some(row) = moved_second(row, zero_ns) else { return Ok(()) };
                let sums = &mut kept.sums;
                sums.seconds_rows += 1;
                sums.seconds_count = sums.seconds_count.wrapping_add(row.count);
                sums.seconds_bytes = sums.seconds_bytes.wrapping_add(row.bytes);
                sums.seconds_ns = sums.seconds_ns.wrapping_add(row.total_ns);
                match (row.op, row.temp) {
                    (Op::Write, true) => kept.written_bytes.0 += row.bytes,
                    (Op::Write, false) => kept.written_bytes.1 += row.bytes,
                    _ => (),
                }
                file.add(row)
            },
        )?;
        file.finish()?;
        let samples = self.folder.join("samples.parquet");
        BatchFile::new(&samples, &sample_schema(), None, Vec::new())?.finish()
    }
}

fn because(trouble: &io::Error) -> String {
    match trouble.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "the disk was full".into(),
        io::ErrorKind::NotFound => "its folder was removed meanwhile".into(),
        _ => trouble.to_string(),
    }
}

const S_NS: i64 = 1_000_000_000;

/// Shifts a wait to a clock that starts at `zero_ns`; None if it ended before.
///
/// A wait that started before keeps only its part after it, and no CPU time before the wait.
fn moved(mut wait: Wait, zero_ns: i64) -> Option<Wait> {
    if zero_ns == 0 {
        return Some(wait);
    }
    let end_ns = wait.start_ns + wait.elapsed_ns;
    if wait.start_ns < zero_ns {
        if end_ns <= zero_ns {
            return None;
        }
        (wait.start_ns, wait.elapsed_ns) = (zero_ns, end_ns - zero_ns);
        wait.cpu_before_ns = Some(0);
    }
    wait.start_ns -= zero_ns;
    wait.cpu_before_ns = wait.cpu_before_ns.map(|ns| ns.min(wait.start_ns));
    Some(wait)
}

/// Shifts a per-second row by whole seconds: the first row may include time before zero.
fn moved_second(mut row: Second, zero_ns: i64) -> Option<Second> {
    row.second -= zero_ns.div_euclid(S_NS);
    (row.second >= 0 || zero_ns == 0).then_some(row)
}
