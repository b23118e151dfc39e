//! Emulated storage on real mounts: the same bytes as a plain directory, as slow as asked.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use spillcast_core::emulate::{Curve, Distribution, Emulation, Latencies, Limit, Model, Stats};
use spillcast_core::wait::Op;
use tempfile::TempDir;

/// A mount in a directory of its own: `backing` is shown at `mountpoint`.
struct Mounted {
    emulation: Emulation,
    backing: PathBuf,
    mountpoint: PathBuf,
    _directory: TempDir,
}

/// None where this machine cannot mount, which is printed.
fn mounted(model: Model) -> Option<Mounted> {
    if !can_mount() {
        eprintln!("SKIPPED: /dev/fuse, or the right to mount or fusermount3, is missing");
        return None;
    }
    let directory = tempfile::tempdir().unwrap();
    let [backing, mountpoint] = ["backing", "mountpoint"].map(|name| directory.path().join(name));
    fs::create_dir(&backing).unwrap();
    fs::create_dir(&mountpoint).unwrap();
    let emulation = Emulation::mount(&backing, &mountpoint, model, false).unwrap();
    Some(Mounted { emulation, backing, mountpoint, _directory: directory })
}

fn can_mount() -> bool {
    const CAP_SYS_ADMIN: u32 = 21;
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    let capabilities = u64::from_str_radix(capabilities.trim(), 16).unwrap();
    let helper = Command::new("fusermount3").arg("-V").stdout(Stdio::null()).status().is_ok();
    OpenOptions::new().read(true).write(true).open("/dev/fuse").is_ok()
        && (capabilities >> CAP_SYS_ADMIN & 1 == 1 || helper)
}

fn read_write(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap()
}

fn is_mounted(path: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    mounts.lines().any(|line| line.split(' ').nth(1) == path.to_str())
}

/// A generator of numbers that anyone can follow (Knuth's constants).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % end
    }
}

