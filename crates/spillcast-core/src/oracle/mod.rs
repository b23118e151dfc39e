//! Extended SQL traces of Oracle (event 10046), 8i to 23ai, at memory speed.
//!
//! `chunks` splits files into whole lines, `pasted` rejoins broken lines of short files, `scan`
//! parses chunks into records by the `grammar` on all threads, and `follow` processes the records
//! in order and passes timed rows to a [`Sink`]: [`Profile`] counts them without keeping any,
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
