//! What the kernel says of the file system that holds a directory.

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub(super) struct Filesystem {
    /// As /proc/filesystems writes it (`ext4` stands for ext2 and ext3 too), or the magic in hex.
    pub(super) name: String,
    /// What an unprivileged user may still write; None where the file system does not say.
    pub(super) free_bytes: Option<u64>,
}

impl Filesystem {
    pub(super) fn of(dir: &Path) -> io::Result<Filesystem> {
        let path = CString::new(dir.as_os_str().as_bytes())?;
        let mut stat = MaybeUninit::<libc::statfs>::uninit();
        // SAFETY: the path ends in NUL, and the struct is read only after the call filled it.
        let stat = unsafe {
            if libc::statfs(path.as_ptr(), stat.as_mut_ptr()) != 0 {
                return Err(io::Error::last_os_error());
            }
            stat.assume_init()
        };
        // Blocks are counted in fragments where the file system has them. One without limits
        // (a FUSE server that does not answer, tmpfs with size=0) reports no blocks at all.
        let unit = if stat.f_frsize != 0 { stat.f_frsize } else { stat.f_bsize };
        let free_bytes = (stat.f_blocks != 0).then(|| stat.f_bavail.saturating_mul(unit as u64));
        Ok(Filesystem { name: name(stat.f_type as u32), free_bytes })
    }
}

/// The name that belongs to a magic of linux/magic.h.
fn name(magic: u32) -> String {
    match magic {
        0x0000_ef53 => "ext4",
        0x0102_1994 => "tmpfs",
        0x5846_5342 => "xfs",
        0x9123_683e => "btrfs",
        0x0000_6969 => "nfs",
        0x6573_5546 => "fuse",
        0x794c_7630 => "overlay",
        0x2fc1_2fc1 => "zfs",
        0xf2f5_2010 => "f2fs",
        _ => return format!("{magic:#x}"),
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_and_unknown_file_systems_are_named() {
        assert_eq!(Filesystem::of(Path::new("/dev/shm")).unwrap().name, "tmpfs");
        assert_eq!(Filesystem::of(Path::new("/proc")).unwrap().name, "0x9fa0");
        assert!(Filesystem::of(Path::new("/no/such/place")).is_err());
    }
}
