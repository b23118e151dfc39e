//! Estimates the error of a sampled curve from sixteen parts of the sample.
//!
//! The sampled lines form groups by their hash, and each group is a sample of its own. The
//! differences between the curves of the groups show the error of the whole. A group reflects both
//! causes of it: which lines were sampled, and how many lines lie between two uses. Hot lines are
//! followed in all groups and stand for themselves, so each group records their distances in turn.

use super::curve::{Curve, added, count};
use crate::random;

pub const GROUPS: usize = 16;
/// Student's t of 95 % with `GROUPS` - 1 degrees of freedom.
const T95: f64 = 2.131;
/// What the hottest lines of a phase add, which a group may not know of: with it the bound holds in
/// 97 % of the traces of bench/cache_traces.py with seeds 0 to 5; it is judged by others.
const WIDENED: f64 = 1.25;
/// Sizes in equal steps that the mean is taken of.
const SIZES: usize = 1000;

/// Requests by distance, as each group alone tells it.
pub struct Spread {
    rate: f64,
    turns: u64,
    hot: Vec<Vec<u64>>,
    picked: Vec<Vec<u64>>,
}

impl Spread {
    /// Of groups that together are a share `rate` of the lines.
    pub fn new(rate: f64) -> Spread {
        let empty = vec![Vec::new(); GROUPS];
        Spread { rate: rate / GROUPS as f64, turns: 0, hot: empty.clone(), picked: empty }
    }

    pub fn clear(&mut self) {
        self.hot.iter_mut().chain(&mut self.picked).for_each(Vec::clear);
    }

    /// The group of a line by its hash; the bits are not those that it is picked by.
    #[inline]
    pub fn group(hash: u64) -> u8 {
        (hash % GROUPS as u64) as u8
    }

    /// A group for the next use of a hot line, in an order that no pattern of use follows.
    #[inline]
    pub fn turn(&mut self) -> u8 {
        Spread::group(random::next(&mut self.turns))
    }

    #[inline]
    pub fn count(&mut self, group: u8, single: usize, in_group: usize, is_hot: bool) {
        let steps = (single as f64 * self.rate) as usize + in_group;
        let histograms = if is_hot { &mut self.hot } else { &mut self.picked };
        count(&mut histograms[group as usize], steps);
    }

    /// Bound of the mean error of a curve that all groups made together, at 95 %: of so many requests
    /// that used hot lines and other lines again, the latter known with this standard deviation.
    pub fn error_max(&self, curve: &Curve, hot: f64, others: f64, deviation: f64) -> f64 {
        let weight = |histogram: &Vec<u64>, requests: f64| {
            requests / histogram.iter().sum::<u64>().max(1) as f64
        };
        let curves: Vec<Curve> = (self.hot.iter().zip(&self.picked))
            .map(|(of_hot, of_others)| {
                let weights = (weight(of_hot, hot), weight(of_others, others));
                let by_steps = added(of_hot, weights.0, of_others, weights.1);
                Curve::new(self.rate, curve.references, curve.lines, &by_steps)
            })
            .collect();
        let again = 1.0 - curve.miss_ratio(curve.lines);
        let counting = deviation / curve.references as f64;
        let error = |lines: f64| {
            let ratios: Vec<f64> = curves.iter().map(|curve| curve.miss_ratio(lines)).collect();
            let hits = if again > 0.0 { (1.0 - curve.miss_ratio(lines)) / again } else { 0.0 };
            (variance(&ratios) / GROUPS as f64 + (counting * hits).powi(2)).sqrt()
        };
        let sizes = (1..=SIZES).map(|step| curve.lines * step as f64 / SIZES as f64);
        (WIDENED * T95 * sizes.map(error).sum::<f64>() / SIZES as f64).min(1.0)
    }
}

fn variance(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64
}
