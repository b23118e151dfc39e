//! What was moved on each file that is no temp file, where a spill that was not recognised shows,
//! and in which folders temp files lie.

use std::collections::BTreeMap;

use spillcast_core::wait::{NameId, Op, RowNames, Wait};

/// Reads and writes of one file; times are None where there were none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FileSums {
    pub written_bytes: i64,
    pub first_write_ns: Option<i64>,
    pub read_bytes: i64,
    pub last_read_ns: Option<i64>,
}

#[derive(Default)]
pub struct OtherFiles(BTreeMap<NameId, FileSums>);

impl OtherFiles {
    pub fn add(&mut self, wait: &Wait) {
        let (Some(file), false) = (wait.file, wait.temp) else { return };
        let (bytes, start_ns) = (wait.bytes.unwrap_or(0), wait.start_ns);
        let sums = self.0.entry(file).or_default();
        match wait.op {
            Op::Read => {
                sums.read_bytes += bytes;
                sums.last_read_ns = sums.last_read_ns.max(Some(start_ns));
            }
            Op::Write => {
                sums.written_bytes += bytes;
                let first_ns = sums.first_write_ns.map_or(start_ns, |ns| ns.min(start_ns));
                sums.first_write_ns = Some(first_ns);
            }
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
