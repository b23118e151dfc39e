//! Bytes transferred: by file for files that are not temp, and by folder and kind for temp files.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use spillcast_core::capture::{TempName, temp_name_of};
use spillcast_core::wait::{NameId, Op, RowNames, Wait};

/// Reads and writes of a file, or of temp files of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct FileSums {
    pub reads: i64,
    pub read_bytes: i64,
    pub writes: i64,
    pub written_bytes: i64,
    pub total_s: f64,
}

impl FileSums {
    fn add(&mut self, more: FileSums) {
        self.reads += more.reads;
        self.read_bytes += more.read_bytes;
        self.writes += more.writes;
        self.written_bytes += more.written_bytes;
        self.total_s += more.total_s;
    }
}

/// Temp files of one kind, derived from their names.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TempKind {
    engine: &'static str,
    kind: &'static str,
    #[serde(flatten)]
    sums: FileSums,
}

/// The sums of each file.
#[derive(Default)]
pub struct Files {
    temp: BTreeMap<NameId, FileSums>,
    other: BTreeMap<NameId, FileSums>,
}

impl Files {
    pub fn add(&mut self, wait: &Wait) {
        let Some(file) = wait.file else { return };
        let (bytes, total_s) = (wait.bytes.unwrap_or(0), wait.elapsed_ns as f64 / 1e9);
        let sums = match wait.op {
            Op::Read => FileSums { reads: 1, read_bytes: bytes, total_s, ..FileSums::default() },
            Op::Write => {
                FileSums { writes: 1, written_bytes: bytes, total_s, ..FileSums::default() }
            }
            Op::Null if wait.temp => return,
            Op::Null => FileSums::default(),
        };
        let files = if wait.temp { &mut self.temp } else { &mut self.other };
        files.entry(file).or_default().add(sums);
    }

    /// The sums of files that are not temp.
    pub fn others(&self, names: &RowNames) -> Vec<(String, FileSums)> {
        let name = |id: NameId| names.files.list()[id as usize].clone();
        self.other.iter().map(|(&id, &sums)| (name(id), sums)).collect()
    }

    /// Bytes of temp files by folder.
    pub fn temp_folders(&self, names: &RowNames) -> BTreeMap<String, i64> {
        let mut folders = BTreeMap::new();
        for (&id, sums) in &self.temp {
            let name = &names.files.list()[id as usize];
            let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
            *folders.entry(folder.to_owned()).or_default() += sums.read_bytes + sums.written_bytes;
        }
        folders
    }

    /// Temp files by kind, the largest first. Files whose names match no engine are left out.
    pub fn temp_kinds(&self, names: &RowNames) -> Vec<TempKind> {
        let mut kinds: Vec<TempKind> = Vec::new();
        for (&id, &sums) in &self.temp {
            let path = Path::new(&names.files.list()[id as usize]);
            let Some(TempName { engine, kind, .. }) = temp_name_of(path) else { continue };
            match kinds.iter_mut().find(|known| (known.engine, known.kind) == (engine, kind)) {
                Some(known) => known.sums.add(sums),
                None => kinds.push(TempKind { engine, kind, sums }),
            }
        }
        kinds.sort_by_key(|kind| -(kind.sums.read_bytes + kind.sums.written_bytes));
        kinds
    }
}
