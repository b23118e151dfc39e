//! Moments for the slope of CPU time after waits over a weight of the waits, among similar bursts.

use std::collections::HashMap;

/// A wait, and the CPU time of its thread after it.
#[derive(Clone, Copy, Debug)]
pub struct Burst {
    /// The independent variable of the slope.
    pub weight: f64,
    pub cpu_s: f64,
    /// Bin of the run.
    pub bin: u32,
    /// Bursts are similar if bin, size, operations and thread are the same.
    pub size: u16,
    pub op: u8,
    pub next_op: u8,
    pub session: i64,
}

/// By bin, sums of squares about the means of similar bursts.
#[derive(Clone, Debug, PartialEq)]
pub struct Moments {
    pub weight_weight: Vec<f64>,
    pub weight_cpu: Vec<f64>,
}

/// Number, means, and sums of squares about the means of similar bursts (Welford's algorithm).
#[derive(Clone, Copy, Default)]
struct Kind {
    count: f64,
    weight: f64,
    cpu_s: f64,
    weight_weight: f64,
    weight_cpu: f64,
}

impl Kind {
    fn add(&mut self, burst: Burst) {
        self.count += 1.0;
        let off = burst.weight - self.weight;
        self.weight += off / self.count;
        self.weight_weight += off * (burst.weight - self.weight);
        self.cpu_s += (burst.cpu_s - self.cpu_s) / self.count;
        self.weight_cpu += off * (burst.cpu_s - self.cpu_s);
    }
}

/// The moments of bursts, by bin from 0 on.
pub fn moments(bursts: impl Iterator<Item = Burst>, bins: usize) -> Moments {
    let mut kinds: HashMap<(u32, u16, u8, u8, i64), Kind> = HashMap::new();
    let mut sum = Moments { weight_weight: vec![0.0; bins], weight_cpu: vec![0.0; bins] };
    for burst in bursts {
        let Burst { bin, size, op, next_op, session, .. } = burst;
        kinds.entry((bin, size, op, next_op, session)).or_default().add(burst);
    }
    for ((bin, ..), kind) in kinds {
        sum.weight_weight[bin as usize] += kind.weight_weight;
        sum.weight_cpu[bin as usize] += kind.weight_cpu;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::next;

    #[test]
    fn sums_are_about_the_means_of_each_bin() {
        let mut state = 3;
        let mut drawn = |below: u64| next(&mut state) % below;
        let bursts: Vec<Burst> = (0..400)
            .map(|_| Burst {
                weight: drawn(1000) as f64 / 100.0,
                cpu_s: drawn(1000) as f64 / 1e6,
                bin: drawn(3) as u32,
                size: drawn(2) as u16,
                op: drawn(2) as u8,
                next_op: drawn(2) as u8,
                session: drawn(2) as i64,
            })
            .collect();
        let key = |b: &Burst| (b.bin, b.size, b.op, b.next_op, b.session);
        let moments_by_bin = moments(bursts.iter().copied(), 3);
        for bin in 0..3 {
            let (mut squares, mut products) = (0.0, 0.0);
            for burst in bursts.iter().filter(|b| b.bin == bin) {
                let alike: Vec<&Burst> = bursts.iter().filter(|b| key(b) == key(burst)).collect();
                let mean = |of: fn(&Burst) -> f64| {
                    alike.iter().map(|b| of(b)).sum::<f64>() / alike.len() as f64
                };
                let (weight, cpu_s) = (mean(|b| b.weight), mean(|b| b.cpu_s));
                squares += (burst.weight - weight).powi(2);
                products += (burst.weight - weight) * (burst.cpu_s - cpu_s);
            }
            assert!((moments_by_bin.weight_weight[bin as usize] - squares).abs() < 1e-9);
            assert!((moments_by_bin.weight_cpu[bin as usize] - products).abs() < 1e-12);
        }
    }
}
