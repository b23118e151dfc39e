//! The path that an open was given: from the caller's stack, or from the memory of the process as
//! long as it is still there.

use std::fs::{self, File, Metadata};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use super::super::event::FileIdentity;
use super::super::paths::{Paths, is_link};
use super::super::temp::born_ns;

/// A path in the memory of the process that opens it.
#[derive(Clone, Debug)]
pub(crate) struct OpenPath {
    /// The folder that a relative path starts from, as in openat.
    folder: i32,
    address: u64,
    text: Option<Box<str>>,
    /// Whether the path came with the record, from the caller's stack: it is what was opened.
    pub(crate) on_stack: bool,
}

impl OpenPath {
    /// A path at an address, relative to a folder; `stack` is the caller's stack at that address.
    pub fn new(folder: i32, address: u64, stack: Option<&[u8]>) -> OpenPath {
        let text: Option<Box<str>> = stack.and_then(text).map(Into::into);
        OpenPath { folder, address, on_stack: text.is_some(), text }
    }

    /// Reads the path from the memory of thread `tid`, if it is not known; None if the memory is
    /// gone or may not be read.
    pub fn read(mut self, tid: i32, paths: &mut Paths) -> Option<OpenPath> {
        if self.text.is_none() {
            let mut bytes = [0; libc::PATH_MAX as usize];
            let memory = File::open(format!("/proc/{tid}/mem")).ok()?;
            // The read ends early if the next page is not mapped.
            let count = memory.read_at(&mut bytes, self.address).ok()?;
            self.text = Some(text(&bytes[..count])?.into());
        }
        if !self.text.as_ref()?.starts_with('/') {
            paths.look_once(tid);
        }
        Some(self)
    }

    /// The file of a path that was read; None if the start of a relative path is unknown, if memory
    /// held something else by then, for a folder, and for a link that leads nowhere. A path where
    /// nothing exists any more counts as a regular file.
    pub fn file(&self, (pid, tid): (i32, i32), paths: &mut Paths) -> Option<FileIdentity> {
        let mut path = paths.absolute(tid, self.folder, self.text.as_deref()?)?;
        if !self.on_stack && !Path::new(&path).parent().is_some_and(Path::is_dir) {
            return None;
        }
        if is_link(pid, &path) {
            path = fs::canonicalize(&path).ok()?.to_string_lossy().into_owned();
        }
        let stat = fs::metadata(&path).ok();
        let (dev, ino) = stat.as_ref().map_or((0, 0), |stat| (stat.dev(), stat.ino()));
        let born_ns = stat.as_ref().and_then(born_ns);
        // The call may have made a nameless file there (O_TMPFILE).
        if stat.as_ref().is_some_and(Metadata::is_dir) {
            return None;
        }
        let regular = stat.is_none_or(|stat| stat.is_file());
        Some(FileIdentity { dev, ino, born_ns, regular, ..FileIdentity::named(path, false) })
    }
}

/// The text before the first NUL; None if it cannot be a path.
fn text(bytes: &[u8]) -> Option<&str> {
    let end = bytes.iter().position(|&byte| byte == 0)?;
    let text = str::from_utf8(&bytes[..end]).ok()?;
    (!text.is_empty() && !text.contains(char::is_control)).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_read_from_memory() {
        let me = std::process::id() as i32;
        let file = |path: &[u8]| {
            let (mut paths, address) = (Paths::default(), path.as_ptr() as u64);
            OpenPath::new(libc::AT_FDCWD, address, None)
                .read(me, &mut paths)?
                .file((me, me), &mut paths)
        };
        let exe = std::env::current_exe().unwrap().canonicalize().unwrap();
        let mut given = exe.as_os_str().as_encoded_bytes().to_vec();
        given.push(0);
        let known = file(&given).unwrap();
        assert_eq!((Path::new(&known.path), known.regular), (exe.as_path(), true));
        assert_eq!(known.ino, fs::metadata(&exe).unwrap().ino());
        let gone = file(b"/proc/self/../gone\0").unwrap();
        assert_eq!((gone.ino, gone.regular), (0, true));
        assert_eq!(file(b"/no/such/folder/file\0"), None);
        assert_eq!(file(b"/proc/self\0"), None);
        assert!(OpenPath::new(0, 1, None).read(me, &mut Paths::default()).is_none());
    }
}
