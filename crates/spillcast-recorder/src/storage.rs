//! storage.json, key by key as spillcast writes it.

use std::path::Path;

use jiff::Timestamp;
use rustix::system::uname;
use spillcast_core::probe::mounted;
use spillcast_recording::json::{Value, json};
use spillcast_recording::{Measured, device_name, machine};

/// What was measured of a directory, by the probe `source`.
pub fn document(directory: &Path, source: &str, measured: Measured) -> Value {
    json!({
        "schema": "spillcast.storage/1",
        "name": name_of(directory),
        "source": source,
        "groups": measured.groups,
        "changes": measured.changes,
        "limits": [],
        "servers": null,
        "provenance": provenance(directory),
        "facts": measured.facts,
    })
}

/// As it was given, unless that is `.` or `..`.
fn name_of(directory: &Path) -> String {
    let given = || directory.to_string_lossy().into_owned();
    match directory.file_name() {
        Some(_) => given(),
        None => directory
            .canonicalize()
            .map_or_else(|_| given(), |path| path.to_string_lossy().into_owned()),
    }
}

/// When, where and with what it is measured. Options of mounts may hold secrets and are left out.
fn provenance(directory: &Path) -> Value {
    let system = uname();
    let whole = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    let mount = mounted(&whole).ok().flatten();
    let mount = mount.as_ref();
    json!({
        "measured_at": machine::iso(Timestamp::now()),
        "spillcast": machine::version(),
        "host": system.nodename().to_string_lossy().into_owned(),
        "kernel": system.release().to_string_lossy().into_owned(),
        "directory": whole.to_string_lossy().into_owned(),
        "device": mount.map(|mount| mount.device.as_str()),
        "device_name": mount.and_then(|mount| device_name(&mount.device)),
        "filesystem": mount.map(|mount| mount.filesystem.as_str()),
        "mount_point": mount.map(|mount| mount.point.to_string_lossy().into_owned()),
        "mount_options": Value::Null,
    })
}
