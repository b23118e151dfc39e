//! The storages of temp files: the mounts of their folders.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use spillcast_core::probe::{Mount, is_network, mounted};

/// Options whose values are words or paths and never secrets. Numbers are sizes, times or ids.
const SHOWN: &[&str] = &[
    "cache",
    "compress",
    "compress-force",
    "data",
    "dir_mode",
    "errors",
    "file_mode",
    "fsc",
    "huge",
    "iocharset",
    "jqfmt",
    "local_lock",
    "lookupcache",
    "lowerdir",
    "metacopy",
    "mode",
    "mountproto",
    "mpol",
    "proto",
    "redirect_dir",
    "rootmode",
    "sec",
    "size",
    "space_cache",
    "upperdir",
    "vers",
    "workdir",
    "xino",
];
/// Parts of names whose values are secrets, even if numeric.
const SECRET: &[&str] = &["cred", "key", "pass", "pin", "pw", "secret", "token"];

/// A device with temp files.
#[derive(Serialize)]
pub struct TempPlace {
    /// The common parent folder of the temp files on the device.
    pub directory: String,
    pub device: String,
    pub filesystem: String,
    pub network: Option<bool>,
    /// Bytes read and written there.
    pub bytes: i64,
    pub device_name: Option<String>,
    pub mount_point: String,
    pub mount_options: String,
}

/// Groups the bytes transferred in each folder by mount; largest first.
///
/// Mounts are those visible to this process, which may differ from those of others.
pub fn temp_places(folders: &BTreeMap<String, i64>) -> Vec<TempPlace> {
    let mut places: Vec<(Mount, PathBuf, i64)> = Vec::new();
    for (folder, &bytes) in folders {
        let Ok(Some(mount)) = mounted(Path::new(folder)) else { continue };
        match places.iter_mut().find(|place| place.0 == mount) {
            Some((_, directory, sum)) => {
                let both = directory.components().zip(Path::new(folder).components());
                *directory = both.take_while(|(a, b)| a == b).map(|(part, _)| part).collect();
                *sum += bytes;
            }
            None => places.push((mount, folder.into(), bytes)),
        }
    }
    places.sort_by_key(|place| -place.2);
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let described = places.into_iter().map(|(mount, directory, bytes)| TempPlace {
        directory: text(&directory),
        network: is_network(&mount.filesystem),
        bytes,
        device_name: device_name(&mount.device),
        mount_point: text(&mount.point),
        mount_options: without_secrets(&mount.options),
        device: mount.device,
        filesystem: mount.filesystem,
    });
    described.collect()
}

/// Options of a mount without values that may be secrets.
pub fn without_secrets(options: &str) -> String {
    let kept = options.split(',').map(|option| match option.split_once('=') {
        Some((name, value)) if !is_shown(name, value) => format!("{name}=***"),
        _ => option.to_owned(),
    });
    kept.collect::<Vec<_>>().join(",")
}

fn is_shown(name: &str, value: &str) -> bool {
    let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
    SHOWN.contains(&name) || (is_number && !SECRET.iter().any(|secret| name.contains(secret)))
}

/// A block device's name, such as `nvme0n1p2 (Samsung SSD 990 PRO)` for `259:2`; None for others.
pub fn device_name(device: &str) -> Option<String> {
    let folder = fs::canonicalize(Path::new("/sys/dev/block").join(device)).ok()?;
    let parent = folder.parent()?;
    // A partition's folder is in its disk's folder; device-mapper has a name of its own.
    let about = [folder.join("dm/name"), folder.join("device/model"), parent.join("device/model")];
    let mut models = about.iter().filter_map(|path| fs::read(path).ok());
    let name = folder.file_name()?.to_string_lossy().into_owned();
    let model = models.find_map(|text| {
        let text = String::from_utf8_lossy(&text).trim().to_owned();
        (!text.is_empty()).then_some(text)
    });
    Some(model.map_or(name.clone(), |model| format!("{name} ({model})")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_a_mount_has_no_device() {
        let folders = [("", 5), ("relative", 7)].map(|(name, bytes)| (name.to_owned(), bytes));
        assert!(temp_places(&BTreeMap::from(folders)).is_empty());
    }

    #[test]
    fn values_of_options_that_may_be_secrets_are_removed() {
        let options =
            "rw,noatime,size=1g,rsize=65536,pass=1234,username=eve,ssh_command=x y,vers=3.0";
        let shown = "rw,noatime,size=1g,rsize=65536,pass=***,username=***,ssh_command=***,vers=3.0";
        assert_eq!(without_secrets(options), shown);
    }
}
