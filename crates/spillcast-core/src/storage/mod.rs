//! A storage as a model: what an operation takes on it, and what it waits for before.
//!
//! Emulations answer by it and simulations ask it, so both agree by construction.

mod draws;
mod model;
mod schedule;

pub use model::{Curve, Curves, Distribution, Latencies, Limit, Model, Operation};
pub use schedule::Schedule;
