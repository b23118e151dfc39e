//! The latencies of a group: a list while they are few, a histogram when they are many, so that a
//! profile of many small groups stays small.

use crate::histogram::Histogram;

const FEW: usize = 32;

#[derive(Clone, Debug)]
pub(super) enum Latencies {
    Few(Vec<u64>),
    Many(Box<Histogram>),
}

impl Latencies {
    #[inline]
    pub fn record(&mut self, latency_ns: u64) {
        match self {
            Latencies::Many(histogram) => histogram.record(latency_ns),
            Latencies::Few(list) if list.len() < FEW => list.push(latency_ns),
            Latencies::Few(_) => {
                let mut histogram = self.histogram();
                histogram.record(latency_ns);
                *self = Latencies::Many(Box::new(histogram));
            }
        }
    }

    pub fn histogram(&self) -> Histogram {
        match self {
            Latencies::Many(histogram) => (**histogram).clone(),
            Latencies::Few(list) => {
                let mut histogram = Histogram::default();
                list.iter().for_each(|&latency_ns| histogram.record(latency_ns));
                histogram
            }
        }
    }
}
