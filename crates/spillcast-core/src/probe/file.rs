//! A file of the replay: without a name, and without holes where it is read.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::blocks::BlockSet;
use super::scratch;

pub(super) struct ReplayFile {
    /// Shared by reads and writes, exclusive for calls that change the file: a reader must find the
    /// data that it assumes written.
    file: RwLock<File>,
    written: BlockSet,
    size_bytes: AtomicU64,
    /// Whether a replayed call has opened it.
    opened: AtomicBool,
    /// Limit of the total size of allocations, and the total so far.
    allocatable_bytes: u64,
    allocated_bytes: AtomicU64,
}

impl ReplayFile {
    /// A new, empty file in `dir` without a directory entry.
    pub(super) fn create(
        dir: &Path,
        extent_bytes: u64,
        allocatable_bytes: u64,
    ) -> io::Result<ReplayFile> {
        let file = scratch::create(dir)?;
        Ok(ReplayFile {
            file: RwLock::new(file),
            written: BlockSet::new(extent_bytes),
            size_bytes: AtomicU64::new(0),
            opened: AtomicBool::new(false),
            allocatable_bytes,
            allocated_bytes: AtomicU64::new(0),
        })
    }

    /// Shared access for reading and writing the file.
    pub(super) fn open(&self) -> OpenFile<'_> {
        let file = self.file.read().expect("no holder panics");
        OpenFile { file, written: &self.written, size_bytes: &self.size_bytes }
    }

    /// Exclusive access for changing the file.
    pub(super) fn alone(&self) -> RwLockWriteGuard<'_, File> {
        self.file.write().expect("no holder panics")
    }

    /// Records that the file was opened; returns false if this call creates it.
    pub(super) fn reopened(&self) -> bool {
        self.opened.swap(true, Ordering::Relaxed)
    }

    /// Records that the file was removed: the next call that opens it creates it.
    pub(super) fn removed(&self) {
        self.opened.store(false, Ordering::Relaxed);
        self.cut(0);
    }

    /// Reserves up to `bytes` for an allocation; returns the number reserved. The caller has
    /// exclusive access.
    pub(super) fn allocate(&self, bytes: u64) -> u64 {
        let before_bytes = self.allocated_bytes.load(Ordering::Relaxed);
        let bytes = bytes.min(self.allocatable_bytes.saturating_sub(before_bytes));
        self.allocated_bytes.store(before_bytes + bytes, Ordering::Relaxed);
        bytes
    }

    /// Records that the file was truncated to this length.
    pub(super) fn cut(&self, size_bytes: u64) {
        self.allocated_bytes.fetch_min(size_bytes, Ordering::Relaxed);
        self.size_bytes.store(size_bytes, Ordering::Release);
        self.written.remove_from(size_bytes);
    }
}

/// A file of the replay that no thread changes meanwhile.
pub(super) struct OpenFile<'a> {
    file: RwLockReadGuard<'a, File>,
    written: &'a BlockSet,
    size_bytes: &'a AtomicU64,
}

impl OpenFile<'_> {
    /// One pread, or more if the storage returns less than requested.
    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    /// One pwrite, or more if the storage accepts less than requested.
    pub(super) fn write(&self, buffer: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(buffer, offset)
    }

    /// Records a write of the bytes. The size comes first: a thread that sees the blocks needs it.
    pub(super) fn mark_written(&self, bytes: Range<u64>) {
        self.size_bytes.fetch_max(bytes.end, Ordering::AcqRel);
        self.written.insert(bytes);
    }

    /// Writes the bytes that a read of `bytes` would miss, and returns their number: the storage
    /// would not be involved in reading a hole or the end of the file.
    pub(super) fn fill_holes(&self, bytes: Range<u64>, data: &[u8]) -> io::Result<u64> {
        let mut filled_bytes = 0;
        if !self.written.contains(bytes.clone()) {
            for run in self.written.missing(bytes.clone()) {
                filled_bytes += self.fill(run, data)?;
            }
        }
        // The last block may have been written only in part.
        let size_bytes = self.size_bytes.load(Ordering::Acquire);
        if size_bytes < bytes.end {
            filled_bytes += self.fill(size_bytes..bytes.end, data)?;
        }
        Ok(filled_bytes)
    }

    fn fill(&self, bytes: Range<u64>, data: &[u8]) -> io::Result<u64> {
        let mut offset = bytes.start;
        while offset < bytes.end {
            let piece = (bytes.end - offset).min(data.len() as u64);
            self.write(&data[..piece as usize], offset)?;
            offset += piece;
        }
        self.mark_written(bytes.clone());
        Ok(bytes.end - bytes.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_filled_once_and_written_bytes_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let whole = ReplayFile::create(dir.path(), 1 << 20, 0).unwrap();
        let file = whole.open();
        file.write(&[1; 100], 8192).unwrap();
        file.mark_written(8192..8292);
        // Blocks 0 and 1 are holes, and the read exceeds the data of block 2 by 50 bytes.
        assert_eq!(file.fill_holes(10..8342, &[2; 5000]).unwrap(), 8192 + 50);
        assert_eq!(file.fill_holes(0..8342, &[3; 5000]).unwrap(), 0);
        let mut back = [0; 8342];
        file.read(&mut back, 0).unwrap();
        assert!(back[..8192].iter().all(|&byte| byte == 2));
        assert!(back[8192..8292].iter().all(|&byte| byte == 1));
        assert!(back[8292..].iter().all(|&byte| byte == 2));
    }
    #[test]
    fn truncated_data_is_filled_again() {
        let dir = tempfile::tempdir().unwrap();
        let file = ReplayFile::create(dir.path(), 1 << 20, 0).unwrap();
        file.open().write(&[1; 20_000], 0).unwrap();
        file.open().mark_written(0..20_000);
        file.alone().set_len(5_000).unwrap();
        file.cut(5_000);
        // The remaining 904 bytes of block 1 count as missing.
        assert_eq!(file.open().fill_holes(0..20_000, &[2; 30_000]).unwrap(), 16_384);
        assert_eq!(file.open().fill_holes(0..20_000, &[2; 30_000]).unwrap(), 0);
    }
}
