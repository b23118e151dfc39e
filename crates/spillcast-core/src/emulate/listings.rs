//! The entries of directories as of each open, so that removals do not shift the rest.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::DirEntryExt;
use std::sync::{Arc, Mutex};

use fuser::{FileHandle, FileType, INodeNo};

use crate::lock::lock;

pub struct Entry {
    pub number: INodeNo,
    pub kind: FileType,
    pub name: OsString,
}

#[derive(Default)]
pub(crate) struct Listings {
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    by_handle: HashMap<u64, Arc<Vec<Entry>>>,
    last_handle: u64,
}

impl Listings {
    pub fn open(&self, directory: &File) -> io::Result<FileHandle> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(format!("/proc/self/fd/{}", directory.as_raw_fd()))? {
            let entry = entry?;
            let kind = FileType::from_std(entry.file_type()?).unwrap_or(FileType::RegularFile);
            entries.push(Entry { number: INodeNo(entry.ino()), kind, name: entry.file_name() });
        }
        let mut open = lock(&self.open);
        open.last_handle += 1;
        let handle = open.last_handle;
        open.by_handle.insert(handle, Arc::new(entries));
        Ok(FileHandle(handle))
    }

    pub fn get(&self, handle: FileHandle) -> io::Result<Arc<Vec<Entry>>> {
        let entries = lock(&self.open).by_handle.get(&handle.0).cloned();
        entries.ok_or(io::Error::from_raw_os_error(libc::EBADF))
    }

    pub fn close(&self, handle: FileHandle) {
        lock(&self.open).by_handle.remove(&handle.0);
    }
}
