//! A file of the replay: without a name, and without holes where it is read.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use super::blocks::BlockSet;
use super::scratch;

pub(super) struct ReplayFile {
    file: File,
    written: BlockSet,
    size_bytes: AtomicU64,
}

impl ReplayFile {
    /// A new, empty file in `dir` that no directory entry leads to.
    pub(super) fn create(dir: &Path, extent_bytes: u64) -> io::Result<ReplayFile> {
        let file = scratch::create(dir)?;
        Ok(ReplayFile { file, written: BlockSet::new(extent_bytes), size_bytes: AtomicU64::new(0) })
    }

    /// One pread, or as many as it takes where the storage gives less than asked.
    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    /// One pwrite, or as many as it takes where the storage takes less than given.
    pub(super) fn write(&self, buffer: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(buffer, offset)
    }

    /// Notes that the bytes were written. The size comes first: who sees the blocks sees it too.
    pub(super) fn mark_written(&self, bytes: Range<u64>) {
        self.size_bytes.fetch_max(bytes.end, Ordering::AcqRel);
        self.written.insert(bytes);
    }

    /// Writes what a read of `bytes` would otherwise miss, and returns how many bytes that were:
    /// a hole or the end of the file answers without any storage.
    pub(super) fn fill_holes(&self, bytes: Range<u64>, data: &[u8]) -> io::Result<u64> {
        let mut filled_bytes = 0;
        if !self.written.contains(bytes.clone()) {
            for run in self.written.missing(bytes.clone()) {
                filled_bytes += self.fill(run, data)?;
            }
        }
        // The last block may have been written in part only.
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
        let file = ReplayFile::create(dir.path(), 1 << 20).unwrap();
        file.write(&[1; 100], 8192).unwrap();
        file.mark_written(8192..8292);
        // Blocks 0 and 1 are holes, and of block 2 the read wants 50 bytes more than there are.
        assert_eq!(file.fill_holes(10..8342, &[2; 5000]).unwrap(), 8192 + 50);
        assert_eq!(file.fill_holes(0..8342, &[3; 5000]).unwrap(), 0);
        let mut back = [0; 8342];
        file.read(&mut back, 0).unwrap();
        assert!(back[..8192].iter().all(|&byte| byte == 2));
        assert!(back[8192..8292].iter().all(|&byte| byte == 1));
        assert!(back[8292..].iter().all(|&byte| byte == 2));
    }
}
