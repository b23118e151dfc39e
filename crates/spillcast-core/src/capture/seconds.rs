//! Sums the whole run by second, op, temp and size class: kept even where raw waits are not.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::histogram::bucket_ns;
use crate::wait::{NameId, Op, Wait, size_class_bytes};

/// Limit of rows in memory, some 20 MB; above it, rows are taken out early.
const OPEN_MAX: usize = 100_000;

/// The waits of an op and size class that began in a second.
///
/// A wait that ends long after its second adds another row with the same key; rows add up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Second {
    /// Whole seconds since the start of the recording.
    pub second: i64,
    pub op: Op,
    pub temp: bool,
    /// The file, if its use until the end decides whether it is temp.
    pub file: Option<NameId>,
    pub size_class_bytes: i64,
    pub count: i64,
    pub bytes: i64,
    pub total_ns: i64,
    /// Waits by the middle of their latency bucket, in ns: few buckets, because each of many files
    /// may have a row.
    pub by_latency_ns: FxHashMap<i64, i64>,
}

impl Second {
    /// The middle of each latency bucket in ns and the number of its waits, ascending.
    pub fn latencies(&self) -> Vec<(i64, i64)> {
        let mut latencies: Vec<_> = self.by_latency_ns.iter().map(|(&ns, &n)| (ns, n)).collect();
        latencies.sort_unstable();
        latencies
    }

    /// Adds waits of a latency bucket.
    pub fn add_latency(&mut self, ns: i64, count: i64) {
        *self.by_latency_ns.entry(ns).or_default() += count;
    }
}

type Key = (i64, Op, bool, Option<NameId>, i64);

/// Seconds that are still filling up.
#[derive(Default)]
pub(crate) struct Seconds(BTreeMap<Key, Second>);

impl Seconds {
    /// Counts a wait; `file` is given if it is undecided whether that file is temp.
    pub fn add(&mut self, wait: &Wait, file: Option<NameId>) {
        let second = wait.start_ns.div_euclid(1_000_000_000);
        let bytes = wait.bytes.unwrap_or(0).max(0);
        let size_class_bytes = size_class_bytes(bytes as u64) as i64;
        let key = (second, wait.op, wait.temp, file, size_class_bytes);
        let row = self.0.entry(key).or_insert_with(|| Second {
            second,
            op: wait.op,
            temp: wait.temp,
            file,
            size_class_bytes,
            ..Second::default()
        });
        let elapsed_ns = wait.elapsed_ns.max(0);
        row.bytes += bytes;
        row.count += 1;
        row.total_ns += elapsed_ns;
        row.add_latency(bucket_ns(elapsed_ns as u64) as i64, 1);
    }

    /// Removes and returns the seconds before `second`, oldest first.
    pub(crate) fn finish_before(&mut self, second: i64) -> Vec<Second> {
        let second = if self.0.len() > OPEN_MAX { i64::MAX } else { second };
        let rest = self.0.split_off(&(second, Op::Read, false, None, 0));
        std::mem::replace(&mut self.0, rest).into_values().collect()
    }
}
