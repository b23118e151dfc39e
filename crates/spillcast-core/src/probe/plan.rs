//! What is to be replayed, and whether it can be.

use std::collections::HashMap;
use std::ops::Range;

use super::blocks::{BLOCK_BYTES, BlockSet};
use super::error::ProbeError;
use crate::wait::Op;

const STEP_BYTES_MAX: u32 = 64 << 20;
const EXTENT_BYTES_MAX: u64 = 16 << 40;
/// O_DIRECT never takes less than a sector; a file system that wants more says EINVAL.
const SECTOR_BYTES: u64 = 512;

/// One recorded operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub thread: u32,
    /// Read or write.
    pub op: Op,
    pub file: u32,
    pub offset: u64,
    /// From 1 to 64 MiB.
    pub bytes: u32,
    /// From the end of the thread's previous operation to the start of this one.
    pub think_ns: u64,
}

impl Step {
    pub(super) fn range(&self) -> Range<u64> {
        self.offset..self.offset + u64::from(self.bytes)
    }
}

/// What to replay, in the order of recorded start time. Threads and files are told apart by their
/// numbers, which need not be dense.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub steps: Vec<Step>,
}

/// Finds the first step that cannot be replayed.
pub(super) fn check(steps: &[Step], direct: bool) -> Result<(), ProbeError> {
    if steps.is_empty() {
        return Err(ProbeError::Empty);
    }
    let what = |step: &Step| {
        let bytes = u64::from(step.bytes);
        let sectors = step.offset.is_multiple_of(SECTOR_BYTES) && bytes % SECTOR_BYTES == 0;
        match step {
            Step { op: Op::Null, .. } => Some("it neither reads nor writes"),
            Step { bytes: 0, .. } => Some("it moves no bytes"),
            Step { bytes, .. } if *bytes > STEP_BYTES_MAX => Some("it moves more than 64 MiB"),
            Step { offset, .. } if *offset > EXTENT_BYTES_MAX - bytes => {
                Some("it ends beyond 16 TiB")
            }
            _ if direct && !sectors => {
                Some("O_DIRECT wants whole sectors of 512 bytes: replay it buffered")
            }
            _ => None,
        }
    };
    match steps.iter().enumerate().find_map(|(step, s)| Some((step, what(s)?))) {
        Some((step, what)) => Err(ProbeError::BadStep { step, what }),
        None => Ok(()),
    }
}

/// Replaces each number by its position among the distinct ones, and returns how many there are.
pub(super) fn renumber<'a>(numbers: impl Iterator<Item = &'a mut u32>) -> usize {
    let mut positions = HashMap::new();
    for number in numbers {
        let next = positions.len() as u32;
        *number = *positions.entry(*number).or_insert(next);
    }
    positions.len()
}

/// Of each file, the end of what is read or written of it. Files are numbered from 0.
pub(super) fn extents_bytes(steps: &[Step], files: usize) -> Vec<u64> {
    let mut extents_bytes = vec![0; files];
    for step in steps {
        let extent_bytes: &mut u64 = &mut extents_bytes[step.file as usize];
        *extent_bytes = step.range().end.max(*extent_bytes);
    }
    extents_bytes
}

/// The distinct blocks that the steps touch, together.
pub(super) fn working_set_bytes<'a>(
    steps: impl Iterator<Item = &'a Step>,
    extents_bytes: &[u64],
) -> u64 {
    let files: Vec<BlockSet> = extents_bytes.iter().map(|&bytes| BlockSet::new(bytes)).collect();
    let added = steps.map(|step| files[step.file as usize].insert(step.range()));
    added.sum::<u64>() * BLOCK_BYTES
}
