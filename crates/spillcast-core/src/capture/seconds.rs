//! The whole run in one row per second, op, temp and size class: kept even where raw waits are not.

use std::collections::BTreeMap;

use crate::histogram::Histogram;
use crate::wait::{Op, Wait, size_class_bytes};

/// The waits that began in one second, of one op and size class.
///
/// A wait that ends long after its second adds another row with the same key; rows add up.
#[derive(Clone, Debug)]
pub struct SecondRow {
    /// Whole seconds since the start of the recording.
    pub second: i64,
    pub op: Op,
    pub temp: bool,
    pub size_class_bytes: u64,
    pub bytes: u64,
    pub histogram: Histogram,
}

type Key = (i64, Op, bool, u64);

/// Seconds that are still filling up.
#[derive(Default)]
pub struct Seconds {
    open: BTreeMap<Key, SecondRow>,
}

impl Seconds {
    pub fn add(&mut self, wait: &Wait) {
        let second = wait.start_ns.div_euclid(1_000_000_000);
        let bytes = wait.bytes.unwrap_or(0).max(0) as u64;
        let size_class_bytes = size_class_bytes(bytes);
        let key = (second, wait.op, wait.temp, size_class_bytes);
        let row = self.open.entry(key).or_insert_with(|| SecondRow {
            second,
            op: wait.op,
            temp: wait.temp,
            size_class_bytes,
            bytes: 0,
            histogram: Histogram::default(),
        });
        row.bytes += bytes;
        row.histogram.record(wait.elapsed_ns.max(0) as u64);
    }

    /// Takes out the seconds before `second`, oldest first.
    pub fn finish_before(&mut self, second: i64) -> Vec<SecondRow> {
        let rest = self.open.split_off(&(second, Op::Read, false, 0));
        std::mem::replace(&mut self.open, rest).into_values().collect()
    }
}
