//! The start and end of a mount, however its server ends.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use spillcast_core::emulate::Emulation;
use spillcast_core::storage::Model;

use crate::{Mounted, can_mount, is_mounted, list, mounted, read_write};

#[test]
fn a_waiting_read_is_answered_at_the_unmount() {
    let Some(mounted) = mounted(Model::fixed(3_600_000_000_000, 0)) else { return };
    let Mounted { emulation, mountpoint, _directory, .. } = mounted;
    let file = read_write(&mountpoint.join("data"));
    file.write_all_at(&[3; 8192], 0).unwrap();
    let reader = std::thread::spawn(move || file.read_at(&mut [0; 8192], 0));
    std::thread::sleep(Duration::from_millis(100));
    assert!(!reader.is_finished());
    emulation.unmount().unwrap();
    assert_eq!(reader.join().unwrap().unwrap(), 8192);
    assert!(!is_mounted(&mountpoint));
}

#[test]
fn dropping_unmounts_even_with_an_open_file() {
    let Some(mounted) = mounted(Model::default()) else { return };
    let Mounted { emulation, backing, mountpoint, _directory } = mounted;
    assert!(is_mounted(&mountpoint));
    let file = read_write(&mountpoint.join("data"));
    emulation.unmount().unwrap();
    assert!(!is_mounted(&mountpoint));
    file.write_all_at(b"still there", 0).unwrap();
    assert_eq!(fs::read(backing.join("data")).unwrap(), b"still there");
    drop(file);

    let again = Emulation::mount(&backing, &mountpoint, Model::default(), false).unwrap();
    assert_eq!(fs::read(mountpoint.join("data")).unwrap(), b"still there");
    drop(again);
    assert!(!is_mounted(&mountpoint));
}

#[test]
fn a_mountpoint_must_be_an_empty_directory() {
    let Some(mounted) = mounted(Model::default()) else { return };
    let mount = |mountpoint: &Path| {
        let error =
            Emulation::mount(&mounted.backing, mountpoint, Model::default(), false).err().unwrap();
        error.to_string()
    };
    assert!(mount(&mounted.mountpoint).contains("already a mount point"));
    assert!(mount(mounted.mountpoint.parent().unwrap()).contains("not empty"));
    assert!(mount(&mounted.mountpoint.join("none")).contains("no such directory"));
    assert!(mount(Path::new("/dev/null")).contains("not a directory"));
    let inside = mounted.backing.join("inside");
    fs::create_dir(&inside).unwrap();
    assert!(mount(&inside).contains("lies in the directory that it would show"));
}

#[test]
fn a_killed_server_leaves_no_mount() {
    if !can_mount() {
        eprintln!("SKIPPED: /dev/fuse, or the right to mount or fusermount3, is missing");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mountpoint = directory.path().join("mountpoint");
    let mut server = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "life::a_server_to_be_killed", "--ignored", "--nocapture"])
        .env("SPILLCAST_TEST_DIRECTORY", directory.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(server.stdout.take().unwrap()).lines();
    assert!(lines.map(io::Result::unwrap).any(|line| line.contains("MOUNTED")));
    assert!(is_mounted(&mountpoint));
    let file = read_write(&mountpoint.join("data"));
    server.kill().unwrap();
    server.wait().unwrap();
    // The guard needs a moment; a minute suffices on any machine.
    let start = Instant::now();
    while is_mounted(&mountpoint) && start.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(!is_mounted(&mountpoint));
    assert_eq!(file.read_at(&mut [0], 0).unwrap_err().raw_os_error(), Some(libc::ENOTCONN));
    assert_eq!(list(&mountpoint), [""; 0]);
}

#[test]
#[ignore = "a process that another test starts and kills"]
fn a_server_to_be_killed() {
    let directory = PathBuf::from(std::env::var_os("SPILLCAST_TEST_DIRECTORY").unwrap());
    let [backing, mountpoint] = ["backing", "mountpoint"].map(|name| directory.join(name));
    fs::create_dir(&backing).unwrap();
    fs::create_dir(&mountpoint).unwrap();
    let _emulation = Emulation::mount(&backing, &mountpoint, Model::default(), false).unwrap();
    println!("MOUNTED");
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn repeated_mounts_do_not_leak_memory() {
    for _ in 0..4 {
        let Some(mounted) = mounted(Model::default()) else { return };
        mounted.emulation.unmount().unwrap();
    }
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let resident_kib: u64 = resident.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(resident_kib < 256 << 10, "{resident_kib} KiB");
}
