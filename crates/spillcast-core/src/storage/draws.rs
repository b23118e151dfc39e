//! Quantiles at which latencies are drawn: random, or spread evenly over known operations.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::model::Operation;
use crate::random::{STEP, mix};
use crate::wait::{Op, size_class_bytes};

/// Quantiles from 0 up to but not including 1.
pub(crate) enum Draws {
    /// For operations that are not known in advance.
    Random(Random),
    /// For known operations: each of the n of an op and size class gets another one of n strata.
    Even(Mutex<BTreeMap<Class, Strata>>),
}

/// Op and size class in bytes.
type Class = (Op, u64);

impl Draws {
    pub fn random() -> Draws {
        Draws::Random(Random::default())
    }

    /// For these operations, each of which is drawn for once, in any order.
    pub(crate) fn even(operations: impl Iterator<Item = (Op, u64)>) -> Draws {
        // A sorted map, so that the same operations always get the same quantiles.
        let mut counts: BTreeMap<Class, usize> = BTreeMap::new();
        for (op, bytes) in operations {
            *counts.entry((op, size_class_bytes(bytes))).or_default() += 1;
        }
        let random = Random::default();
        let strata = |(class, count)| (class, Strata::new(count, &random));
        Draws::Even(Mutex::new(counts.into_iter().map(strata).collect()))
    }

    pub fn next(&self, operation: Operation) -> f64 {
        match self {
            Draws::Random(random) => random.next(),
            Draws::Even(classes) => {
                let mut classes = classes.lock().expect("nothing panics with the lock held");
                let class = (operation.op, size_class_bytes(operation.bytes));
                classes.get_mut(&class).map_or(0.5, Strata::next)
            }
        }
    }
}

/// The middles of n equal parts of 0 to 1, shuffled.
pub(crate) struct Strata {
    shuffled: Vec<u32>,
    next: usize,
}

impl Strata {
    fn new(count: usize, random: &Random) -> Strata {
        let mut shuffled: Vec<u32> = (0..count as u32).collect();
        for last in (1..count).rev() {
            shuffled.swap(last, (random.next() * (last + 1) as f64) as usize);
        }
        Strata { shuffled, next: 0 }
    }

    fn next(&mut self) -> f64 {
        let at = self.next % self.shuffled.len();
        self.next += 1;
        (f64::from(self.shuffled[at]) + 0.5) / self.shuffled.len() as f64
    }
}

/// Uniform numbers from 0 to 1 for many threads, the same in every run.
#[derive(Default)]
pub struct Random(AtomicU64);

impl Random {
    fn next(&self) -> f64 {
        let mixed = mix(self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP));
        (mixed >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_operations_get_the_same_quantiles() {
        let sizes = [512, 4096, 8192, 65536, 1 << 20];
        let operations: Vec<_> = (0..500).map(|at| (Op::Read, sizes[at % 5])).collect();
        let drawn = || -> Vec<f64> {
            let draws = Draws::even(operations.iter().copied());
            let of = |&(op, bytes)| Operation { op, sequential: true, bytes };
            operations.iter().map(|operation| draws.next(of(operation))).collect()
        };
        assert_eq!(drawn(), drawn());
    }

    #[test]
    fn known_operations_get_every_part_once_in_random_order() {
        let of = |op, bytes| Operation { op, sequential: false, bytes };
        let operations = [(Op::Read, 4096), (Op::Write, 4096), (Op::Read, 1 << 20)];
        let draws = Draws::even((0..300).map(|at| operations[at % 3]));
        for (op, bytes) in operations {
            let drawn: Vec<f64> = (0..100).map(|_| draws.next(of(op, bytes))).collect();
            let mut sorted = drawn.clone();
            sorted.sort_by(f64::total_cmp);
            assert_ne!(drawn, sorted);
            for (part, quantile) in sorted.iter().enumerate() {
                assert!((quantile - (part as f64 + 0.5) / 100.0).abs() < 1e-12);
            }
        }
    }
}
