//! Finds where a write rate falls for good: the dirty limit of the page cache, or a device's cache.

/// Maximum ratio of the rates after and before a fall: rates of a steady device vary less.
const FALL: f64 = 0.7;
/// Minimum number of windows before and after the fall; the lower rate must have lasted.
const BEFORE_MIN: usize = 3;
const AFTER_MIN: usize = 20;
/// Windows over which a rate is averaged to detect a recovery: the kernel alternately stops a
/// writer and lets it continue, in turns of up to 0.2 s.
const TURN: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Knee {
    /// First window after the fall.
    pub(super) at: usize,
    pub(super) before: f64,
    pub(super) after: f64,
}

/// The split of a series of rates into two levels that explains most of its variance, if the second
/// level is at most `FALL` of the first, has lasted, is steady, and never recovered.
pub(super) fn knee(rates: &[f64]) -> Option<Knee> {
    let last = rates.len().checked_sub(AFTER_MIN)?;
    let total: f64 = rates.iter().sum();
    let mut sum = 0.0;
    let mut best: Option<(f64, Knee)> = None;
    for (at, rate) in rates.iter().enumerate().take(last + 1) {
        if at >= BEFORE_MIN {
            let (count_before, count_after) = (at as f64, (rates.len() - at) as f64);
            let knee = Knee { at, before: sum / count_before, after: (total - sum) / count_after };
            let explained = count_before * count_after * (knee.before - knee.after).powi(2);
            if knee.after < knee.before && best.is_none_or(|(most, _)| explained > most) {
                best = Some((explained, knee));
            }
        }
        sum += rate;
    }
    let (_, knee) = best?;
    let after = &rates[knee.at..];
    let (first, second) = after.split_at(after.len() / 2);
    let level = (mean(first) - mean(second)).abs() <= 0.25 * knee.after;
    let recovered = after.windows(TURN).any(|turn| mean(turn) > (knee.before + knee.after) / 2.0);
    (knee.after <= FALL * knee.before && level && !recovered).then_some(knee)
}

fn mean(rates: &[f64]) -> f64 {
    rates.iter().sum::<f64>() / rates.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::mix;

    /// Levels of `count` windows each, with deviations of up to `noise`.
    fn series(levels: &[(usize, f64)], noise: f64) -> Vec<f64> {
        let rates = levels.iter().flat_map(|&(count, rate)| vec![rate; count]);
        rates
            .enumerate()
            .map(|(i, rate)| {
                let part = mix(i as u64) as f64 / u64::MAX as f64;
                rate * (1.0 + noise * (2.0 * part - 1.0))
            })
            .collect()
    }

    #[test]
    fn a_permanent_drop_is_located() {
        for noise in [0.0, 0.2, 0.4] {
            let fall = knee(&series(&[(30, 2e9), (40, 4e8)], noise)).unwrap();
            assert!(fall.at.abs_diff(30) <= 1, "{fall:?}");
            assert!((fall.before / 2e9 - 1.0).abs() < noise / 4.0 + 1e-9, "{fall:?}");
            assert!((fall.after / 4e8 - 1.0).abs() < noise / 4.0 + 1e-9, "{fall:?}");
        }
    }

    #[test]
    fn alternate_writing_and_stalling_is_one_level() {
        let mut rates = series(&[(25, 1.5e9)], 0.1);
        rates.extend((0..40).map(|i| if i % 3 == 0 { 9e8 } else { 0.0 }));
        let fall = knee(&rates).unwrap();
        assert!(fall.at.abs_diff(25) <= 2 && (fall.after / 3e8 - 1.0).abs() < 0.1, "{fall:?}");
    }

    #[test]
    fn temporary_or_continuing_drops_are_none() {
        for (case, rates) in [
            ("nothing", series(&[], 0.0)),
            ("steady", series(&[(200, 1e9)], 0.3)),
            ("rising", series(&[(40, 5e8), (40, 1e9)], 0.1)),
            ("a dip", series(&[(30, 1e9), (15, 1e8), (40, 1e9)], 0.1)),
            ("recovered at the end", series(&[(30, 1e9), (30, 1e8), (8, 1e9)], 0.1)),
            ("too short to say", series(&[(30, 1e9), (15, 1e8)], 0.1)),
            ("a small fall", series(&[(40, 1e9), (40, 8e8)], 0.05)),
            ("still falling", (0..80).map(|i| 1e9 * 0.95f64.powi(i)).collect()),
        ] {
            assert_eq!(knee(&rates), None, "{case}");
        }
    }
}
