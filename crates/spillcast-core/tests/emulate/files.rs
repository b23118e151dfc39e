//! Files and directories on a mount behave as they do elsewhere.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;

use spillcast_core::storage::Model;

use crate::{list, mounted, read_write};

/// A simple, reproducible generator of numbers (Knuth's constants).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % end
    }
}

#[test]
fn random_io_equals_that_on_a_plain_file() {
    let Some(mounted) = mounted(Model::default()) else { return };
    let plain_directory = tempfile::tempdir().unwrap();
    let paths = [mounted.mountpoint.join("data"), plain_directory.path().join("data")];
    let files = [&paths[0], &paths[1]].map(|path| read_write(path));
    let mut numbers = Numbers(7);
    for step in 0..1_500 {
        let offset = numbers.below(4 << 20);
        let bytes = [1, 100, 4096, 8192, 70_000, 300_000, 1 << 20][numbers.below(7) as usize];
        let results = match numbers.below(20) {
            0 => files.each_ref().map(|file| file.set_len(offset).map(|()| vec![])),
            1..=9 => {
                let data: Vec<u8> = (0..bytes).map(|i| (i as u64 * 31 + step) as u8).collect();
                files.each_ref().map(|file| file.write_all_at(&data, offset).map(|()| vec![]))
            }
            _ => files.each_ref().map(|file| {
                let mut data = vec![0; bytes];
                let done = read_fully(file, &mut data, offset)?;
                data.truncate(done);
                Ok(data)
            }),
        };
        let [emulated, plain] = results.map(io::Result::unwrap);
        assert!(emulated == plain, "step {step}: offset {offset}, {bytes} bytes");
        let [emulated, plain] = files.each_ref().map(|file| file.metadata().unwrap().len());
        assert_eq!(emulated, plain, "step {step}");
    }
    assert!(fs::read(&paths[0]).unwrap() == fs::read(&paths[1]).unwrap());
    assert!(fs::read(mounted.backing.join("data")).unwrap() == fs::read(&paths[1]).unwrap());
}

fn read_fully(file: &File, data: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < data.len() {
        match file.read_at(&mut data[done..], offset + done as u64)? {
            0 => break,
            bytes => done += bytes,
        }
    }
    Ok(done)
}

#[test]
fn an_unlinked_file_works_until_it_is_closed() {
    let Some(mounted) = mounted(Model::default()) else { return };
    let path = mounted.mountpoint.join("data");
    let file = read_write(&path);
    fs::remove_file(&path).unwrap();
    assert!(!mounted.backing.join("data").exists());
    file.write_all_at(b"spill", 10).unwrap();
    file.set_len(12).unwrap();
    let metadata = file.metadata().unwrap();
    assert_eq!((metadata.len(), metadata.nlink()), (12, 0));
    let mut data = [9; 12];
    file.read_exact_at(&mut data, 0).unwrap();
    assert_eq!(&data, b"\0\0\0\0\0\0\0\0\0\0sp");
    // The name is free for a new file.
    fs::write(&path, b"another").unwrap();
    assert_eq!(file.metadata().unwrap().len(), 12);
    assert_eq!(fs::read(&path).unwrap(), b"another");
}

#[test]
fn directories_and_names_work() {
    let Some(mounted) = mounted(Model::default()) else { return };
    let at = |name: &str| mounted.mountpoint.join(name);
    fs::create_dir_all(at("a/b")).unwrap();
    let mut names: Vec<String> = (0..500).map(|i| format!("file-{i:03}")).collect();
    for name in &names {
        fs::write(at("a").join(name), name).unwrap();
    }
    names.insert(0, "b".to_owned());
    assert_eq!(list(&at("a")), names);
    assert_eq!(list(&mounted.backing.join("a")), names);

    let file = read_write(&at("a/file-007"));
    fs::rename(at("a/file-007"), at("a/b/moved")).unwrap();
    assert_eq!(fs::read(at("a/b/moved")).unwrap(), b"file-007");
    fs::rename(at("a/b"), at("c")).unwrap();
    file.write_all_at(b"FILE", 0).unwrap();
    assert_eq!(fs::read(at("c/moved")).unwrap(), b"FILE-007");
    assert!(!at("a/file-007").exists());

    let error = |result: io::Result<()>| result.unwrap_err().raw_os_error();
    assert_eq!(error(fs::remove_dir(at("a"))), Some(libc::ENOTEMPTY));
    assert_eq!(error(fs::create_dir(at("a"))), Some(libc::EEXIST));
    assert_eq!(error(fs::remove_file(at("none"))), Some(libc::ENOENT));

    fs::set_permissions(at("c/moved"), fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(fs::metadata(at("c/moved")).unwrap().mode() & 0o7777, 0o640);
    OpenOptions::new().write(true).truncate(true).open(at("c/moved")).unwrap();
    assert_eq!(fs::metadata(at("c/moved")).unwrap().len(), 0);
    fs::remove_dir_all(at("a")).unwrap();
    assert_eq!(list(&mounted.mountpoint), ["c"]);
}

#[test]
fn allocating_appending_and_syncing_work() {
    let Some(mounted) = mounted(Model::default()) else { return };
    let path = mounted.mountpoint.join("data");
    let file = read_write(&path);
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 10_000).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 10_000);
    let mut appended = OpenOptions::new().append(true).open(&path).unwrap();
    io::Write::write_all(&mut appended, b"end").unwrap();
    appended.sync_all().unwrap();
    appended.sync_data().unwrap();
    let mut data = [0; 3];
    file.read_exact_at(&mut data, 10_000).unwrap();
    assert_eq!(&data, b"end");
    assert_eq!(total_bytes(&mounted.mountpoint), total_bytes(&mounted.backing));
}

fn total_bytes(path: &Path) -> u64 {
    let stat = rustix::fs::statvfs(path).unwrap();
    stat.f_blocks * stat.f_frsize
}
