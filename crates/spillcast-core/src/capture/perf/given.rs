//! The path that an open was given, as long as it stands in the memory of the process.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use super::super::event::FileIdentity;
use super::super::paths::Paths;
use super::super::temp::born_ns;

/// A path in the memory of the process that opens it.
#[derive(Clone, Copy, Debug)]
pub struct GivenPath {
    /// The folder that a relative path begins in, as of openat.
    pub folder: i32,
    pub address: u64,
}

impl GivenPath {
    /// The file that thread `tid` has opened by it; None where its memory is gone or may not be read,
    /// or holds something else by now. A file that is gone again is taken to be a regular one.
    pub fn file(self, tid: i32, paths: &mut Paths) -> Option<FileIdentity> {
        let given = self.read(tid)?;
        let path = paths.absolute(tid, self.folder, &given)?;
        if !Path::new(&path).parent().is_some_and(Path::is_dir) {
            return None;
        }
        let stat = fs::metadata(&path).ok();
        let (dev, ino) = stat.as_ref().map_or((0, 0), |stat| (stat.dev(), stat.ino()));
        let born_ns = stat.as_ref().and_then(born_ns);
        let regular = stat.is_none_or(|stat| stat.is_file());
        Some(FileIdentity { dev, ino, born_ns, regular, ..FileIdentity::named(path, false) })
    }

    fn read(self, tid: i32) -> Option<String> {
        let mut bytes = [0; libc::PATH_MAX as usize];
        let memory = File::open(format!("/proc/{tid}/mem")).ok()?;
        // It ends early where the next page is not mapped.
        let count = memory.read_at(&mut bytes, self.address).ok()?;
        let end = bytes[..count].iter().position(|&byte| byte == 0)?;
        let text = str::from_utf8(&bytes[..end]).ok()?;
        (!text.is_empty() && !text.contains(char::is_control)).then(|| text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_read_where_it_stands() {
        let me = std::process::id() as i32;
        let file = |path: &[u8]| {
            let address = path.as_ptr() as u64;
            GivenPath { folder: libc::AT_FDCWD, address }.file(me, &mut Paths::default())
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
        assert_eq!(GivenPath { folder: 0, address: 1 }.file(me, &mut Paths::default()), None);
    }
}
