//! Where something is mounted, as the kernel lists it: asking the mount itself may hang.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// The device, such as `0:52`, of what is mounted last at the absolute path `mountpoint`.
pub fn device_at(mountpoint: &Path) -> io::Result<Option<String>> {
    Ok(device_in(&fs::read("/proc/self/mountinfo")?, mountpoint))
}

fn device_in(mountinfo: &[u8], mountpoint: &Path) -> Option<String> {
    let mut found = None;
    for line in mountinfo.split(|&byte| byte == b'\n') {
        // Id, parent, device, root, mount point, ...
        let mut fields = line.split(|&byte| byte == b' ').skip(2);
        let (Some(device), Some(at)) = (fields.next(), fields.nth(1)) else { continue };
        if unescape(at).as_bytes() == mountpoint.as_os_str().as_bytes() {
            found = Some(String::from_utf8_lossy(device).into_owned());
        }
    }
    found
}

/// Blanks and the like are written as three octal digits.
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
        let mountinfo = b"22 1 254:0 / / rw - ext4 /dev/vda rw\n\
            36 22 0:52 / /mnt/a\\040b rw,noatime - fuse spillcast rw\n\
            37 36 0:53 / /mnt/a\\040b rw,noatime - fuse spillcast rw\n";
        let device = |path: &str| device_in(mountinfo, Path::new(path));
        assert_eq!(device("/mnt/a b").as_deref(), Some("0:53"));
        assert_eq!(device("/").as_deref(), Some("254:0"));
        assert_eq!(device("/mnt"), None);
    }
}
