//! Sustained writing: the rate while memory absorbs it, and the rate at which storage must.

use std::os::unix::fs::FileExt;

use serde::Serialize;

use super::cell::BYTES_MAX;
use super::knee::knee;
use crate::probe::arena::Slice;
use crate::probe::clock;
use crate::probe::error::ProbeError;
use crate::probe::place::Place;
use crate::probe::progress::Counters;
use crate::probe::scratch;

const WINDOW_NS: u64 = 100_000_000;

/// Buffered sequential writes of 1 MiB to a new file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sustained {
    pub bytes: u64,
    /// Rate up to the fall, or of all bytes if the rate did not fall.
    pub burst_bytes_per_s: f64,
    /// Rate after the fall; None if the rate did not fall for good.
    pub sustained_bytes_per_s: Option<f64>,
    /// Bytes written when the rate fell.
    pub burst_bytes: Option<u64>,
}

/// Writes until the rate has fallen for good, `bytes_max` are written, or `end_ns` is reached. The
/// file is removed afterwards, including data that never reached the storage.
pub(super) fn measure(
    place: &Place,
    memory: &mut Slice,
    bytes_max: u64,
    end_ns: u64,
    counters: &Counters,
) -> Result<Sustained, ProbeError> {
    let file = scratch::create(&place.dir).map_err(|e| place.io_error("opening a file", e))?;
    let start_ns = clock::now_ns();
    let mut windows = Windows::default();
    let (mut offset, mut now_ns, mut judged) = (0, start_ns, 0);
    while offset + BYTES_MAX as u64 <= bytes_max && now_ns < end_ns && !counters.is_cancelled() {
        let buffer = memory.buffer(BYTES_MAX);
        file.write_all_at(buffer, offset).map_err(|error| {
            place.io_error(format!("write of {BYTES_MAX} bytes at offset {offset}"), error)
        })?;
        offset += BYTES_MAX as u64;
        let done_ns = clock::now_ns();
        windows.add(now_ns - start_ns, done_ns - start_ns, BYTES_MAX as u64);
        counters.add(BYTES_MAX as u64);
        now_ns = done_ns;
        if windows.whole().len() > judged {
            judged = windows.whole().len();
            if knee(windows.whole()).is_some() {
                break;
            }
        }
    }
    let elapsed_s = (now_ns - start_ns).max(1) as f64 / 1e9;
    Ok(match knee(windows.whole()) {
        Some(knee) => Sustained {
            bytes: offset,
            burst_bytes_per_s: per_second(knee.before),
            sustained_bytes_per_s: Some(per_second(knee.after)),
            burst_bytes: Some((knee.before * knee.at as f64) as u64),
        },
        None => Sustained {
            bytes: offset,
            burst_bytes_per_s: offset as f64 / elapsed_s,
            sustained_bytes_per_s: None,
            burst_bytes: None,
        },
    })
}

fn per_second(per_window: f64) -> f64 {
    per_window * 1e9 / WINDOW_NS as f64
}

/// Bytes by window of time. A write across several windows is spread over them.
#[derive(Default)]
struct Windows {
    bytes: Vec<f64>,
}

impl Windows {
    fn add(&mut self, start_ns: u64, end_ns: u64, bytes: u64) {
        let last = (end_ns / WINDOW_NS) as usize;
        self.bytes.resize(self.bytes.len().max(last + 1), 0.0);
        let whole_ns = (end_ns - start_ns).max(1);
        for window in (start_ns / WINDOW_NS)..=last as u64 {
            let from = start_ns.max(window * WINDOW_NS);
            let to = end_ns.min((window + 1) * WINDOW_NS).max(from);
            let share = if whole_ns == 1 { 1.0 } else { (to - from) as f64 / whole_ns as f64 };
            self.bytes[window as usize] += bytes as f64 * share;
        }
    }

    /// All windows but the last, which is incomplete.
    fn whole(&self) -> &[f64] {
        &self.bytes[..self.bytes.len().saturating_sub(1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_counts_in_the_windows_it_spans() {
        let mut windows = Windows::default();
        windows.add(0, WINDOW_NS / 2, 100);
        windows.add(WINDOW_NS / 2, WINDOW_NS * 5 / 2, 200);
        windows.add(WINDOW_NS * 5 / 2, WINDOW_NS * 3, 10);
        assert_eq!(windows.whole(), [150.0, 100.0, 60.0]);
    }
}
