//! The storages that temp files were on: what is mounted where they lie.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use spillcast_core::probe::{Mount, mounted};

/// A device that temp files were on.
pub struct TempPlace {
    /// The folder that holds all of them there.
    pub directory: PathBuf,
    pub mount: Mount,
    /// Read and written there.
    pub bytes: i64,
}

/// By mount, of the bytes moved in each folder; the most bytes first.
///
/// As this process sees its mounts: a folder in another's may be told wrong.
pub fn temp_places(folders: &BTreeMap<String, i64>) -> Vec<TempPlace> {
    let mut places: Vec<TempPlace> = Vec::new();
    for (folder, &bytes) in folders {
        let Ok(Some(mount)) = mounted(Path::new(folder)) else { continue };
        match places.iter_mut().find(|place| place.mount == mount) {
            Some(place) => {
                place.directory = common(&place.directory, Path::new(folder));
                place.bytes += bytes;
            }
            None => places.push(TempPlace { directory: folder.into(), mount, bytes }),
        }
    }
    places.sort_by_key(|place| -place.bytes);
    places
}

/// The folder that holds both.
fn common(one: &Path, other: &Path) -> PathBuf {
    let both = one.components().zip(other.components()).take_while(|(a, b)| a == b);
    both.map(|(part, _)| part).collect()
}

/// Of a block device, such as `nvme0n1p2 (Samsung SSD 990 PRO)` for `259:2`; None for others.
pub fn device_name(device: &str) -> Option<String> {
    let folder = fs::canonicalize(Path::new("/sys/dev/block").join(device)).ok()?;
    let parent = folder.parent()?;
    // A partition lies in its disk's folder; device-mapper has a name of its own.
    let about = [folder.join("dm/name"), folder.join("device/model"), parent.join("device/model")];
    let mut models = about.iter().filter_map(|path| fs::read(path).ok());
    let name = folder.file_name()?.to_string_lossy().into_owned();
    let model = models.find_map(|text| {
        let text = String::from_utf8_lossy(&text).trim().to_owned();
        (!text.is_empty()).then_some(text)
    });
    Some(model.map_or(name.clone(), |model| format!("{name} ({model})")))
}
