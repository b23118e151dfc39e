//! The mounts as the kernel lists them: accessing a mount itself may hang.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A mount. The kernel lists mounts in order: later ones hide earlier ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Such as `0:52`.
    pub device: String,
    pub point: PathBuf,
    /// As mount(8) writes it, such as `ext4`, `nfs4` or `fuse.sshfs`.
    pub filesystem: String,
    /// Of the mount and its file system, as mount(8) writes them: `rw,noatime,data=ordered`.
    pub options: String,
}

/// All mounts that this process sees.
pub fn mounts() -> io::Result<Vec<Mount>> {
    Ok(parse(&fs::read("/proc/self/mountinfo")?))
}

/// The last mount at an absolute path.
pub(crate) fn mounted_at<'a>(mounts: &'a [Mount], point: &Path) -> Option<&'a Mount> {
    mounts.iter().rfind(|mount| mount.point == point)
}

/// The mount that holds a path: the last of those with the deepest mount point above it.
pub(crate) fn holding<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    let above = mounts.iter().filter(|mount| path.starts_with(&mount.point));
    above.max_by_key(|mount| mount.point.components().count())
}

fn parse(mountinfo: &[u8]) -> Vec<Mount> {
    let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
    let mount = |line: &[u8]| {
        // Id, parent, device, root, mount point, options, ..., a dash, type, ...
        let mut fields = line.split(|&byte| byte == b' ').skip(2);
        let (device, point) = (text(fields.next()?), unescape(fields.nth(1)?));
        let mount_options = text(fields.next()?);
        // ..., a source, options of the file system.
        let mut fields = fields.skip_while(|field| *field != b"-").skip(1);
        let filesystem = text(fields.next()?);
        let options = joined(&mount_options, &text(fields.nth(1).unwrap_or_default()));
        Some(Mount { device, point: point.into(), filesystem, options })
    };
    mountinfo.split(|&byte| byte == b'\n').filter_map(mount).collect()
}

/// Options of a mount, then those of its file system that are not among them. The mount alone
/// decides between `rw` and `ro`.
fn joined(mount_options: &str, filesystem: &str) -> String {
    let more = filesystem.split(',').filter(|option| {
        !matches!(*option, "" | "rw" | "ro")
            && !mount_options.split(',').any(|known| known == *option)
    });
    mount_options.split(',').chain(more).collect::<Vec<_>>().join(",")
}

/// Decodes blanks and other characters that are written as three octal digits.
fn unescape(field: &[u8]) -> OsString {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) if byte == b'\\' => {
                bytes.push(code);
                rest = &after[3..];
            }
            _ => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_mount_at_a_path_counts() {
        let mounts = parse(
            b"22 1 254:0 / / rw - ext4 /dev/vda rw\n\
            36 22 0:52 / /mnt/a\\040b rw,noatime - fuse spillcast rw\n\
            37 36 0:53 / /mnt/a\\040b rw,noatime - fuse spillcast rw\n",
        );
        let device = |path: &str| Some(&mounted_at(&mounts, Path::new(path))?.device[..]);
        assert_eq!(device("/mnt/a b"), Some("0:53"));
        assert_eq!(device("/"), Some("254:0"));
        assert_eq!(device("/mnt"), None);
    }

    #[test]
    fn the_deepest_and_last_mount_counts() {
        let mounts = parse(
            b"\
            22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
            30 22 0:40 / /mnt rw - nfs4 server:/export rw,vers=4.2\n\
            31 30 0:41 / /mnt/a\\040b rw master:3 - fuse.sshfs host: rw\n\
            32 22 8:2 / /home rw - xfs /dev/sdb rw\n\
            33 22 0:42 / /home rw - cifs //host/home rw\n",
        );
        let of = |path| &holding(&mounts, Path::new(path)).unwrap().filesystem[..];
        assert_eq!(of("/var/tmp"), "ext4");
        assert_eq!(of("/mnt"), "nfs4");
        assert_eq!(of("/mnt/a b/c"), "fuse.sshfs");
        assert_eq!(of("/mnt/a"), "nfs4");
        assert_eq!(of("/homeless"), "ext4");
        assert_eq!(of("/home/me"), "cifs");
        assert_eq!(holding(&[], Path::new("/")), None);
        let options = |path| &holding(&mounts, Path::new(path)).unwrap().options[..];
        assert_eq!(options("/var/tmp"), "rw,relatime");
        assert_eq!(options("/mnt"), "rw,vers=4.2");
    }
}
