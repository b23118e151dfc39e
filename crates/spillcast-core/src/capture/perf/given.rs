//! The path that an open was given: from the stack of its caller, or, as long as it stands there,
//! from the memory of the process.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use super::super::event::FileIdentity;
use super::super::paths::Paths;
use super::super::temp::born_ns;

/// A path in the memory of the process that opens it.
#[derive(Clone, Debug)]
pub struct GivenPath {
    /// The folder that a relative path begins in, as of openat.
    folder: i32,
    address: u64,
    /// The path itself, where it stood on the caller's stack.
    on_stack: Option<Box<str>>,
}

impl GivenPath {
    /// A path at an address, relative to a folder; `stack` is what the caller's stack held there.
    pub fn new(folder: i32, address: u64, stack: Option<&[u8]>) -> GivenPath {
        GivenPath { folder, address, on_stack: stack.and_then(text).map(Into::into) }
    }

    /// The path, where it came from the stack.
    pub fn on_stack(&self) -> Option<&str> {
        self.on_stack.as_deref()
    }

    /// The file that thread `tid` has opened by it; None where the path cannot be read any more, or its
    /// memory holds something else by now.
    pub fn in_memory(&self, tid: i32, paths: &mut Paths) -> Option<FileIdentity> {
        let file = self.file(tid, &self.read(tid)?, paths)?;
        Path::new(&file.path).parent().is_some_and(Path::is_dir).then_some(file)
    }

    /// The file of the path `given`; None where nothing tells what a relative one begins in. One that
    /// is gone again is taken to be a regular file.
    pub fn file(&self, tid: i32, given: &str, paths: &mut Paths) -> Option<FileIdentity> {
        let path = paths.absolute(tid, self.folder, given)?;
        let stat = fs::metadata(&path).ok();
        let (dev, ino) = stat.as_ref().map_or((0, 0), |stat| (stat.dev(), stat.ino()));
        let born_ns = stat.as_ref().and_then(born_ns);
        let regular = stat.is_none_or(|stat| stat.is_file());
        Some(FileIdentity { dev, ino, born_ns, regular, ..FileIdentity::named(path, false) })
    }

    fn read(&self, tid: i32) -> Option<String> {
        let mut bytes = [0; libc::PATH_MAX as usize];
        let memory = File::open(format!("/proc/{tid}/mem")).ok()?;
        // It ends early where the next page is not mapped.
        let count = memory.read_at(&mut bytes, self.address).ok()?;
        text(&bytes[..count]).map(str::to_owned)
    }
}

/// What stands before the first NUL; None where that can be no path.
fn text(bytes: &[u8]) -> Option<&str> {
    let end = bytes.iter().position(|&byte| byte == 0)?;
    let text = str::from_utf8(&bytes[..end]).ok()?;
    (!text.is_empty() && !text.contains(char::is_control)).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_read_where_it_stands() {
        let me = std::process::id() as i32;
        let file = |path: &[u8]| {
            let given = GivenPath::new(libc::AT_FDCWD, path.as_ptr() as u64, None);
            given.in_memory(me, &mut Paths::default())
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
        let unreadable = GivenPath::new(0, 1, None);
        assert_eq!(unreadable.in_memory(me, &mut Paths::default()), None);
    }
}
