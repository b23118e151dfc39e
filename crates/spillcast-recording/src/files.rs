//! What was moved on each file that is no temp file, and in which folders temp files lie.

use std::collections::BTreeMap;

use spillcast_core::wait::{NameId, Op, RowNames, Wait};

/// Bytes of one file.
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

    /// The files by their names.
    pub fn named(self, names: &RowNames) -> Vec<(String, FileSums)> {
        let name = |id: NameId| names.files.list()[id as usize].clone();
        self.0.into_iter().map(|(id, sums)| (name(id), sums)).collect()
    }
}

/// Bytes read and written by temp file.
#[derive(Default)]
pub struct TempFiles(BTreeMap<NameId, i64>);

impl TempFiles {
    pub fn add(&mut self, wait: &Wait) {
        let (Some(file), true, Op::Read | Op::Write) = (wait.file, wait.temp, wait.op) else {
            return;
        };
        *self.0.entry(file).or_default() += wait.bytes.unwrap_or(0);
    }

    /// The same by the folder that they lie in.
    pub fn folders(self, names: &RowNames) -> BTreeMap<String, i64> {
        let mut folders = BTreeMap::new();
        for (id, bytes) in self.0 {
            let name = &names.files.list()[id as usize];
            let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
            *folders.entry(folder.to_owned()).or_default() += bytes;
        }
        folders
    }
}
