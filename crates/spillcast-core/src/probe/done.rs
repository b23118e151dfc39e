//! The work of a thread in a segment, and which of its operations still fit the budget.

use crate::wait::Op;

/// The work of a thread in a segment.
#[derive(Default)]
pub(super) struct Done {
    /// How long its reads and its writes took, in ns; None of those of which it issued none.
    took_ns: [Option<u64>; 2],
    /// Whether it has left out something for lack of time.
    pub left_out: bool,
    /// Whether it had in the segment before.
    hurries: bool,
}

impl Done {
    /// At the beginning of the next segment.
    pub fn next(&self) -> Done {
        Done { hurries: self.left_out, ..Done::default() }
    }

    /// Whether an operation of a kind is the first of the segment. Calls that change files are not.
    pub fn is_first(&self, op: Op) -> bool {
        kind(op).is_some_and(|kind| self.took_ns[kind].is_none())
    }

    /// Whether its kind has time left, where there is not enough for all.
    pub fn has_time_for(&self, op: Op, shares_ns: [u64; 2]) -> bool {
        !self.hurries
            || kind(op).is_none_or(|kind| self.took_ns[kind].unwrap_or(0) < shares_ns[kind])
    }

    pub fn add(&mut self, op: Op, elapsed_ns: u64) {
        if let Some(kind) = kind(op) {
            *self.took_ns[kind].get_or_insert(0) += elapsed_ns;
        }
    }
}

/// The place of reads and of writes in pairs.
fn kind(op: Op) -> Option<usize> {
    match op {
        Op::Read => Some(0),
        Op::Write => Some(1),
        Op::Null => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_hurries_gives_reads_and_writes_the_time_of_their_number() {
        let shares_ns = [60, 40];
        let mut done = Done { hurries: true, ..Done::default() };
        done.add(Op::Write, 39);
        assert!(done.has_time_for(Op::Write, shares_ns));
        done.add(Op::Write, 10);
        assert!(!done.has_time_for(Op::Write, shares_ns));
        assert!(done.has_time_for(Op::Read, shares_ns) && done.is_first(Op::Read));
        assert!(!done.is_first(Op::Write) && !done.is_first(Op::Null));
    }

    #[test]
    fn who_has_left_nothing_out_goes_on_to_the_deadline() {
        let mut done = Done::default();
        done.add(Op::Write, 1_000);
        assert!(done.has_time_for(Op::Write, [60, 40]));
    }
}
