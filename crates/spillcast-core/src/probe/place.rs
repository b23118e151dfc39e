//! The directory to probe: whether it is usable, its free space, and its file system.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::error::ProbeError;
use super::scratch;
use crate::mounts::{Mount, holding, mounts};

const RESERVE_BYTES: u64 = 64 << 20;

pub(super) struct Place {
    pub(super) dir: PathBuf,
    pub(super) filesystem: Filesystem,
}

impl Place {
    /// Checks that files can be created there; leaves none.
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
            // The directory exists but cannot hold files, such as /proc.
            Err(source) if is_refusal(&source) || source.kind() == io::ErrorKind::NotFound => {
                Err(not_writable(dir, source))
            }
            Err(error) => Err(place.io_error("opening a file", error)),
        }
    }

    /// Bytes that a probe may write: all free space but 64 MiB or 2 % of it, whichever is more.
    /// None if the file system does not report free space.
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

/// The kernel's data about the file system of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filesystem {
    /// As in mount(8), such as `ext4`, `nfs4` or `fuse.sshfs`; the magic number in hex if no mount
    /// is listed for the directory.
    pub name: String,
    /// Free space for unprivileged users; None if the file system does not report it.
    pub free_bytes: Option<u64>,
}

impl Filesystem {
    pub(super) fn of(dir: &Path) -> io::Result<Filesystem> {
        let stat = rustix::fs::statfs(dir)?;
        let mounts = mounts().unwrap_or_default();
        let name = match holding(&mounts, &fs::canonicalize(dir)?) {
            Some(mount) => mount.filesystem.clone(),
            None => format!("{:#x}", stat.f_type as u32),
        };
        // Blocks are counted in fragments if the file system has them. A file system without limits
        // (a FUSE server that does not answer, tmpfs with size=0) reports 0 blocks.
        let unit = if stat.f_frsize != 0 { stat.f_frsize } else { stat.f_bsize };
        let free_bytes = (stat.f_blocks != 0).then(|| stat.f_bavail.saturating_mul(unit as u64));
        Ok(Filesystem { name, free_bytes })
    }

    /// Whether it is a network file system, as in `is_network`.
    pub fn network(&self) -> Option<bool> {
        is_network(&self.name)
    }
}

/// The mount of an absolute path, as the kernel lists it.
///
/// The file system itself is not accessed: it may hang, and the path may be gone.
pub fn mounted(path: &Path) -> io::Result<Option<Mount>> {
    Ok(holding(&mounts()?, path).cloned())
}

/// Whether a file system of this type is on a network; None for an unknown FUSE server.
pub fn is_network(name: &str) -> Option<bool> {
    const NETWORK: &str = "9p afs beegfs ceph cifs coda gfs2 glusterfs gpfs lustre nfs nfs4 ocfs2 orangefs \
        panfs pvfs2 smb3 smbfs wekafs";
    const FUSE_NETWORK: &str = "alluxio ceph ceph-fuse cephfs curlftpfs davfs2 gcsfuse glusterfs goofys gvfsd-fuse \
        juicefs mount-s3 mountpoint-s3 rclone s3fs sshfs JuiceFS";
    let among = |names: &str, name| names.split(' ').any(|known| known == name);
    match name.strip_prefix("fuse").map(|rest| rest.trim_start_matches('.')) {
        Some("blk" | "ctl") | None => Some(among(NETWORK, name)),
        Some(server) => among(FUSE_NETWORK, server).then_some(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_systems_are_named() {
        assert_eq!(Filesystem::of(Path::new("/dev/shm")).unwrap().name, "tmpfs");
        assert_eq!(Filesystem::of(Path::new("/proc")).unwrap().name, "proc");
        assert!(Filesystem::of(Path::new("/no/such/place")).is_err());
    }

    #[test]
    fn the_mount_of_a_missing_path_is_known() {
        let filesystem = mounted(Path::new("/dev/shm/no/such/place")).unwrap().unwrap().filesystem;
        assert_eq!(filesystem, "tmpfs");
        assert_eq!(mounted(Path::new("relative")).unwrap(), None);
    }

    #[test]
    fn network_file_systems_are_recognised() {
        for name in ["nfs", "nfs4", "cifs", "smb3", "ceph", "9p", "lustre", "gpfs", "fuse.sshfs"] {
            assert_eq!(is_network(name), Some(true), "{name}");
        }
        for name in ["ext4", "xfs", "tmpfs", "overlay", "fuseblk", "0x1234"] {
            assert_eq!(is_network(name), Some(false), "{name}");
        }
        assert_eq!(is_network("fuse"), None);
        assert_eq!(is_network("fuse.spillcast"), None);
    }
}
