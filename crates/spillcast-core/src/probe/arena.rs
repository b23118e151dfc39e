//! The memory that a probe writes from and reads into.
//!
//! The cells of a grid use buffers in turn, which are cold when they are reused. A replay has a
//! buffer for each file of a thread, as engines do, and fills it before each write.

use std::slice;

use crate::random;

const PAGE_BYTES: usize = 4096;
/// Large enough that a buffer has left the inner caches before it is reused, as in an engine.
const ARENA_BYTES: usize = 64 << 20;

/// Aligned as O_DIRECT requires.
#[derive(Clone)]
#[repr(C, align(4096))]
struct Page([u64; PAGE_BYTES / 8]);

/// Page-aligned memory filled with incompressible bytes, in one slice per thread.
pub(super) struct Arena {
    pages: Vec<Page>,
}

impl Arena {
    /// About 64 MiB in `slices` parts, or more if a part could not hold `largest_bytes`.
    pub(super) fn new(slices: usize, largest_bytes: usize, seed: u64) -> Arena {
        let mut pages = vec![Page([0; PAGE_BYTES / 8]); pages(slices, largest_bytes)];
        let mut state = seed;
        for word in pages.iter_mut().flat_map(|page| &mut page.0) {
            *word = random::next(&mut state);
        }
        Arena { pages }
    }

    /// Memory that `new` allocates.
    pub(super) fn bytes(slices: usize, largest_bytes: usize) -> usize {
        pages(slices, largest_bytes) * PAGE_BYTES
    }

    pub(super) fn slices(&mut self, count: usize) -> impl Iterator<Item = Slice<'_>> {
        let slice_pages = self.pages.len() / count;
        self.pages.chunks_exact_mut(slice_pages).take(count).map(|pages| {
            let bytes = size_of_val(pages);
            // SAFETY: a page consists of whole words without padding, and the borrow of the pages
            // ends with that of the bytes.
            let bytes = unsafe { slice::from_raw_parts_mut(pages.as_mut_ptr().cast(), bytes) };
            Slice { bytes, next: 0 }
        })
    }
}

fn pages(slices: usize, largest_bytes: usize) -> usize {
    (ARENA_BYTES / slices).max(largest_bytes).div_ceil(PAGE_BYTES) * slices
}

/// One thread's part of the arena, used as a ring of buffers.
pub(super) struct Slice<'a> {
    bytes: &'a mut [u8],
    next: usize,
}

impl Slice<'_> {
    /// The least recently used page-aligned buffer of `bytes`.
    pub(super) fn buffer(&mut self, bytes: usize) -> &mut [u8] {
        if self.next + bytes > self.bytes.len() {
            self.next = 0;
        }
        let start = self.next;
        self.next += bytes.next_multiple_of(PAGE_BYTES);
        &mut self.bytes[start..start + bytes]
    }

    /// The buffer of a file, for steps of at most `largest_bytes`. Without room for all files, some
    /// files share a buffer.
    pub(super) fn of_file(&mut self, file: u32, bytes: usize, largest_bytes: usize) -> &mut [u8] {
        let each_bytes = largest_bytes.next_multiple_of(PAGE_BYTES).max(PAGE_BYTES);
        let count = (self.bytes.len() / each_bytes).max(1);
        let start = file as usize % count * each_bytes;
        &mut self.bytes[start..start + bytes]
    }

    /// Page-aligned start of the slice, for the kernel to read from and write to.
    pub(super) fn start(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr()
    }

    /// The whole slice, for untimed I/O.
    pub(super) fn all(&self) -> &[u8] {
        self.bytes
    }
}

/// Changes incompressible bytes into others, still incompressible; leaves them in the CPU caches.
pub(super) fn change(bytes: &mut [u8], seed: u64) {
    let mut state = seed;
    let mask = random::next(&mut state) | 0x0101_0101_0101_0101;
    for word in bytes.chunks_exact_mut(8) {
        let old = u64::from_ne_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|at| word[at]));
        word.copy_from_slice(&(old ^ mask).to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_reused_only_after_the_whole_slice() {
        let mut arena = Arena::new(2, 5_000, 1);
        for mut slice in arena.slices(2) {
            let whole = slice.all().len();
            assert_eq!(whole, ARENA_BYTES / 2);
            let mut seen = Vec::new();
            for _ in 0..whole / 8192 {
                let buffer = slice.buffer(5_000);
                assert_eq!(buffer.len(), 5_000);
                assert_eq!(buffer.as_ptr() as usize % PAGE_BYTES, 0);
                seen.push(buffer.as_ptr());
            }
            assert_eq!(slice.buffer(5_000).as_ptr(), seen[0]);
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len(), whole / 8192);
        }
    }

    #[test]
    fn each_file_keeps_its_own_buffer() {
        let mut arena = Arena::new(2, 8192, 1);
        let mut slice = arena.slices(2).next().unwrap();
        let mut start = |file| slice.of_file(file, 5_000, 8192).as_ptr();
        let starts: Vec<_> = (0..100).map(&mut start).collect();
        assert!((0..100).map(&mut start).eq(starts.iter().copied()));
        assert!(starts.windows(2).all(|pair| pair[1] as usize - pair[0] as usize == 8192));
        let files = (ARENA_BYTES / 2 / 8192) as u32;
        assert_eq!(start(files), starts[0]);
    }

    #[test]
    fn changed_data_differs_from_the_previous_data() {
        let mut arena = Arena::new(1, 8192, 1);
        let mut slice = arena.slices(1).next().unwrap();
        let buffer = slice.of_file(0, 8191, 8192);
        let before = buffer.to_vec();
        change(buffer, 7);
        let same = buffer.iter().zip(&before).filter(|(now, then)| now == then).count();
        assert!(same < 8191 / 4, "{same}");
    }

    #[test]
    fn a_slice_holds_the_largest_step() {
        let mut arena = Arena::new(100, 1 << 20, 1);
        assert!(arena.slices(100).all(|slice| slice.all().len() == 1 << 20));
    }
}