#[test]
fn random_io_gives_what_a_plain_file_gives() {
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
fn one_call_of_a_program_is_one_operation() {
    let Some(mounted) = mounted(Model::default()) else { return };
    let file = read_write(&mounted.mountpoint.join("data"));
    let mut data = vec![5u8; 256 << 10];
    assert_eq!(file.write_at(&data, 0).unwrap(), data.len());
    // A second time: no page cache stands before the storage.
    for _ in 0..2 {
        assert_eq!(file.read_at(&mut data, 0).unwrap(), data.len());
    }
    // Nothing is read at the end of a file, and only what is there before it.
    assert_eq!(file.read_at(&mut data, 256 << 10).unwrap(), 0);
    assert_eq!(file.read_at(&mut data, 250 << 10).unwrap(), 6 << 10);
    let Stats { read, write } = mounted.emulation.stats();
    assert_eq!((write.achieved.count(), write.bytes, write.sequential), (1, 256 << 10, 1));
    assert_eq!((read.achieved.count(), read.bytes, read.sequential), (3, 518 << 10, 1));
}

/// A latency of `base_ns + bytes * ns_per_byte`.
fn line(base_ns: u64, ns_per_byte: u64) -> Curve {
    let at =
        |bytes: u64| (bytes, Distribution::new(&[((base_ns + bytes * ns_per_byte) as f64, 1)]));
    Curve::new(vec![at(1), at(1 << 20)])
}

/// The same, sequential or random.
fn both(curve: Curve) -> Latencies {
    Latencies { sequential: curve.clone(), random: curve }
}

#[test]
fn no_call_is_faster_than_its_latency() {
    let read = both(line(3_000_000, 10));
    let write = both(line(1_000_000, 100));
    let Some(mounted) = mounted(Model { read, write, ..Model::default() }) else { return };
    let file = read_write(&mounted.mountpoint.join("data"));
    let mut data = vec![1u8; 100_000];
    let floor = mounted.emulation.floor();
    // What the mount adds is taken off; on a busy machine it may add less than it did at the start.
    let least =
        |op, ns: u64| Duration::from_nanos(ns.saturating_sub(floor.added_ns(op, 100_000) as u64));
    for _ in 0..10 {
        let start = Instant::now();
        file.write_all_at(&data, 0).unwrap();
        assert!(start.elapsed() >= least(Op::Write, 11_000_000));
        let start = Instant::now();
        file.read_exact_at(&mut data, 0).unwrap();
        assert!(start.elapsed() >= least(Op::Read, 4_000_000));
    }
}

#[test]
fn the_floor_is_measured_and_leaves_nothing_behind() {
    let Some(mounted) = mounted(Model::default()) else { return };
    let points = mounted.emulation.floor().points().to_vec();
    let sizes: Vec<u64> = points.iter().map(|point| point.bytes >> 10).collect();
    assert_eq!(sizes, [4, 64, 256, 1024, 4, 64, 256, 1024]);
    assert!(points.iter().all(|point| point.added_ns > 0));
    let Stats { read, write } = mounted.emulation.stats();
    assert_eq!((read.achieved.count(), write.achieved.count()), (0, 0));
    assert_eq!(list(&mounted.mountpoint), [""; 0]);
    assert_eq!(list(&mounted.backing), [""; 0]);
}

#[test]
fn sequential_and_random_are_apart() {
    // Random operations take so much longer that no busy machine mixes them up.
    let latencies = Latencies { sequential: line(100_000, 0), random: line(50_000_000, 0) };
    let model = Model { read: latencies.clone(), write: latencies, ..Model::default() };
    let Some(mounted) = mounted(model) else { return };
    let file = read_write(&mounted.mountpoint.join("data"));
    let mut block = vec![7u8; 8192];
    (0..32).for_each(|i| file.write_all_at(&block, i * 8192).unwrap());
    (0..32).for_each(|i| file.read_exact_at(&mut block, i * 8192).unwrap());
    let Stats { read, write } = mounted.emulation.stats();
    assert_eq!((read.sequential, write.sequential), (32, 32));
    for i in 0..8 {
        file.write_all_at(&block, i * 16384).unwrap();
        file.read_exact_at(&mut block, i * 16384).unwrap();
    }
    let Stats { read, write } = mounted.emulation.stats();
    for stats in [read, write] {
        assert_eq!((stats.sequential, stats.achieved.count()), (32, 40));
        // The eight random ones are the slowest fifth.
        assert!(stats.achieved.quantile_ns(0.9) >= 49_000_000);
    }
}

#[test]
fn a_token_bucket_lets_its_burst_pass_at_once() {
    // 100 operations a second, of which 50 go at once: the 60 others take 0.6 s.
    let cost_ns = 10_000_000.0;
    let limit = Limit {
        write_sequential_ns: cost_ns,
        write_random_ns: cost_ns,
        burst_ns: 50.0 * cost_ns,
        ..Limit::default()
    };
    let model = Model { limits: vec![limit], ..Model::default() };
    let Some(mounted) = mounted(model) else { return };
    let file = read_write(&mounted.mountpoint.join("data"));
    let start = Instant::now();
    for i in 0..110 {
        file.write_all_at(&[1; 4096], i * 4096).unwrap();
    }
    let elapsed = start.elapsed();
    // What it refills meanwhile is part of what passes: 110 operations at 0.6 s, or a bit before.
    assert!(elapsed >= Duration::from_millis(590), "{elapsed:?}");
    let write = mounted.emulation.stats().write.achieved;
    assert!(write.quantile_ns(0.4) < 10_000_000, "the burst: {} ns", write.quantile_ns(0.4));
}

#[test]
fn the_page_cache_stands_before_the_storage() {
    if !can_mount() {
        eprintln!("SKIPPED: /dev/fuse, or the right to mount or fusermount3, is missing");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let [backing, mountpoint] = ["backing", "mountpoint"].map(|name| directory.path().join(name));
    fs::create_dir(&backing).unwrap();
    fs::create_dir(&mountpoint).unwrap();
    let model = Model::fixed(1_000_000, 1_000_000);
    let emulation = Emulation::mount(&backing, &mountpoint, model, true).unwrap();
    let requests = || {
        let Stats { read, write } = emulation.stats();
        (read.achieved.count(), write.achieved.count())
    };
    let path = mountpoint.join("data");
    let file = read_write(&path);
    let block: Vec<u8> = (0..8192).map(|i| (i % 251) as u8).collect();
    for i in 0..512 {
        file.write_all_at(&block, i * 8192).unwrap();
    }
    // The page cache takes 512 writes, and hands on far fewer when it likes to, or has to.
    assert!(requests().1 < 100, "{:?}", requests());
    file.sync_all().unwrap();
    let (reads, writes) = requests();
    assert_eq!(reads, 0);
    assert!((1..100).contains(&writes), "{writes}");
    assert_eq!(emulation.stats().write.bytes, 4 << 20);
    let mut data = vec![0; 8192];
    for i in 0..512 {
        file.read_exact_at(&mut data, i * 8192).unwrap();
        assert!(data == block);
    }
    assert_eq!(requests().0, 0, "what was written is read from the page cache");
    // Once the cache has dropped it, it is read ahead.
    use std::os::fd::AsRawFd;
    let advice = libc::POSIX_FADV_DONTNEED;
    assert_eq!(unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, advice) }, 0);
    for i in 0..512 {
        file.read_exact_at(&mut data, i * 8192).unwrap();
        assert!(data == block);
    }
    let reads = requests().0;
    assert!((1..200).contains(&reads), "{reads}");
    // What is not written back yet when the mount goes is not lost.
    file.write_all_at(b"late", 0).unwrap();
    emulation.unmount().unwrap();
    assert_eq!(&fs::read(backing.join("data")).unwrap()[..4], b"late");
}

