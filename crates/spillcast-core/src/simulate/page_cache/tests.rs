//! A page cache beside lists of pages, and cases whose times are obvious.

use super::*;
use crate::random::mix;
use crate::storage::Model;

const PAGE: u64 = PAGE_BYTES;

fn io(op: Op, file: u32, page: u64, pages: u64) -> Io {
    Io { op, file, offset: Some(page * PAGE), bytes: pages * PAGE, ..Io::default() }
}

fn cache(pages: u64, dirty_pages: u64, operations: &[Io]) -> PageCache {
    let limits = PageCacheLimits { bytes: pages * PAGE, dirty_bytes: dirty_pages * PAGE };
    PageCache::new(limits, operations)
}

/// Whether all pages of each operation are among those used last; a slow, obvious implementation.
fn hits_by_lists(operations: &[Io], room: usize) -> Vec<bool> {
    let mut last: Vec<(u32, u64)> = Vec::new();
    let pages = |io: &Io| {
        let (first, file) = (io.offset.unwrap() / PAGE, io.file);
        (first..first + io.bytes / PAGE).map(move |page| (file, page))
    };
    let mut known: Vec<(u32, u64)> = Vec::new();
    for page in operations.iter().flat_map(|io| pages(io).map(move |page| (page, io.op))) {
        if !known.contains(&page.0) {
            known.push(page.0);
            last.extend((page.1 != Op::Write).then_some(page.0));
        }
    }
    last.drain(..last.len().saturating_sub(room));
    let uses = operations.iter().enumerate().map(|(at, io)| {
        let mut all = true;
        for page in pages(io) {
            let position = last.iter().position(|&other| other == page);
            all &= position.is_some();
            position.map(|at| last.remove(at));
            last.push(page);
            last.drain(..last.len().saturating_sub(room));
        }
        if operations[at + 1..].iter().all(|other| other.file != io.file) {
            last.retain(|&(file, _)| file != io.file);
        }
        all || io.op == Op::Write
    });
    uses.collect()
}

#[test]
fn hits_equal_those_of_a_list_of_recent_pages() {
    for seed in 0..20u64 {
        let draw = |at: u64, of: u64| mix(seed * 1_000_003 + at) % of;
        let operations: Vec<Io> = (0..400u64)
            .map(|at| {
                let op = if draw(4 * at, 3) == 0 { Op::Write } else { Op::Read };
                let file = (at / 200) as u32 + draw(4 * at + 1, 2) as u32;
                io(op, file, draw(4 * at + 2, 60), 1 + draw(4 * at + 3, 4))
            })
            .collect();
        let mut cache = cache(50, 1 << 20, &operations);
        let disk = Schedule::new(Model::fixed(1_000, 1_000), 0);
        let mut of = |io: &Io| cache.storage_ns(0, *io, false, &disk) == 0.0;
        let hits: Vec<bool> = operations.iter().map(&mut of).collect();
        assert_eq!(hits, hits_by_lists(&operations, 50), "seed {seed}");
        assert!(hits.iter().any(|&hit| !hit) && hits.iter().any(|&hit| hit));
    }
}

#[test]
fn a_sequential_reader_waits_once_per_32_pages() {
    let written = (0..512).map(|page| io(Op::Write, 0, page, 1));
    let operations: Vec<Io> =
        written.chain((0..512).map(|page| io(Op::Read, 0, page, 1))).collect();
    let mut cache = cache(64, 1 << 20, &operations);
    let disk = Schedule::new(Model::fixed(1_000, 1_000), 0);
    let waits = operations.iter().filter(|io| cache.storage_ns(0, **io, true, &disk) > 0.0);
    assert_eq!(waits.count(), 512 / 32);
}

#[test]
fn readahead_stops_at_the_end_of_a_file() {
    let operations: Vec<Io> = (0..100).map(|page| io(Op::Write, 0, page, 1)).collect();
    let mut cache = cache(64, 1 << 20, &operations);
    operations.iter().flat_map(keys).for_each(|key| cache.make_dirty(key));
    let read = (0..100).map(|page| cache.missing_bytes(&io(Op::Read, 0, page, 1), true));
    assert_eq!(read.sum::<u64>(), 100 * PAGE);
}

#[test]
fn dirty_data_is_written_back_in_pauses() {
    let operations: Vec<Io> = (0..300).map(|page| io(Op::Write, 0, page, 1)).collect();
    let mut cache = cache(1 << 20, 256, &operations);
    let disk = Schedule::new(Model::fixed(1_000, 1_000), 0);
    let waits: f64 = operations
        .iter()
        .enumerate()
        .map(|(at, operation)| {
            cache.storage_ns(if at < 200 { 0 } else { 1 << 30 }, *operation, true, &disk)
        })
        .sum();
    assert_eq!(waits, 0.0);
}

