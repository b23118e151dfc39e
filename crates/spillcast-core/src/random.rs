//! Pseudo-random numbers that are the same in every run.

/// Increment of the state of SplitMix64 (Steele, Lea, Flood 2014).
pub(crate) const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finalizer of SplitMix64: a bijection, so that different numbers stay different.
pub(crate) fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// SplitMix64: every word is new, and a gigabyte takes a fraction of a second.
pub fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(STEP);
    mix(*state)
}

/// A random order of the numbers below `count`, computed without storing it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shuffle {
    count: u64,
    bits: u32,
    keys: [u64; 4],
}

impl Shuffle {
    pub fn new(count: u64, mut key: u64) -> Shuffle {
        // Both halves of a number of `bits` bits have the same width.
        let bits = (64 - (count.max(2) - 1).leading_zeros()).next_multiple_of(2);
        Shuffle { count, bits, keys: std::array::from_fn(|_| next(&mut key)) }
    }

    /// The number at a position; positions beyond the last start over.
    pub fn at(&self, position: u64) -> u64 {
        // The network permutes the numbers below a power of 4 that is at least `count`. Applying it
        // again to results outside of `count` permutes those inside.
        let mut number = position % self.count;
        loop {
            number = self.feistel(number);
            if number < self.count {
                return number;
            }
        }
    }

    fn feistel(&self, number: u64) -> u64 {
        let half = self.bits / 2;
        let mask = (1 << half) - 1;
        let (mut left, mut right) = (number >> half, number & mask);
        for key in self.keys {
            (left, right) = (right, left ^ mix(right ^ key) & mask);
        }
        left << half | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_is_a_permutation_with_few_neighbours() {
        for count in [1, 2, 3, 7, 64, 1000, 4097] {
            let mut neighbours = 0;
            for key in 0..100 {
                let shuffle = Shuffle::new(count, key);
                let mut order: Vec<u64> = (0..count).map(|at| shuffle.at(at)).collect();
                assert_eq!(order[0], shuffle.at(count));
                neighbours += order.windows(2).filter(|pair| pair[1] == pair[0] + 1).count();
                order.sort_unstable();
                assert!(order.into_iter().eq(0..count));
            }
            // By chance, an order of many has one such pair.
            assert!(neighbours < 200, "{count}: {neighbours} in 100 orders");
        }
    }

    #[test]
    fn another_key_gives_another_order() {
        let order = |key| (0..100).map(|at| Shuffle::new(100, key).at(at)).collect::<Vec<_>>();
        assert_ne!(order(1), order(2));
    }
}