/// The time from the start of the first of `count` reads that start together to the end of the last.
fn parallel_reads(mounted: &Mounted, count: u64) -> Duration {
    let file = read_write(&mounted.mountpoint.join("data"));
    file.set_len(count * 8192).unwrap();
    let start = Instant::now();
    std::thread::scope(|scope| {
        for index in 0..count {
            let file = &file;
            scope.spawn(move || file.read_exact_at(&mut [0; 8192], index * 8192).unwrap());
        }
    });
    start.elapsed()
}

#[test]
fn reads_overlap_unless_servers_are_few() {
    let read_ms = 500;
    let model = Model::fixed(read_ms * 1_000_000, 0);
    let Some(parallel) = mounted(model.clone()) else { return };
    let elapsed = parallel_reads(&parallel, 8);
    // What the mount adds is taken off.
    assert!(elapsed >= Duration::from_millis(read_ms * 9 / 10));
    // One after the other they would take eight times the latency.
    assert!(elapsed < Duration::from_millis(read_ms * 8), "{elapsed:?}");

    let serial = mounted(Model { servers: Some(2), ..model }).unwrap();
    assert!(parallel_reads(&serial, 8) >= Duration::from_millis(read_ms * 39 / 10));
}

#[test]
fn what_waits_is_answered_when_the_mount_goes() {
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
    // The name is free for another file.
    fs::write(&path, b"another").unwrap();
    assert_eq!(file.metadata().unwrap().len(), 12);
    assert_eq!(fs::read(&path).unwrap(), b"another");
}

#[test]
fn directories_and_names_behave() {
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

fn list(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn allocating_appending_and_syncing_work() {
    let Some(mounted) = mounted(Model::default()) else { return };
    let path = mounted.mountpoint.join("data");
    let file = read_write(&path);
    use std::os::fd::AsRawFd;
    assert_eq!(unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, 10_000) }, 0);
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
    let path = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    let mut stat: libc::statvfs = unsafe { std::mem::zeroed() };
    assert_eq!(unsafe { libc::statvfs(path.as_ptr(), &mut stat) }, 0);
    stat.f_blocks * stat.f_frsize
}

#[test]
fn dropping_unmounts_even_where_a_file_is_open() {
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
        .args(["--exact", "a_server_to_be_killed", "--ignored", "--nocapture"])
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
    // The guard needs a moment; a minute is more than any machine takes.
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
