//! Reads of memory in an order that no prefetcher follows, warm and after waits.
//!
//! Where each read tells where the next one is, a processor cannot overlap what misses the caches,
//! as in a hash join's probes or a sort's comparisons; where none does, it overlaps nearly all.

use std::hint::{black_box, spin_loop};
use std::time::{Duration, Instant};

use crate::random;
use crate::system::thread_cpu_ns;

const LINE_BYTES: usize = 64;
const LINE_WORDS: usize = LINE_BYTES / size_of::<usize>();
/// Reads of one measurement.
pub const HOPS: usize = 3_000;
/// Memory that is gone through.
const SETS_BYTES: [usize; 3] = [256 << 10, 1 << 20, 4 << 20];
const WAITS: [Duration; 3] =
    [Duration::from_micros(100), Duration::from_micros(500), Duration::from_millis(2)];
const TIMES: usize = 15;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Wait {
    Not,
    Spinning,
    Sleeping,
}

impl Wait {
    pub fn name(self) -> &'static str {
        match self {
            Wait::Not => "not",
            Wait::Spinning => "spinning",
            Wait::Sleeping => "sleeping",
        }
    }

    fn pass(self, wait: Duration) {
        match self {
            Wait::Not => {}
            Wait::Sleeping => std::thread::sleep(wait),
            Wait::Spinning => {
                let start = Instant::now();
                while start.elapsed() < wait {
                    spin_loop();
                }
            }
        }
    }
}

/// What `HOPS` reads took after a wait.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PointerChase {
    pub bytes: usize,
    pub dependent: bool,
    pub wait: Wait,
    pub wait_ns: u64,
    /// CPU time, median.
    pub elapsed_ns: u64,
}

/// Measures every set of memory after every wait, in some two seconds.
pub fn measure() -> Vec<PointerChase> {
    let mut waits = vec![(Wait::Not, Duration::ZERO)];
    for wait in [Wait::Spinning, Wait::Sleeping] {
        waits.extend(WAITS.map(|duration| (wait, duration)));
    }
    let mut chases = Vec::new();
    for bytes in SETS_BYTES {
        let ring = Ring::new(bytes);
        for dependent in [true, false] {
            for &(wait, duration) in &waits {
                let elapsed_ns = median_ns(&ring, dependent, wait, duration);
                let wait_ns = duration.as_nanos() as u64;
                chases.push(PointerChase { bytes, dependent, wait, wait_ns, elapsed_ns });
            }
        }
    }
    chases
}

fn median_ns(ring: &Ring, dependent: bool, wait: Wait, duration: Duration) -> u64 {
    let mut each_ns: [u64; TIMES] = std::array::from_fn(|time| {
        // All of the set before the wait leaves the caches as warm as they get.
        ring.read_ns(0, ring.order.len(), dependent);
        wait.pass(duration);
        ring.read_ns(time * HOPS, HOPS, dependent)
    });
    each_ns.sort_unstable();
    each_ns[TIMES / 2]
}

/// Lines of memory, each of which holds the place of the next one in a round through all.
pub(crate) struct Ring {
    words: Vec<usize>,
    /// Lines in the order of the round.
    order: Vec<u32>,
}

impl Ring {
    pub fn new(bytes: usize) -> Ring {
        let lines = bytes / LINE_BYTES;
        let mut order: Vec<u32> = (0..lines as u32).collect();
        // Any fixed shuffle will do.
        let mut state = 0;
        for i in (1..lines).rev() {
            order.swap(i, (random::next(&mut state) % (i as u64 + 1)) as usize);
        }
        let mut words = vec![0; lines * LINE_WORDS];
        for (at, &line) in order.iter().enumerate() {
            words[line as usize * LINE_WORDS] = order[(at + 1) % lines] as usize * LINE_WORDS;
        }
        Ring { words, order }
    }

    /// CPU time to read every line once, none of them by what another holds.
    pub(crate) fn pass_ns(&self) -> u64 {
        self.read_ns(0, self.order.len(), false)
    }

    /// CPU time to read so many lines of the round, from one of them on.
    fn read_ns(&self, from: usize, hops: usize, dependent: bool) -> u64 {
        let from = from % self.order.len();
        let start_ns = thread_cpu_ns();
        if dependent {
            black_box(self.follow(self.order[from] as usize * LINE_WORDS, hops));
        } else {
            let read = |&line: &u32| self.words[line as usize * LINE_WORDS];
            let round = self.order[from..].iter().chain(&self.order[..from]);
            black_box(round.take(hops).map(read).sum::<usize>());
        }
        thread_cpu_ns() - start_ns
    }

    /// The word that so many hops lead to.
    fn follow(&self, from: usize, hops: usize) -> usize {
        (0..hops).fold(from, |word, _| self.words[word])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_goes_through_every_line_once() {
        let ring = Ring::new(1 << 14);
        let lines = (1 << 14) / LINE_BYTES;
        let mut seen: Vec<usize> = (0..lines).map(|hops| ring.follow(0, hops)).collect();
        seen.sort_unstable();
        assert!(seen.into_iter().eq((0..lines).map(|line| line * LINE_WORDS)));
        assert_eq!(ring.follow(0, lines), 0);
    }

    #[test]
    fn every_set_is_read_after_every_wait() {
        let chases = measure();
        assert_eq!(chases.len(), SETS_BYTES.len() * 2 * (1 + 2 * WAITS.len()));
        assert!(chases.iter().all(|chase| chase.elapsed_ns > 0));
    }
}
