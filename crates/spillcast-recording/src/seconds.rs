//! Per-second rows, packed during the recording.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Cursor, Read, Seek, SeekFrom, Write};
use std::mem;
use std::path::Path;

use spillcast_core::capture::Second;
use spillcast_core::varint::{get, get_byte, get_signed, put, put_signed};
use spillcast_core::wait::{NameId, Op};

/// Rows of a second arrive within this many seconds.
const FOLDED_S: i64 = 4;

/// Adds a row of the same second, op and size.
fn merge(row: &mut Second, other: Second) {
    row.count += other.count;
    row.bytes += other.bytes;
    row.total_ns += other.total_ns;
    for (ns, count) in other.by_latency_ns {
        row.add_latency(ns, count);
    }
}

fn pack(row: &Second, out: &mut Vec<u8>) {
    out.push(row.op as u8 | (row.temp as u8) << 2 | (row.file.is_some() as u8) << 3);
    row.file.into_iter().for_each(|file| put(out, file.into()));
    for number in [row.second, row.size_class_bytes, row.count, row.bytes, row.total_ns] {
        put_signed(out, number);
    }
    put(out, row.by_latency_ns.len() as u64);
    for (&ns, &count) in &row.by_latency_ns {
        put_signed(out, ns);
        put_signed(out, count);
    }
}

/// Fails on errors of the input; with UnexpectedEof at its end.
fn unpack(input: &mut impl Read) -> io::Result<Second> {
    let flags = get_byte(input)?;
    let op = Op::of_number(flags & 3);
    let file = if flags & 8 != 0 { Some(get(input)? as NameId) } else { None };
    let mut next = || get_signed(input);
    let (second, size_class_bytes, count) = (next()?, next()?, next()?);
    let (bytes, total_ns) = (next()?, next()?);
    let buckets = get(input)?;
    let latencies = (0..buckets).map(|_| Ok((get_signed(input)?, get_signed(input)?)));
    let by_latency_ns = latencies.collect::<io::Result<_>>()?;
    let temp = flags & 4 != 0;
    Ok(Second { second, op, temp, file, size_class_bytes, count, bytes, total_ns, by_latency_ns })
}

/// Per-second rows of a recording in progress: in a file, and in memory once the disk is full.
///
/// The file is read through the descriptor that wrote it, so no other process can remove it.
pub struct SecondsFile {
    file: BufWriter<File>,
    rows: u64,
    /// Rows for which the file had no room.
    more: Vec<u8>,
    packed: Vec<u8>,
}

impl SecondsFile {
    /// Larger than any row, so a row is buffered whole or not at all.
    const BUFFER_BYTES: usize = 1 << 16;

    pub fn new(path: &Path) -> io::Result<SecondsFile> {
        // In append mode, writes after a failed read also go to the end.
        let file = OpenOptions::new().read(true).append(true).create_new(true).open(path)?;
        let file = BufWriter::with_capacity(Self::BUFFER_BYTES, file);
        Ok(SecondsFile { file, rows: 0, more: Vec::new(), packed: Vec::new() })
    }

    pub fn add(&mut self, row: &Second) {
        self.packed.clear();
        pack(row, &mut self.packed);
        if !self.more.is_empty() || self.file.write_all(&self.packed).is_err() {
            self.more.extend_from_slice(&self.packed);
        }
        self.rows += 1;
    }

    /// Passes on the rows by second, once `temp` tells which files are temp: rows of single files
    /// are merged into rows of all files.
    pub fn read_folded(
        &mut self,
        temp: impl Fn(NameId) -> Option<bool>,
        mut each: impl FnMut(Second) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut open: BTreeMap<_, Second> = BTreeMap::new();
        self.read(|mut row| {
            row.temp = row.file.take().and_then(&temp).unwrap_or(row.temp);
            let latest = row.second;
            match open.entry((row.second, row.op, row.temp, row.size_class_bytes)) {
                Entry::Vacant(place) => drop(place.insert(row)),
                Entry::Occupied(place) => merge(place.into_mut(), row),
            }
            // Few rows arrive this late.
            let later = open.split_off(&(latest - FOLDED_S, Op::Read, false, 0));
            mem::replace(&mut open, later).into_values().try_for_each(&mut each)
        })?;
        open.into_values().try_for_each(each)
    }

    /// Passes on all rows in order of arrival.
    fn read(&mut self, mut each: impl FnMut(Second) -> io::Result<()>) -> io::Result<()> {
        // Rows that cannot be written stay in the buffer.
        let _ = self.file.flush();
        let buffered = Cursor::new(self.file.buffer().to_vec());
        let mut file = self.file.get_ref();
        file.seek(SeekFrom::Start(0))?;
        let mut packed = BufReader::new(file).chain(buffered).chain(self.more.as_slice());
        for _ in 0..self.rows {
            each(unpack(&mut packed)?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_read_loses_no_later_row() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = SecondsFile::new(&folder.path().join("seconds")).unwrap();
        // More than is read at a time.
        for second in 0..10_000 {
            file.add(&Second { second, ..Second::default() });
        }
        let full = file.read(|_| Err(io::ErrorKind::StorageFull.into()));
        assert_eq!(full.unwrap_err().kind(), io::ErrorKind::StorageFull);
        file.add(&Second { second: 10_000, ..Second::default() });
        let mut seconds = Vec::new();
        file.read(|row| {
            seconds.push(row.second);
            Ok(())
        })
        .unwrap();
        assert!(seconds.into_iter().eq(0..=10_000));
    }
}
