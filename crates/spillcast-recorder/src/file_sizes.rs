//! The largest files of a process: the temp files that it held before, and what else it read.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use spillcast_recording::Kept;

use crate::json::{Value, object};
use crate::machine::family;

/// More files tell no more of how far a query is.
const FILES_MAX: usize = 64;
const DELETED: &str = " (deleted)";
/// What lies there is no file that holds data.
const NO_DATA: [&str; 3] = ["/dev/", "/proc/", "/sys/"];

/// The files that a process and those it started have open now, each with its size.
pub fn open_files(pid: i32) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    for member in family(pid) {
        let entries = fs::read_dir(format!("/proc/{member}/fd")).into_iter().flatten().flatten();
        for entry in entries {
            let (Ok(link), Ok(meta)) = (fs::read_link(entry.path()), fs::metadata(entry.path()))
            else {
                continue;
            };
            let name = link.to_string_lossy();
            if holds_data(&name) {
                found.insert(name.strip_suffix(DELETED).unwrap_or(&name).to_owned(), meta.len());
            }
        }
    }
    found
}

/// `temp_before`: of files that were there before, those in folders of temp files.
pub fn temp_of(before: &BTreeMap<String, u64>, kept: &Kept) -> Value {
    let folder = |name: &str| name.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
    let temp = |name: &str| kept.temp_folders.contains_key(&folder(name));
    let found = before.iter().filter(|(name, bytes)| **bytes > 0 && temp(name));
    largest(found.map(|(name, bytes)| (name.clone(), *bytes)).collect())
}

/// `inputs`: of other files than temp files, those that were read, as they are now.
pub fn inputs(kept: &Kept) -> Value {
    let read = kept.other_files.iter().filter(|(_, sums)| sums.read_bytes > 0);
    let found = read.filter(|(name, _)| holds_data(name)).filter_map(|(name, _)| {
        let size = fs::metadata(Path::new(name)).ok()?.len();
        Some((name.clone(), size))
    });
    largest(found.collect())
}

fn holds_data(name: &str) -> bool {
    name.starts_with('/') && !NO_DATA.iter().any(|start| name.starts_with(start))
}

fn largest(mut files: Vec<(String, u64)>) -> Value {
    files.sort_by(|(one, a), (other, b)| (b, one).cmp(&(a, other)));
    files.truncate(FILES_MAX);
    let document = |(file, bytes): (String, u64)| object! { "file": file, "bytes": bytes };
    Value::List(files.into_iter().map(document).collect())
}
