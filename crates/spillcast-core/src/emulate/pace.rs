//! Answers operations when they are due, and records how precisely.

use std::sync::{Mutex, OnceLock};

use super::floor::{Floor, SLEEP_NS};
use super::sleep::Sleep;
use super::stats::Stats;
use crate::lock::lock;
use crate::storage::{Model, Operation, Schedule};
use crate::system::now_ns;

#[derive(Default)]
pub struct Pace {
    /// Empty while the floor is measured, when every operation takes `SLEEP_NS`.
    target: OnceLock<(Schedule, Floor)>,
    stats: Mutex<Stats>,
    sleep: Sleep,
}

impl Pace {
    /// Lets `model` decide from now on how long operations take.
    pub fn begin(&self, model: Model, floor: Floor) {
        let _ = self.target.set((Schedule::new(model, now_ns()), floor));
    }

    pub(crate) fn measures_floor(&self) -> bool {
        self.target.get().is_none()
    }

    /// Returns when the answer to an operation that arrived at `arrival_ns` is due.
    pub fn keep(&self, arrival_ns: u64, operation: Operation) {
        let Some((schedule, floor)) = self.target.get() else {
            return self.sleep.until(arrival_ns + SLEEP_NS);
        };
        let asked_ns = schedule.elapsed_ns(arrival_ns, operation);
        let added_ns = floor.added_ns(operation.op, operation.bytes);
        self.sleep.until(arrival_ns.saturating_add((asked_ns - added_ns).max(0.0) as u64));
        let achieved_ns = (now_ns() - arrival_ns) as f64 + added_ns;
        lock(&self.stats).count(operation, asked_ns, achieved_ns);
    }

    pub fn floor(&self) -> Floor {
        self.target.get().map(|(_, floor)| floor.clone()).unwrap_or_default()
    }

    pub fn stats(&self) -> Stats {
        lock(&self.stats).clone()
    }

    /// Answers all waiting and later operations at once.
    pub fn end(&self) {
        self.sleep.end();
    }
}
