//! The files and directories that the kernel refers to, each held open under its inode number.
//!
//! A file that is held open can be renamed or unlinked and still be read and written.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use fuser::INodeNo;
use rustix::fs::{Mode, OFlags};

use crate::lock::lock;
use crate::wait::Op;

/// Device and inode number of a backing file: unique as long as the file is held open.
type Key = (u64, u64);

pub(crate) struct Nodes {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    by_number: HashMap<u64, Node>,
    by_key: HashMap<Key, u64>,
    last_number: u64,
}

/// A file that is held open, and the offsets where its last read and its last write ended.
pub struct Held {
    file: File,
    read_end: AtomicU64,
    write_end: AtomicU64,
}

/// No operation of this op was seen yet.
const NONE: u64 = u64::MAX;

impl Held {
    fn new(file: File) -> Held {
        Held { file, read_end: AtomicU64::new(NONE), write_end: AtomicU64::new(NONE) }
    }

    /// Notes an operation; returns whether it begins where the last one of its op ended, within
    /// `tolerance_bytes`. The first one does.
    pub fn follows(&self, op: Op, offset: u64, bytes: u64, tolerance_bytes: u64) -> bool {
        let end = if op == Op::Write { &self.write_end } else { &self.read_end };
        let last = end.swap(offset + bytes, Ordering::Relaxed);
        last == NONE || offset.abs_diff(last) <= tolerance_bytes
    }
}

impl Deref for Held {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

struct Node {
    file: Arc<Held>,
    key: Key,
    /// Number of references that the kernel has not given back.
    lookups: u64,
}

impl Nodes {
    pub fn new(root: File) -> io::Result<Nodes> {
        let nodes = Nodes { table: Mutex::default() };
        let number = nodes.insert(root)?.0;
        assert_eq!(number, INodeNo::ROOT);
        Ok(nodes)
    }

    pub fn get(&self, number: INodeNo) -> io::Result<Arc<Held>> {
        let table = lock(&self.table);
        let node = table.by_number.get(&number.0);
        node.map(|node| node.file.clone()).ok_or(io::Error::from_raw_os_error(libc::ESTALE))
    }

    /// Counts a reference of the kernel to `file`; returns its number and the file held for it.
    pub fn insert(&self, file: File) -> io::Result<(INodeNo, Arc<Held>)> {
        let metadata = file.metadata()?;
        let key = (metadata.dev(), metadata.ino());
        let mut table = lock(&self.table);
        let number = table.by_key.get(&key).copied().unwrap_or(table.last_number + 1);
        table.last_number = table.last_number.max(number);
        table.by_key.insert(key, number);
        let node = table.by_number.entry(number).or_insert_with(|| Node {
            file: Arc::new(Held::new(file)),
            key,
            lookups: 0,
        });
        node.lookups += 1;
        Ok((INodeNo(number), node.file.clone()))
    }

    /// Takes back `lookups` references from the kernel.
    pub(crate) fn forget(&self, number: INodeNo, lookups: u64) {
        let mut table = lock(&self.table);
        let Some(node) = table.by_number.get_mut(&number.0) else {
            return;
        };
        node.lookups = node.lookups.saturating_sub(lookups);
        if node.lookups == 0 && number != INodeNo::ROOT {
            let key = node.key;
            table.by_number.remove(&number.0);
            table.by_key.remove(&key);
        }
    }
}

/// Opens `name` in `directory` for all later requests.
pub(crate) fn open_child(directory: &File, name: &OsStr) -> io::Result<File> {
    let entry = open_at(directory, name, libc::O_PATH, 0)?;
    let kind = entry.metadata()?.file_type();
    if kind.is_dir() {
        return open_at(directory, name, libc::O_RDONLY | libc::O_DIRECTORY, 0);
    }
    if kind.is_file() {
        return open_at(directory, name, libc::O_RDWR, 0)
            .or_else(|_| open_at(directory, name, libc::O_RDONLY, 0));
    }
    Ok(entry)
}

/// openat(2), never through a symbolic link.
pub(crate) fn open_at(directory: &File, name: &OsStr, flags: i32, mode: u32) -> io::Result<File> {
    let flags = OFlags::from_bits_retain(flags as u32) | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(directory, name, flags, Mode::from_raw_mode(mode))?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_sequential_to_the_last_of_its_op() {
        let held = Held::new(File::open("/dev/null").unwrap());
        let follows = |op, offset, bytes| held.follows(op, offset, bytes, 0);
        assert!(follows(Op::Write, 4096, 4096));
        assert!(follows(Op::Write, 8192, 100));
        assert!(follows(Op::Read, 0, 8192));
        assert!(follows(Op::Write, 8292, 100));
        assert!(!follows(Op::Write, 8292, 100));
        assert!(follows(Op::Read, 8192, 4096));
        assert!(!follows(Op::Read, 4096, 4096));
        assert!(held.follows(Op::Read, 4096, 4096, 4096));
    }
}
