//! A folder gets its name at once: where there was none, or in place of the one that was there.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

/// Renames `from` to `to`, which must not be there; with `exchange` it must, and is `from` then.
pub fn rename(from: &Path, to: &Path, exchange: bool) -> io::Result<()> {
    let flags = if exchange { RenameFlags::EXCHANGE } else { RenameFlags::NOREPLACE };
    match renameat_with(CWD, from, CWD, to, flags) {
        // Some network file systems can only rename.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => rename_in_steps(from, to, exchange),
        result => Ok(result?),
    }
}

fn rename_in_steps(from: &Path, to: &Path, exchange: bool) -> io::Result<()> {
    if !exchange {
        return match to.symlink_metadata() {
            Ok(_) => Err(Errno::EXIST.into()),
            Err(_) => std::fs::rename(from, to),
        };
    }
    let mut aside = from.as_os_str().to_owned();
    aside.push(".old");
    let aside = PathBuf::from(aside);
    std::fs::rename(to, &aside)?;
    std::fs::rename(from, to)?;
    std::fs::rename(&aside, from)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Way = fn(&Path, &Path, bool) -> io::Result<()>;

    fn names(folder: &Path) -> (Vec<u8>, Vec<u8>) {
        let read = |name: &str| std::fs::read(folder.join(name).join("is")).unwrap();
        (read("a"), read("b"))
    }

    #[test]
    fn two_folders_change_names_and_none_is_lost() {
        let room = tempfile::tempdir().unwrap();
        let (a, b) = (room.path().join("a"), room.path().join("b"));
        for path in [&a, &b] {
            std::fs::create_dir(path).unwrap();
            std::fs::write(path.join("is"), path.file_name().unwrap().as_encoded_bytes()).unwrap();
        }
        for way in [rename as Way, rename_in_steps] {
            assert_eq!(way(&a, &b, false).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
            let (of_a, of_b) = names(room.path());
            way(&a, &b, true).unwrap();
            assert_eq!(names(room.path()), (of_b, of_a));
            way(&a, &room.path().join("c"), false).unwrap();
            way(&room.path().join("c"), &a, false).unwrap();
        }
    }
}
