//! Bytes transferred: by file for files that are not temp, and by folder and kind for temp files.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use spillcast_core::capture::{TempName, temp_name_of};
use spillcast_core::wait::{NameId, Op, RowNames, Wait};

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FileSums {
    pub written_bytes: i64,
    pub read_bytes: i64,
}

#[derive(Default)]
pub struct OtherFiles(BTreeMap<NameId, FileSums>);

impl OtherFiles {
    pub fn add(&mut self, wait: &Wait) {
        let (Some(file), false) = (wait.file, wait.temp) else { return };
        let bytes = wait.bytes.unwrap_or(0);
        let sums = self.0.entry(file).or_default();
        match wait.op {
            Op::Read => sums.read_bytes += bytes,
            Op::Write => sums.written_bytes += bytes,
            Op::Null => (),
        }
    }

    pub fn named(self, names: &RowNames) -> Vec<(String, FileSums)> {
        let name = |id: NameId| names.files.list()[id as usize].clone();
        self.0.into_iter().map(|(id, sums)| (name(id), sums)).collect()
    }
}

/// Reads and writes of temp files of one kind, derived from their names.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TempKind {
    engine: &'static str,
    kind: &'static str,
    #[serde(flatten)]
    sums: TempSums,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct TempSums {
    pub reads: i64,
    pub read_bytes: i64,
    pub writes: i64,
    pub written_bytes: i64,
    pub total_s: f64,
}

impl TempSums {
    fn add(&mut self, more: TempSums) {
        self.reads += more.reads;
        self.read_bytes += more.read_bytes;
        self.writes += more.writes;
        self.written_bytes += more.written_bytes;
        self.total_s += more.total_s;
    }
}

#[derive(Default)]
pub struct TempFiles(BTreeMap<NameId, TempSums>);

impl TempFiles {
    pub fn add(&mut self, wait: &Wait) {
        let (Some(file), true) = (wait.file, wait.temp) else { return };
        let (bytes, total_s) = (wait.bytes.unwrap_or(0), wait.elapsed_ns as f64 / 1e9);
        let sums = match wait.op {
            Op::Read => TempSums { reads: 1, read_bytes: bytes, total_s, ..TempSums::default() },
            Op::Write => {
                TempSums { writes: 1, written_bytes: bytes, total_s, ..TempSums::default() }
            }
            Op::Null => return,
        };
        self.0.entry(file).or_default().add(sums);
    }

    /// Bytes by the folder of the files.
    pub fn folders(&self, names: &RowNames) -> BTreeMap<String, i64> {
        let mut folders = BTreeMap::new();
        for (&id, sums) in &self.0 {
            let name = &names.files.list()[id as usize];
            let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
            *folders.entry(folder.to_owned()).or_default() += sums.read_bytes + sums.written_bytes;
        }
        folders
    }

    /// Sums by kind, the largest first. Files whose names match no engine are left out.
    pub fn kinds(&self, names: &RowNames) -> Vec<TempKind> {
        let mut kinds: Vec<TempKind> = Vec::new();
        for (&id, &sums) in &self.0 {
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
