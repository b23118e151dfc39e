//! Measures what the mount adds to every operation, so that it can be subtracted.
//!
//! The clock of an operation starts when the server receives it and stops when the server answers.
//! A program also waits before and after that: for a system call, two context switches, a late
//! wake-up and copies, 30 to 60 us for 8 KiB.
//!
//! At the start a separate process times requests of four sizes that the server answers after 300
//! us. That takes 0.2 s. The excess is subtracted from every deadline. A storage faster than the
//! excess cannot be emulated.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create};
use rustix::io::{pread, pwrite};
use spillcast_calls::Mapping;

use super::bare::Bare;
use crate::storage::{Curve, Distribution};
use crate::system::now_ns;
use crate::wait::Op;

/// Name of the memory file that exists while the floor is measured.
pub(crate) const FILE_NAME: &str = ".spillcast-floor";

/// Latency of its operations meanwhile, so that the wake-up is part of the measurement.
pub(crate) const SLEEP_NS: u64 = 300_000;

const OPS: [Op; 2] = [Op::Read, Op::Write];
const SIZES_BYTES: [usize; 4] = [4 << 10, 64 << 10, 256 << 10, 1 << 20];
const FILE_BYTES: usize = 1 << 20;
const ROUNDS: usize = 48;
/// Number of rounds that has to suffice on a busy machine.
const ROUNDS_MIN: usize = 24;
const BUDGET_NS: u64 = 800_000_000;
const LIMIT: Duration = Duration::from_secs(60);

/// The added time at several sizes, interpolated linearly.
#[derive(Clone, Debug, Default)]
pub struct Floor {
    points: Vec<FloorPoint>,
    read: Curve,
    write: Curve,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FloorPoint {
    pub op: Op,
    pub bytes: u64,
    pub added_ns: u64,
}

impl Floor {
    fn new(points: Vec<FloorPoint>) -> Floor {
        let curve = |op| {
            let of_op = points.iter().filter(|point| point.op == op);
            let constant = |ns: u64| Distribution::new(&[(ns as f64, 1)]);
            Curve::new(of_op.map(|point| (point.bytes, constant(point.added_ns))).collect())
        };
        Floor { read: curve(Op::Read), write: curve(Op::Write), points }
    }

    pub fn points(&self) -> &[FloorPoint] {
        &self.points
    }

    /// Interpolated linearly between the points; constant below the smallest size, where copying
    /// adds hardly anything.
    pub fn added_ns(&self, op: Op, bytes: u64) -> f64 {
        let smallest = self.points.iter().map(|point| point.bytes).min().unwrap_or(0);
        let curve = if op == Op::Write { &self.write } else { &self.read };
        curve.latency_ns(bytes.max(smallest), 0.5)
    }

