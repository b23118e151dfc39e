//! The cost of a wait once it is over: the CPU time to fill caches that went cold meanwhile.
//!
//! While a thread sleeps, others use its core and the caches that it shares. Then the same work
//! takes longer. How much longer depends on the machine and on the length of the wait; this module
//! measures it for a few lengths. A query that spills works on more data than any cache holds, so
//! all the cache that a core usually gets goes cold: its own, which does not outlast the shortest
//! sleep, and its share of the last level, which others take bit by bit.

use std::hint::black_box;
use std::time::Duration;

use serde::Serialize;

use crate::random::Shuffle;
use crate::system::thread_cpu_ns;

/// Assumed if the system does not report it.
const L2_BYTES: usize = 1 << 20;
/// Lengths of waits, and how often each is measured with the core's own cache and with its share.
const WAITS: [(Duration, usize, usize); 6] = [
    (Duration::ZERO, 24, 24),
    (Duration::from_micros(100), 24, 24),
    (Duration::from_micros(500), 16, 24),
    (Duration::from_millis(2), 12, 20),
    (Duration::from_millis(5), 8, 16),
    (Duration::from_millis(20), 4, 8),
];

/// Cache that a core can get, in units of its second level: that level and a share of the last
/// level of three times as much are usual on servers.
const SHARE: usize = 4;

/// The cost of waits for a thread that works with `bytes` of memory, as in meta.json.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cache {
    pub bytes: usize,
    /// CPU time to read all of it while warm. A thread that reads less of it between two waits pays
    /// only a part.
    pub(crate) warm_ns: u64,
    /// Length of a wait, the shortest first, and the additional CPU time after it.
    pub(crate) cold_ns: Vec<(u64, u64)>,
}

/// Measures the cost of waits for the core's own cache, and for all the cache that it can get. The
/// loss of the former hardly shows in the latter measurement, whose data does not fit in it. Takes
/// about 0.5 s, nearly all of it asleep.
pub fn measure() -> Vec<Cache> {
    let private = WAITS.map(|(wait, private, _)| (wait, private));
    let shared = WAITS.map(|(wait, _, shared)| (wait, shared));
    vec![measure_working_set(l2_bytes(), private), measure_working_set(SHARE * l2_bytes(), shared)]
}

/// CPU time of a pass without a wait, which is the first, and the increase after each other wait.
fn measure_working_set(bytes: usize, waits: [(Duration, usize); WAITS.len()]) -> Cache {
    let memory = Memory::new(bytes);
    let passes_ns = waits.map(|(wait, times)| {
        let mut passes_ns: Vec<u64> = (0..times)
            .map(|_| {
                // The pass before the wait leaves the caches as warm as they get.
                memory.pass_ns();
                std::thread::sleep(wait);
                memory.pass_ns()
            })
            .collect();
        passes_ns.sort_unstable();
        // Other load on the machine makes passes longer, never shorter.
        passes_ns[times / 4]
    });
    let warm_ns = passes_ns[0];
    let extra = rising(passes_ns.map(|pass_ns| pass_ns.saturating_sub(warm_ns)));
    let waits_ns = waits.iter().map(|(wait, _)| wait.as_nanos() as u64);
    Cache { bytes, warm_ns, cold_ns: waits_ns.zip(extra).skip(1).collect() }
}

const LINE_BYTES: usize = 64;
const LINE_WORDS: usize = LINE_BYTES / size_of::<usize>();

/// Lines of memory, which are read in an order that prefetchers cannot follow.
struct Memory {
    words: Vec<usize>,
    order: Vec<u32>,
}

impl Memory {
    fn new(bytes: usize) -> Memory {
        let lines = bytes / LINE_BYTES;
        let shuffle = Shuffle::new(lines as u64, 0);
        let order = (0..lines as u64).map(|at| shuffle.at(at) as u32).collect();
        // Not zeros, for which all addresses might share one page.
        Memory { words: vec![1; lines * LINE_WORDS], order }
    }

    /// CPU time to read every line once.
    fn pass_ns(&self) -> u64 {
        let start_ns = thread_cpu_ns();
        let read = |&line: &u32| self.words[line as usize * LINE_WORDS];
        black_box(self.order.iter().map(read).sum::<usize>());
        thread_cpu_ns() - start_ns
    }
}

/// The nearest non-decreasing values (isotonic regression): neighbours that decrease are replaced
/// by their mean, repeatedly.
fn rising<const N: usize>(values: [u64; N]) -> [u64; N] {
    let mut pools: Vec<(u64, u64)> = Vec::new();
    for value in values {
        pools.push((value, 1));
        while let [.., (sum, count), (next_sum, next_count)] = pools[..]
            && sum * next_count > next_sum * count
        {
            pools.truncate(pools.len() - 2);
            pools.push((sum + next_sum, count + next_count));
        }
    }
    let mut each = pools.iter().flat_map(|&(sum, count)| (0..count).map(move |_| sum / count));
    values.map(|_| each.next().expect("as many values as there were"))
}

fn l2_bytes() -> usize {
    system_l2_bytes().filter(|&bytes| bytes > 0).unwrap_or(L2_BYTES)
}

#[cfg(target_env = "gnu")]
fn system_l2_bytes() -> Option<usize> {
    // SAFETY: no pointer is passed.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_LEVEL2_CACHE_SIZE) }).ok()
}

/// Other C libraries do not report it; the kernel does, as `1024K`.
#[cfg(not(target_env = "gnu"))]
fn system_l2_bytes() -> Option<usize> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/cpu0/cache/index2/size").ok()?;
    Some(text.trim().strip_suffix('K')?.parse::<usize>().ok()? << 10)
}

#[cfg(test)]
mod tests {
    #[test]
    fn decreasing_values_are_averaged() {
        assert_eq!(super::rising([1, 2, 3, 3]), [1, 2, 3, 3]);
        assert_eq!(super::rising([0, 10, 4, 20]), [0, 7, 7, 20]);
        assert_eq!(super::rising([9, 6, 3, 2]), [5, 5, 5, 5]);
    }

    use super::*;

    #[test]
    fn every_wait_is_measured() {
        let [private, shared] = &measure()[..] else { panic!("two caches") };
        for Cache { warm_ns, cold_ns, .. } in [private, shared] {
            assert_eq!(cold_ns.len(), WAITS.len() - 1);
            assert!(cold_ns.is_sorted(), "{cold_ns:?}");
            assert!(*warm_ns > 0);
        }
        assert_eq!(shared.bytes, SHARE * private.bytes);
        assert!(shared.warm_ns > private.warm_ns);
    }
}
