//! Observing live processes on Linux: their file I/O, each call timed, as waits.
//!
//! A source (`perf` or `preload`) reports finished system calls as [`call::Event`]s; `assemble`
//! turns them into waits. Both sources share all that comes after.

mod assemble;
pub mod call;
mod descriptor;
mod joined;
pub mod perf;
pub mod preload;
mod seconds;
mod session;
pub mod shared_ring;
mod spawn;
mod temp;
mod watch;

pub use assemble::Counts;
pub use joined::Joined;
pub use seconds::SecondRow;
pub use session::{Batch, Capture, Source, Status};
pub use spawn::HeldCommand;
pub use temp::TempRules;
