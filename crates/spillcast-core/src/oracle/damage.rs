//! Damaged lines: all are counted, and the first of each file are kept for display.

use super::line::Fault;

/// Damaged lines kept of each file.
pub const KEPT_PER_FILE: usize = 100;

/// A line that could not be read as what it begins as, or not with the figures it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// From 1.
    pub line: u64,
    pub fault: Fault,
}

/// The damage found in one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damages {
    pub count: u64,
    /// The first [`KEPT_PER_FILE`].
    pub first: Vec<Damage>,
}

impl Damages {
    pub(super) fn add(&mut self, damage: Damage) {
        self.count += 1;
        if self.first.len() < KEPT_PER_FILE {
            self.first.push(damage);
        }
    }
}
