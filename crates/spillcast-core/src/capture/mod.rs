//! Observes live processes on Linux: each of their file I/O calls, timed, becomes a wait.
//!
//! A [`Source`] reports finished system calls as [`Event`]s. `assemble` turns them into waits:
//! which file, where in it, temp or not. All sources share it, so its rules are the same for all.
//!
//! - `bpf` (eBPF) costs least, attaches at once and names every file, but needs privileges and a
//!   kernel with BTF.
//! - `perf` (perf events) sees the same, also for ordinary users who observe their own processes.
//! - `preload` (a library) works in containers that refuse both.

use std::io;

pub use spillcast_calls::{Call, CallKind};

mod assemble;
mod bpf;
mod call_counts;
pub mod cost;
mod counts;
mod descriptor;
mod event;
mod files;
mod forked;
mod paths;
mod perf;
pub mod preload;
pub(crate) mod run_queue;
mod seconds;
mod session;
mod source;
mod spawn;
mod spinning;
mod stacks;
mod temp;
mod watch;

pub use event::{Block, Event, FileIdentity, Inside, Request, StackSample};
pub use seconds::Second;
pub use session::{Batch, Capture, Joined, Status, Waits};
pub use source::{Forks, Observed, Observer, Source};
pub use spawn::HeldCommand;
pub use stacks::{NamedStacks, STACKS_PER_S, Symbols};
pub use temp::{TempName, TempRules, temp_name_of};

/// Prepares a source for these kinds of calls; no process is observed yet.
pub type Open = fn(&[CallKind]) -> io::Result<Box<dyn Source>>;

/// Every source by its name.
pub const SOURCES: &[(&str, Open)] =
    &[("bpf", bpf::open), ("perf", perf::open), ("preload", preload::open)];
