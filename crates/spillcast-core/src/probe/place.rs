//! The directory to probe: whether it can be, and how much room it has.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::error::ProbeError;
use super::filesystem::Filesystem;
use super::scratch;

const RESERVE_BYTES: u64 = 64 << 20;

pub(super) struct Place {
    pub(super) dir: PathBuf,
    pub(super) filesystem: Filesystem,
}

impl Place {
    /// Checks that files can be made there; leaves none.
    pub(super) fn new(dir: &Path) -> Result<Place, ProbeError> {
        match fs::metadata(dir) {
            Ok(metadata) if metadata.is_dir() => {}
            Err(source) if is_refusal(&source) => return Err(not_writable(dir, source)),
            _ => return Err(ProbeError::NotADirectory { dir: dir.to_owned() }),
        }
        let filesystem = Filesystem::of(dir).map_err(|source| ProbeError::Io {
            doing: "asking for the free space".to_owned(),
            dir: dir.to_owned(),
            filesystem: "unknown".to_owned(),
            source,
        })?;
        let place = Place { dir: dir.to_owned(), filesystem };
        match scratch::create(dir) {
            Ok(_) => Ok(place),
            // There is a directory, which holds no files, as /proc.
            Err(source) if is_refusal(&source) || source.kind() == io::ErrorKind::NotFound => {
                Err(not_writable(dir, source))
            }
            Err(error) => Err(place.io_error("opening a file", error)),
        }
    }

    /// What a probe may write: the file system keeps 64 MiB or 2 % of what is free, whichever is
    /// more. None where it does not say what is free.
    pub(super) fn room_bytes(&self) -> Option<u64> {
        let free_bytes = self.filesystem.free_bytes?;
        Some(free_bytes.saturating_sub(kept_bytes(free_bytes)))
    }

    pub(super) fn check_room(&self, need_bytes: u64) -> Result<(), ProbeError> {
        let free_bytes = self.filesystem.free_bytes.unwrap_or_default();
        match self.room_bytes() {
            Some(room_bytes) if need_bytes > room_bytes => Err(ProbeError::TooSmall {
                dir: self.dir.clone(),
                filesystem: self.filesystem.name.clone(),
                need_bytes,
                free_bytes,
                kept_bytes: kept_bytes(free_bytes),
            }),
            _ => Ok(()),
        }
    }

    pub(super) fn io_error(&self, doing: impl Into<String>, source: io::Error) -> ProbeError {
        let (dir, filesystem) = (self.dir.clone(), self.filesystem.name.clone());
        ProbeError::Io { doing: doing.into(), dir, filesystem, source }
    }
}

fn kept_bytes(free_bytes: u64) -> u64 {
    RESERVE_BYTES.max(free_bytes / 50)
}

fn not_writable(dir: &Path, source: io::Error) -> ProbeError {
    ProbeError::NotWritable { dir: dir.to_owned(), source }
}

fn is_refusal(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}
