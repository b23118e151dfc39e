//! The whole run in one row per second, op, temp and size class: kept even where raw waits are not.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::histogram::bucket_ns;
use crate::wait::{NameId, Op, Wait, size_class_bytes};

/// Rows in memory, some 20 MB: beyond them they are taken out early.
const OPEN_MAX: usize = 100_000;

/// The waits that began in one second, of one op and size class.
///
/// A wait that ends long after its second adds another row with the same key; rows add up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Second {
    /// Whole seconds since the start of the recording.
    pub second: i64,
    pub op: Op,
    pub temp: bool,
    /// The file, where its use until the end decides whether it is temp.
    pub file: Option<NameId>,
    pub size_class_bytes: i64,
    pub count: i64,
    pub bytes: i64,
    pub total_ns: i64,
    /// Waits by the middle of their bucket of latencies, in ns: few, for there may be a row for
    /// each of many files.
    pub by_latency_ns: FxHashMap<i64, i64>,
}

impl Second {
    /// Middle of each bucket of latencies in ns, and how many waits it holds, ascending.
    pub fn latencies(&self) -> Vec<(i64, i64)> {
        let mut latencies: Vec<_> = self.by_latency_ns.iter().map(|(&ns, &n)| (ns, n)).collect();
        latencies.sort_unstable();
        latencies
    }

    /// Takes in waits of a bucket of latencies.
    pub fn add_latency(&mut self, ns: i64, count: i64) {
        *self.by_latency_ns.entry(ns).or_default() += count;
    }
}

type Key = (i64, Op, bool, Option<NameId>, i64);

/// Seconds that are still filling up.
#[derive(Default)]
pub(crate) struct Seconds(BTreeMap<Key, Second>);

impl Seconds {
    /// Counts a wait, of `file` where that is undecided.
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

    /// Takes out the seconds before `second`, oldest first.
    pub(crate) fn finish_before(&mut self, second: i64) -> Vec<Second> {
        let second = if self.0.len() > OPEN_MAX { i64::MAX } else { second };
        let rest = self.0.split_off(&(second, Op::Read, false, None, 0));
        std::mem::replace(&mut self.0, rest).into_values().collect()
    }
}
