//! The largest files of a process: temp files that it held before, and other files that it read.

use std::collections::BTreeMap;
use std::fs;

use serde::{Deserialize, Serialize};

use spillcast_core::proc::{DELETED_MARK, descriptors, family};

/// More files add no information about the progress of a query.
const FILES_MAX: usize = 64;
/// Files below these folders hold no data.
const NO_DATA: [&str; 3] = ["/dev/", "/proc/", "/sys/"];

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct SizedFile {
    pub file: String,
    pub bytes: u64,
}

impl SizedFile {
    pub fn list(sizes: impl IntoIterator<Item = (String, u64)>) -> Vec<SizedFile> {
        sizes.into_iter().map(|(file, bytes)| SizedFile { file, bytes }).collect()
    }
}

/// The files that a process and its descendants have open now, each with its size.
pub fn open_files(pid: i32) -> BTreeMap<String, u64> {
    let mut sizes = BTreeMap::new();
    for (link, shown) in family(pid).into_iter().flat_map(descriptors) {
        let Ok(meta) = fs::metadata(link) else { continue };
        let name = shown.to_string_lossy();
        if holds_data(&name) {
            sizes.insert(name.strip_suffix(DELETED_MARK).unwrap_or(&name).to_owned(), meta.len());
        }
    }
    sizes
}

/// Of the files that existed before, those in folders of temp files, largest first.
pub fn temp_of(before: Vec<SizedFile>, in_folder: impl Fn(&str) -> bool) -> Vec<SizedFile> {
    let folder = |name: &str| name.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
    let is_temp = |file: &SizedFile| file.bytes > 0 && in_folder(&folder(&file.file));
    largest(before.into_iter().filter(is_temp).collect())
}

/// The largest existing files that are not temp, from the bytes read of each by name.
pub fn inputs_of<'a>(read_bytes: impl IntoIterator<Item = (&'a String, i64)>) -> Vec<SizedFile> {
    let read = read_bytes.into_iter().filter(|(name, bytes)| *bytes > 0 && holds_data(name));
    let sized = read.filter_map(|(name, _)| Some((name.clone(), fs::metadata(name).ok()?.len())));
    largest(SizedFile::list(sized))
}

fn holds_data(name: &str) -> bool {
    name.starts_with('/') && !NO_DATA.iter().any(|start| name.starts_with(start))
}

fn largest(mut files: Vec<SizedFile>) -> Vec<SizedFile> {
    files.sort_by(|left, right| (right.bytes, &left.file).cmp(&(left.bytes, &right.file)));
    files.truncate(FILES_MAX);
    files
}
