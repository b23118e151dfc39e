//! Finds lines that are used far more often than others, by a majority vote in each of many boxes.
//!
//! In a sample of 1 % of the lines, chance decides which of the hottest are included. So the 256
//! hottest lines are all followed and stand for themselves (`python -m bench cache_curves`).

/// The hot lines so far, and the leader of each box.
pub struct Hot {
    boxes: Vec<(u32, u32)>,
    left: u32,
}

impl Hot {
    const BITS: u32 = 12;
    /// One of so many requests votes.
    pub const STEP: usize = 4;
    /// The lead that makes a line hot.
    const AHEAD: u32 = 8;
    /// The most hot lines.
    const MOST: u32 = 256;
    const HOT: u32 = u32::MAX;

    pub fn new() -> Hot {
        Hot { boxes: vec![(0, 0); 1 << Hot::BITS], left: Hot::MOST }
    }

    fn at(hash: u64) -> (usize, u32) {
        ((hash & ((1 << Hot::BITS) - 1)) as usize, (hash >> Hot::BITS) as u32)
    }

    /// Whether a line is known to be hot.
    #[inline]
    pub fn holds(&self, hash: u64) -> bool {
        let (at, tag) = Hot::at(hash);
        self.boxes[at] == (tag, Hot::HOT)
    }

    /// Whether this use makes a line hot.
    #[inline]
    pub fn vote(&mut self, hash: u64) -> bool {
        let (at, tag) = Hot::at(hash);
        let (leader, votes) = &mut self.boxes[at];
        if self.left == 0 || *votes == Hot::HOT {
            return false;
        }
        if *leader == tag {
            *votes += 1;
            if *votes >= Hot::AHEAD {
                *votes = Hot::HOT;
                self.left -= 1;
                return true;
            }
        } else if *votes == 0 {
            (*leader, *votes) = (tag, 1);
        } else {
            *votes -= 1;
        }
        false
    }
}
