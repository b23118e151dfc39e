//! The model of a storage: latencies of operations, and the queues and limits before them.
//!
//! One schedule serves the emulated mount, sweeps of a storage.json and forecasts of several
//! threads, so they agree by construction. Sweeps and forecasts use a virtual clock: 100,000
//! operations take some milliseconds. A write cache that fills up is a limit with a burst.

mod draws;
mod model;
mod schedule;

pub use model::{Curve, Curves, Distribution, Latencies, Limit, Model, Operation};
pub(crate) use schedule::{Schedule, Waits};