#[test]
fn a_writer_is_throttled_to_the_storage_at_the_dirty_limit() {
    let operations: Vec<Io> = (0..200).map(|at| io(Op::Write, 0, at * 256, 256)).collect();
    let mut cache = cache(1 << 20, 2560, &operations);
    // A request takes 1 ms and moves 256 KiB, eight at a time: 2 GiB/s, and no time between.
    let disk = Schedule::new(Model::fixed(1_000_000, 1_000_000), 0);
    let mut now_ns = 0.0;
    for operation in &operations {
        now_ns += cache.storage_ns(now_ns as u64, *operation, true, &disk);
    }
    let written = 200.0 - 10.0;
    assert!((now_ns / 1e6 - written / 2.0).abs() <= 2.0, "{now_ns}");
}

#[test]
fn data_that_is_never_written_back_costs_nothing() {
    let operations: Vec<Io> = (0..100).map(|file| io(Op::Write, file, 0, 256)).collect();
    let mut cache = cache(1 << 20, 2560, &operations);
    let disk = Schedule::new(Model::fixed(1_000_000, 1_000_000), 0);
    assert!(operations.iter().all(|operation| cache.storage_ns(0, *operation, true, &disk) == 0.0));
}

/// Reads and writes of 8 KiB in files of 16 MiB. A file is written, and read back at once or ten
/// files later.
fn spilled() -> Vec<Io> {
    let pass = |op, file| (0..2048u64).map(move |at| io(op, file, 2 * at, 2));
    let files = (0..60u32).flat_map(|file| {
        let read = if file % 2 == 0 || file < 10 { file } else { file - 10 };
        pass(Op::Write, file).chain(pass(Op::Read, read))
    });
    files.collect()
}

/// Bytes missing from the cache in a share `rate` of all regions, and the number of reads.
fn lacking(operations: &[Io], rate: f64, pages: u64) -> (f64, usize) {
    let mut regions = Regions::new(rate, 1);
    let picked: Vec<Io> =
        operations.iter().copied().filter(|io| regions.push(*io).0.is_some()).collect();
    let missing = regions.missing_bytes(pages * PAGE);
    let reads = picked.iter().filter(|io| io.op == Op::Read).count();
    (missing.iter().sum::<u64>() as f64, reads)
}

#[test]
fn all_regions_miss_as_much_as_a_page_cache() {
    let operations = spilled();
    for pages in [1 << 10, 10 << 10, 30 << 10, 1 << 20] {
        let mut cache = cache(pages, 1 << 30, &operations);
        let mut ends = Ends::new();
        let each = operations.iter().map(|&io| {
            let (io, sequential) = place(&mut ends, io);
            let missing = if io.op == Op::Write {
                keys(&io).for_each(|key| cache.make_dirty(key));
                0
            } else {
                cache.missing_bytes(&io, sequential)
            };
            cache.end_operation(io.file);
            missing
        });
        let expected = each.sum::<u64>() as f64;
        let (missing, reads) = lacking(&operations, 1.0, pages);
        assert_eq!(reads, 60 * 2048);
        assert_eq!(missing, expected, "{pages} pages");
    }
}

#[test]
fn a_sample_of_regions_misses_the_same_share() {
    let operations = spilled();
    let (all, all_reads) = lacking(&operations, 1.0, 20 << 10);
    let (some, reads) = lacking(&operations, 0.25, 20 << 10);
    assert!(reads > all_reads / 5 && reads < all_reads / 3, "{reads}");
    let (all, some) = (all / all_reads as f64, some / reads as f64);
    // Sampling error of 240 regions.
    assert!((some / all - 1.0).abs() < 0.2, "{some} {all}");
}

#[test]
fn each_group_of_regions_misses_a_similar_share() {
    let operations = spilled();
    // Five files wait to be read; room for exactly five would be an edge case.
    let (all, all_reads) = lacking(&operations, 1.0, 10 << 10);
    let mut regions = Regions::new(0.8, 4);
    let picked: Vec<(usize, Op)> =
        operations.iter().filter_map(|io| Some((regions.push(*io).0?, io.op))).collect();
    let missing = regions.missing_bytes((10 << 10) * PAGE);
    assert_eq!(missing.len(), picked.len());
    for group in 0..4 {
        let its = || {
            picked.iter().zip(&missing).filter(|(operation, _)| **operation == (group, Op::Read))
        };
        let (reads, bytes) = (its().count(), its().map(|(_, &bytes)| bytes).sum::<u64>());
        assert!(reads > all_reads / 8 && reads < all_reads / 3, "{reads}");
        // Sampling error of 190 regions.
        let (all, its) = (all / all_reads as f64, bytes as f64 / reads as f64);
        assert!((its / all - 1.0).abs() < 0.25, "{its} {all}");
    }
}