    /// Times operations on [`FILE_NAME`] at `mountpoint`, each of which takes [`SLEEP_NS`].
    ///
    /// `workers` threads serve in turn; each maps its memory before the timing starts. The timing
    /// process is a separate one: if it waited for a mount that it serves, nothing could kill it.
    pub(crate) fn measure(mountpoint: &Path, workers: usize) -> io::Result<Floor> {
        let path = mountpoint.join(FILE_NAME);
        let path = CString::new(path.as_os_str().as_bytes())?;
        let count = ROUNDS * OPS.len() * SIZES_BYTES.len();
        let (times, data) = (Mapping::new(None, count * 8)?, Mapping::new(None, FILE_BYTES)?);
        let times = times.words();
        // SAFETY: the clone makes only system calls, on the path and its memory. Only the clone
        // uses the data, and any bytes are valid.
        let child = unsafe {
            let data = std::slice::from_raw_parts_mut(data.start().as_ptr(), FILE_BYTES);
            Bare::start(None, || time(&path, workers, times, data))
        }?;
        child.wait_at_most(LIMIT);
        let mut points = Vec::new();
        for (op, which) in OPS.into_iter().zip(0..) {
            for (bytes, size) in SIZES_BYTES.into_iter().zip(0..) {
                let round = |at| times[index(at, which, size)].load(Ordering::Relaxed);
                let mut took: Vec<u64> = (0..ROUNDS).map(round).filter(|&ns| ns > 0).collect();
                took.sort_unstable();
                let Some(added_ns) = typical_ns(&took) else {
                    return Err(io::Error::other("the mount does not answer"));
                };
                points.push(FloorPoint { op, bytes: bytes as u64, added_ns });
            }
        }
        Ok(Floor::new(points))
    }
}

/// What the mount adds, from times in ascending order: the lower quartile, because other work on
/// the machine moves the median by milliseconds, but at most 1.5 times the minimum, because such
/// work may move every quantile.
fn typical_ns(took_ns: &[u64]) -> Option<u64> {
    let added_ns = |at: usize| Some(took_ns.get(at)?.saturating_sub(SLEEP_NS));
    Some(added_ns(took_ns.len() / 4)?.min(added_ns(0)? * 3 / 2))
}

/// The file behind [`FILE_NAME`], which is on no file system.
pub(crate) fn memory_file() -> io::Result<File> {
    let file = File::from(memfd_create("spillcast-floor", MemfdFlags::CLOEXEC)?);
    file.set_len(FILE_BYTES as u64)?;
    Ok(file)
}

fn index(round: usize, op: usize, size: usize) -> usize {
    (round * OPS.len() + op) * SIZES_BYTES.len() + size
}

/// The work of the timing process; a time that stays 0 marks a failure.
fn time(path: &CStr, workers: usize, times: &[AtomicU64], data: &mut [u8]) {
    let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
    let Ok(file) = rustix::fs::open(path, flags, Mode::empty()) else {
        return;
    };
    let mut transfer = |op: Op, bytes: usize| match (op, data.get_mut(..bytes)) {
        (Op::Write, Some(data)) => pwrite(&file, data, 0),
        (_, Some(data)) => pread(&file, data, 0),
        (_, None) => Ok(0),
    };
    let begin_ns = now_ns();
    for _ in 0..workers {
        for op in OPS {
            let _ = transfer(op, SIZES_BYTES[0]);
        }
    }
    for round in 0..ROUNDS {
        if round >= ROUNDS_MIN && now_ns() - begin_ns > BUDGET_NS {
            return;
        }
        for (op, which) in OPS.into_iter().zip(0..) {
            for (bytes, size) in SIZES_BYTES.into_iter().zip(0..) {
                let start_ns = now_ns();
                if transfer(op, bytes) != Ok(bytes) {
                    return;
                }
                times[index(round, which, size)].store(now_ns() - start_ns, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_work_on_the_machine_hardly_affects_the_floor() {
        let took = |added_us: &[u64]| -> Vec<u64> {
            added_us.iter().map(|us| SLEEP_NS + us * 1_000).collect()
        };
        assert_eq!(typical_ns(&took(&[40, 42, 45, 50, 60, 4000, 5000, 9000])), Some(45_000));
        assert_eq!(typical_ns(&took(&[40, 900, 2000, 3000])), Some(60_000));
        assert_eq!(typical_ns(&[]), None);
    }

    #[test]
    fn a_floor_lies_on_the_line_between_its_points() {
        let point = |op, bytes, added_ns| FloorPoint { op, bytes, added_ns };
        let floor = Floor::new(vec![
            point(Op::Read, 4096, 20_000),
            point(Op::Read, 8192, 24_000),
            point(Op::Write, 4096, 30_000),
        ]);
        assert_eq!(floor.added_ns(Op::Read, 512), 20_000.0);
        assert_eq!(floor.added_ns(Op::Read, 6144), 22_000.0);
        assert_eq!(floor.added_ns(Op::Write, 1 << 20), 30_000.0);
    }
}
