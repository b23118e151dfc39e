//! The cost of operations: latencies, limits, servers, and the page cache in front of them.

use std::fs;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use spillcast_core::emulate::Stats;
use spillcast_core::storage::{Curve, Curves, Distribution, Latencies, Limit, Model};
use spillcast_core::wait::Op;

use crate::{Mounted, list, mounted, mounted_with, read_write};

#[test]
fn each_call_of_a_program_is_one_operation() {
    let Some(mounted) = mounted(Model::default()) else { return };
    let file = read_write(&mounted.mountpoint.join("data"));
    let mut data = vec![5u8; 256 << 10];
    assert_eq!(file.write_at(&data, 0).unwrap(), data.len());
    // Twice, because there is no page cache in front of the storage.
    for _ in 0..2 {
        assert_eq!(file.read_at(&mut data, 0).unwrap(), data.len());
    }
    // A read at the end of a file returns nothing, and a read across it only what is there.
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

fn at_any_depth(curve: Curve) -> Curves {
    Curves::new(vec![(1, curve)])
}

/// The same for sequential and random operations.
fn both(curve: Curve) -> Latencies {
    let curves = at_any_depth(curve);
    Latencies { sequential: curves.clone(), random: curves }
}

#[test]
fn no_call_is_faster_than_its_latency() {
    let read = both(line(3_000_000, 10));
    let write = both(line(1_000_000, 100));
    let Some(mounted) = mounted(Model { read, write, ..Model::default() }) else { return };
    let file = read_write(&mounted.mountpoint.join("data"));
    let mut data = vec![1u8; 100_000];
    let floor = mounted.emulation.floor();
    // The latency of the mount is subtracted; on a busy machine it may be lower than at the start.
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
fn sequential_and_random_operations_have_separate_latencies() {
    // Random operations take so much longer that even a busy machine shows the difference.
    let latencies = Latencies {
        sequential: at_any_depth(line(100_000, 0)),
        random: at_any_depth(line(50_000_000, 0)),
    };
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
        // The eight random operations are the slowest fifth.
        assert!(stats.achieved.quantile_ns(0.9) >= 49_000_000);
    }
}

#[test]
fn a_token_bucket_passes_its_burst_at_once() {
    // 100 operations a second, of which 50 pass at once: the other 60 take 0.6 s.
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
    // The bucket refills meanwhile: 110 operations have passed at 0.6 s, or slightly earlier.
    assert!(elapsed >= Duration::from_millis(590), "{elapsed:?}");
    let write = mounted.emulation.stats().write.achieved;
    assert!(write.quantile_ns(0.4) < 10_000_000, "the burst: {} ns", write.quantile_ns(0.4));
}

#[test]
fn the_page_cache_is_in_front_of_the_storage() {
    let model = Model::fixed(1_000_000, 1_000_000);
    let Some(mounted) = mounted_with(model, true) else { return };
    let Mounted { emulation, backing, mountpoint, _directory } = mounted;
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
    // The page cache absorbs 512 writes, and passes on far fewer.
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
    // Once the cache has dropped the data, readahead fetches it.
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    for i in 0..512 {
        file.read_exact_at(&mut data, i * 8192).unwrap();
        assert!(data == block);
    }
    let reads = requests().0;
    assert!((1..200).contains(&reads), "{reads}");
    // Data not yet written back at the unmount is not lost.
    file.write_all_at(b"late", 0).unwrap();
    emulation.unmount().unwrap();
    assert_eq!(&fs::read(backing.join("data")).unwrap()[..4], b"late");
}

/// The time from the start of `count` concurrent reads to the end of the last one.
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
fn reads_overlap_unless_servers_are_limited() {
    let read_ms = 500;
    let model = Model::fixed(read_ms * 1_000_000, 0);
    let Some(parallel) = mounted(model.clone()) else { return };
    let elapsed = parallel_reads(&parallel, 8);
    // The latency of the mount is subtracted.
    assert!(elapsed >= Duration::from_millis(read_ms * 9 / 10));
    // Serial reads would take eight times the latency.
    assert!(elapsed < Duration::from_millis(read_ms * 8), "{elapsed:?}");

    let serial = mounted(Model { servers: Some(2), ..model }).unwrap();
    assert!(parallel_reads(&serial, 8) >= Duration::from_millis(read_ms * 39 / 10));
}
