//! Applications of Spark: what their event logs say, and how long they would take on other storage.
//!
//! An event log holds totals of each task: CPU time, bytes of shuffles and of spills, the time of
//! shuffle writes. It does not hold how long spills and local shuffle reads took, nor what the page
//! cache served. `simulate` derives those from the bytes and a model of the nodes.

mod application;
mod event_log;
mod node;
mod order;
mod resources;
mod simulate;

pub use application::{Application, Execution, Executor, Job, Metrics, Stage, Task};
pub use event_log::read_event_logs;
pub use node::NodeStorage;
pub use resources::Resources;
pub use simulate::{Outcome, StageOutcome, least_work_s, simulate, work_beside_s, work_s};
