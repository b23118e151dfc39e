//! The rows of a recording: to disk as they come, and as Parquet files when it ends.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use spillcast_core::capture::Waits;
use spillcast_core::wait::{NameId, Names, Op, RowNames, Wait};

use crate::clock::{moved, moved_second};
use crate::columns::{Dictionaries, sample_schema, second_columns, wait_columns};
use crate::files::{FileSums, OtherFiles, TempFiles};
use crate::parquet_file::{ParquetFile, write_empty};
use crate::parts::{Bounds, Parts};
use crate::seconds::Second;

const PARTS: &str = "parts";
const SECONDS: &str = "seconds.packed";

/// Writes the waits and seconds of one recording into a folder.
pub struct Writer {
    folder: PathBuf,
    parts: Parts,
    seconds: BufWriter<File>,
    seconds_count: u64,
    waits_count: u64,
    names: RowNames,
    from: Option<Renamed>,
    packed: Vec<u8>,
}

/// What a recording holds in the end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kept {
    /// Waits of the run that were written, and those that came in.
    pub waits: u64,
    pub waits_seen: u64,
    /// Start and end of the parts of which waits are kept, since the recording's start; None where
    /// it is all of them.
    pub slices_ns: Option<Vec<(i64, i64)>>,
    /// Bytes written to temp files, and to others.
    pub written_bytes: (i64, i64),
    /// Files that are no temp files, as the waits that are kept tell.
    pub other_files: Vec<(String, FileSums)>,
    /// Bytes read and written on temp files by the folder that they lie in, as far as those waits
    /// tell.
    pub temp_folders: BTreeMap<String, i64>,
}

impl Writer {
    /// Writes into `folder`, which is there.
    pub fn new(folder: PathBuf, bounds: Bounds) -> io::Result<Writer> {
        Ok(Writer {
            parts: Parts::new(folder.join(PARTS), bounds)?,
            seconds: BufWriter::new(File::create_new(folder.join(SECONDS))?),
            folder,
            seconds_count: 0,
            waits_count: 0,
            names: RowNames::default(),
            from: None,
            packed: Vec::new(),
        })
    }

    /// Takes raw waits.
    pub fn add_waits(&mut self, waits: &Waits) -> io::Result<()> {
        let mut from = match self.from.take() {
            Some(from) if Arc::ptr_eq(&from.names, &waits.names) => from,
            _ => Renamed { names: waits.names.clone(), ..Renamed::default() },
        };
        from.learn(&mut self.names);
        for wait in waits.rows.iter() {
            self.parts.add(&from.rename(wait))?;
        }
        self.waits_count += waits.rows.len() as u64;
        self.from = Some(from);
        self.parts.thin_out()
    }

    /// Takes per-second rows, which are all kept.
    pub fn add_seconds(&mut self, rows: impl IntoIterator<Item = Second>) -> io::Result<()> {
        for row in rows {
            self.packed.clear();
            row.pack(&mut self.packed);
            self.seconds.write_all(&self.packed)?;
            self.seconds_count += 1;
        }
        Ok(())
    }

    /// Writes waits.parquet, seconds.parquet and a samples.parquet without rows; nothing else
    /// remains in the folder of what was written here. Times count from `zero_ns`.
    pub fn finish(mut self, zero_ns: i64) -> io::Result<Kept> {
        let kept = self.parts.kept()?;
        let rows = kept.iter().map(|part| part.1).sum::<u64>();
        let (mut others, mut temp) = (OtherFiles::default(), TempFiles::default());
        let add = |wait: &Wait| {
            others.add(wait);
            temp.add(wait);
        };
        let written = self.finish_waits(&kept, zero_ns, add)?;
        let dropped = rows - written;
        let slices_ns = || kept.iter().map(|part| self.parts.span_ns(part.0)).collect();
        let slices_ns = (rows != self.waits_count).then(slices_ns);
        let written_bytes = self.finish_seconds(zero_ns)?;
        write_empty(&self.folder.join("samples.parquet"), &sample_schema())?;
        fs::remove_file(self.folder.join(SECONDS))?;
        self.parts.remove()?;
        Ok(Kept {
            waits: written,
            waits_seen: self.waits_count - dropped,
            slices_ns,
            written_bytes,
            other_files: others.named(&self.names),
            temp_folders: temp.folders(&self.names),
        })
    }

    fn finish_waits(
        &self,
        kept: &[(i64, u64)],
        zero_ns: i64,
        mut see: impl FnMut(&Wait),
    ) -> io::Result<u64> {
        let names = Dictionaries::new(&self.names);
        let columns = |rows: &[Wait]| wait_columns(rows, &names);
        let mut file = ParquetFile::new(&self.folder.join("waits.parquet"), columns)?;
        let mut written = 0;
        for &(index, _) in kept {
            self.parts.read(index, |wait| match moved(wait, zero_ns) {
                Some(wait) => {
                    written += 1;
                    see(&wait);
                    file.add(wait)
                }
                None => Ok(()),
            })?;
        }
        file.finish()?;
        Ok(written)
    }

    fn finish_seconds(&mut self, zero_ns: i64) -> io::Result<(i64, i64)> {
        self.seconds.flush()?;
        let mut packed = BufReader::new(File::open(self.folder.join(SECONDS))?);
        let mut file = ParquetFile::new(&self.folder.join("seconds.parquet"), second_columns)?;
        let (mut temp_bytes, mut other_bytes) = (0, 0);
        for _ in 0..self.seconds_count {
            let Some(row) = moved_second(Second::unpack(&mut packed)?, zero_ns) else { continue };
            match (row.op, row.temp) {
                (Op::Write, true) => temp_bytes += row.bytes,
                (Op::Write, false) => other_bytes += row.bytes,
                _ => (),
            }
            file.add(row)?;
        }
        file.finish()?;
        Ok((temp_bytes, other_bytes))
    }
}

/// Names of whoever hands waits over, and what they are here.
#[derive(Default)]
struct Renamed {
    names: Arc<Mutex<RowNames>>,
    events: Vec<NameId>,
    files: Vec<NameId>,
    sql: Vec<NameId>,
}

impl Renamed {
    /// Takes in the names that are new there.
    fn learn(&mut self, ours: &mut RowNames) {
        let theirs = self.names.lock().expect("no holder panics");
        let add = |known: &mut Vec<NameId>, theirs: &Names, ours: &mut Names| {
            let new = &theirs.list()[known.len()..];
            known.extend(new.iter().map(|name| ours.id(name)));
        };
        add(&mut self.events, &theirs.events, &mut ours.events);
        add(&mut self.files, &theirs.files, &mut ours.files);
        add(&mut self.sql, &theirs.sql, &mut ours.sql);
    }

    fn rename(&self, wait: Wait) -> Wait {
        let renamed = |ids: &[NameId], id: NameId| ids[id as usize];
        Wait {
            event: renamed(&self.events, wait.event),
            file: wait.file.map(|id| renamed(&self.files, id)),
            sql_id: wait.sql_id.map(|id| renamed(&self.sql, id)),
            ..wait
        }
    }
}
