//! A set of 4 KiB blocks of one file, to which many threads can add concurrently.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) const BLOCK_BYTES: u64 = 4096;

const WORD_BLOCKS: u64 = 64;
const CHUNK_WORDS: u64 = 512;
const CHUNK_BYTES: u64 = CHUNK_WORDS * WORD_BLOCKS * BLOCK_BYTES;

type Chunk = [AtomicU64; CHUNK_WORDS as usize];

/// One bit per block, in chunks of 128 MiB of file that are allocated with their first block, so
/// that a sparse file costs only what is used of it.
pub(super) struct BlockSet {
    chunks: Vec<OnceLock<Box<Chunk>>>,
}

impl BlockSet {
    /// An empty set for a file of at most `extent_bytes`.
    pub(super) fn new(extent_bytes: u64) -> BlockSet {
        let count = extent_bytes.div_ceil(CHUNK_BYTES);
        BlockSet { chunks: (0..count).map(|_| OnceLock::new()).collect() }
    }

    /// Adds the blocks that `bytes` touches; returns how many were new.
    pub(super) fn insert(&self, bytes: Range<u64>) -> u64 {
        let mut added = 0;
        for (word, mask) in words(bytes) {
            let chunk = self.chunks[(word / CHUNK_WORDS) as usize]
                .get_or_init(|| Box::new([const { AtomicU64::new(0) }; CHUNK_WORDS as usize]));
            let before = chunk[(word % CHUNK_WORDS) as usize].fetch_or(mask, Ordering::AcqRel);
            added += u64::from((mask & !before).count_ones());
        }
        added
    }

    /// Removes the blocks from `start` on, including a block in whose middle `start` lies.
    pub(super) fn remove_from(&self, start: u64) {
        let extent_bytes = self.chunks.len() as u64 * CHUNK_BYTES;
        if start >= extent_bytes {
            return;
        }
        for (word, mask) in words(start..extent_bytes) {
            if let Some(chunk) = self.chunks[(word / CHUNK_WORDS) as usize].get() {
                chunk[(word % CHUNK_WORDS) as usize].fetch_and(!mask, Ordering::AcqRel);
            }
        }
    }

    /// Whether the set contains every block that `bytes` touches.
    pub(super) fn contains(&self, bytes: Range<u64>) -> bool {
        words(bytes).all(|(word, mask)| self.word(word) & mask == mask)
    }

    /// The missing blocks that `bytes` touches, as byte ranges of whole blocks.
    pub(super) fn missing(&self, bytes: Range<u64>) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for block in bytes.start / BLOCK_BYTES..bytes.end.div_ceil(BLOCK_BYTES) {
            if self.word(block / WORD_BLOCKS) >> (block % WORD_BLOCKS) & 1 == 1 {
                continue;
            }
            let (start, end) = (block * BLOCK_BYTES, (block + 1) * BLOCK_BYTES);
            match runs.last_mut() {
                Some(run) if run.end == start => run.end = end,
                _ => runs.push(start..end),
            }
        }
        runs
    }

    fn word(&self, word: u64) -> u64 {
        let chunk = self.chunks[(word / CHUNK_WORDS) as usize].get();
        chunk.map_or(0, |chunk| chunk[(word % CHUNK_WORDS) as usize].load(Ordering::Acquire))
    }
}

/// The words with the blocks of a non-empty byte range, each with a mask of the blocks.
fn words(bytes: Range<u64>) -> impl Iterator<Item = (u64, u64)> {
    let first = bytes.start / BLOCK_BYTES;
    let last = (bytes.end - 1) / BLOCK_BYTES;
    (first / WORD_BLOCKS..=last / WORD_BLOCKS).map(move |word| {
        let low = first.max(word * WORD_BLOCKS) % WORD_BLOCKS;
        let high = last.min(word * WORD_BLOCKS + WORD_BLOCKS - 1) % WORD_BLOCKS;
        (word, u64::MAX << low & u64::MAX >> (WORD_BLOCKS - 1 - high))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn blocks(bytes: Range<u64>) -> impl Iterator<Item = u64> {
        (0..)
            .skip_while(move |b| (b + 1) * 4096 <= bytes.start)
            .take_while(move |b| b * 4096 < bytes.end)
    }

    proptest! {
        #[test]
        fn a_block_set_agrees_with_a_plain_set(
            ranges in prop::collection::vec((any::<bool>(), 0u64..3_000_000, 1u64..600_000), 1..60)
        ) {
            let set = BlockSet::new(3_600_000);
            let mut plain = BTreeSet::new();
            for (add, start, length) in ranges {
                let range = start..start + length;
                let absent: Vec<u64> =
                    blocks(range.clone()).filter(|block| !plain.contains(block)).collect();
                let missing: Vec<u64> =
                    set.missing(range.clone()).into_iter().flat_map(blocks).collect();
                prop_assert_eq!(&missing, &absent);
                prop_assert_eq!(set.contains(range.clone()), absent.is_empty());
                if add {
                    prop_assert_eq!(set.insert(range), absent.len() as u64);
                    plain.extend(absent);
                }
            }
        }
    }

    #[test]
    fn a_far_block_of_a_sparse_file_is_found_across_chunks() {
        let set = BlockSet::new(1 << 44);
        let edge = CHUNK_BYTES * 1000;
        assert_eq!(set.insert(edge - 1..edge + 1), 2);
        assert!(set.contains(edge - 4096..edge + 4096));
        assert_eq!(set.missing(edge - 8192..edge + 1), vec![edge - 8192..edge - 4096]);
        assert_eq!(set.insert((1 << 44) - 1..1 << 44), 1);
        set.remove_from(edge);
        assert!(set.contains(edge - 4096..edge));
        assert_eq!(set.missing(edge - 1..edge + 1), vec![edge..edge + 4096]);
        assert_eq!(set.insert((1 << 44) - 1..1 << 44), 1);
    }
}
