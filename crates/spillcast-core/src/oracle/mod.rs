//! Extended SQL traces of Oracle (event 10046), 8i to 23ai, at memory speed.
//!
//! `chunks` cuts files into whole lines, `pasted` joins those of short files that were broken,
//! `scan` turns each chunk into records by the `grammar` on all threads, `follow` takes the records
//! in their order and hands timed rows to a [`Sink`]: [`Profile`] counts them without keeping any,
//! [`Rows`] collects them.

mod chunks;
mod digits;
mod events;
mod follow;
mod grammar;
mod line;
mod options;
mod pasted;
mod profile;
mod reader;
mod rows;
mod scan;
mod session;
mod sink;

pub use events::{EventClass, classify};
pub use follow::{Damage, Damages, FileSummary, KEPT_PER_FILE};
pub use line::{CallKind, CallLine, ParsingLine, StatLine};
pub use options::{Options, ReadError, Watch, Window};
pub use profile::{Dimension, Group, Key, Profile};
pub use reader::{Reading, read};
pub use rows::{Batch, Rows, Tables};
pub use session::SessionTimes;
pub use sink::{
    Bind, Dictionary, Origin, STATEMENT_BYTES_MAX, SessionId, Sink, Statement, TimedCall, TimedWait,
};
