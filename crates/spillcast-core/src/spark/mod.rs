//! Applications of Spark: the content of their event logs, and their time on other storage.
//!
//! An event log has totals for each task: CPU time, bytes of shuffles and spills, and time of
//! shuffle writes. It lacks the time of spills and local shuffle reads, and the bytes served by the
//! page cache. `simulate` derives those from the bytes and a model of the nodes.

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
