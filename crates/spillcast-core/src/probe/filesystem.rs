//! What the kernel says of the file system that holds a directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filesystem {
    /// As mount(8) writes it, such as `ext4`, `nfs4` or `fuse.sshfs`; the magic number in hex where
    /// no mount is listed for the directory.
    pub name: String,
    /// What an unprivileged user may still write; None where the file system does not say.
    pub free_bytes: Option<u64>,
}

impl Filesystem {
    pub(super) fn of(dir: &Path) -> io::Result<Filesystem> {
        let stat = rustix::fs::statfs(dir)?;
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let name = mounted_type(&mounts, &fs::canonicalize(dir)?)
            .unwrap_or_else(|| format!("{:#x}", stat.f_type as u32));
        // Blocks are counted in fragments where the file system has them. One without limits
        // (a FUSE server that does not answer, tmpfs with size=0) reports no blocks at all.
        let unit = if stat.f_frsize != 0 { stat.f_frsize } else { stat.f_bsize };
        let free_bytes = (stat.f_blocks != 0).then(|| stat.f_bavail.saturating_mul(unit as u64));
        Ok(Filesystem { name, free_bytes })
    }

    /// Whether it lies behind a network; None for a FUSE server that nothing is known of.
    pub fn network(&self) -> Option<bool> {
        const NETWORK: [&str; 19] = [
            "9p",
            "afs",
            "beegfs",
            "ceph",
            "cifs",
            "coda",
            "gfs2",
            "glusterfs",
            "gpfs",
            "lustre",
            "nfs",
            "nfs4",
            "ocfs2",
            "orangefs",
            "panfs",
            "pvfs2",
            "smb3",
            "smbfs",
            "wekafs",
        ];
        const FUSE_NETWORK: [&str; 17] = [
            "alluxio",
            "ceph",
            "ceph-fuse",
            "cephfs",
            "curlftpfs",
            "davfs2",
            "gcsfuse",
            "glusterfs",
            "goofys",
            "gvfsd-fuse",
            "juicefs",
            "mount-s3",
            "mountpoint-s3",
            "rclone",
            "s3fs",
            "sshfs",
            "JuiceFS",
        ];
        match self.name.strip_prefix("fuse").map(|rest| rest.trim_start_matches('.')) {
            Some("blk" | "ctl") | None => Some(NETWORK.contains(&self.name.as_str())),
            Some(server) => FUSE_NETWORK.contains(&server).then_some(true),
        }
    }
}

/// The type of the mount that holds a path: of the deepest mount points above it the last one,
/// which hides the others.
fn mounted_type(mountinfo: &str, path: &Path) -> Option<String> {
    let mounts = mountinfo.lines().filter_map(|line| {
        let (mount, filesystem) = line.split_once(" - ")?;
        let point = PathBuf::from(unescape(mount.split(' ').nth(4)?));
        path.starts_with(&point).then_some((point, filesystem))
    });
    let (_, filesystem) = mounts.max_by_key(|(point, _)| point.components().count())?;
    filesystem.split(' ').next().map(str::to_owned)
}

/// mountinfo writes blanks and backslashes in octal.
fn unescape(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (code, byte)| text.replace(code, byte))
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
    fn the_deepest_and_last_mount_counts() {
        let mountinfo = "\
            22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
            30 22 0:40 / /mnt rw - nfs4 server:/export rw,vers=4.2\n\
            31 30 0:41 / /mnt/a\\040b rw master:3 - fuse.sshfs host: rw\n\
            32 22 8:2 / /home rw - xfs /dev/sdb rw\n\
            33 22 0:42 / /home rw - cifs //host/home rw\n";
        let of = |path| mounted_type(mountinfo, Path::new(path)).unwrap();
        assert_eq!(of("/var/tmp"), "ext4");
        assert_eq!(of("/mnt"), "nfs4");
        assert_eq!(of("/mnt/a b/c"), "fuse.sshfs");
        assert_eq!(of("/mnt/a"), "nfs4");
        assert_eq!(of("/homeless"), "ext4");
        assert_eq!(of("/home/me"), "cifs");
        assert_eq!(mounted_type("", Path::new("/")), None);
    }

    #[test]
    fn what_lies_behind_a_network_is_known() {
        let network = |name: &str| Filesystem { name: name.to_owned(), free_bytes: None }.network();
        for name in ["nfs", "nfs4", "cifs", "smb3", "ceph", "9p", "lustre", "gpfs", "fuse.sshfs"] {
            assert_eq!(network(name), Some(true), "{name}");
        }
        for name in ["ext4", "xfs", "tmpfs", "overlay", "fuseblk", "0x1234"] {
            assert_eq!(network(name), Some(false), "{name}");
        }
        assert_eq!(network("fuse"), None);
        assert_eq!(network("fuse.spillcast"), None);
    }
}
