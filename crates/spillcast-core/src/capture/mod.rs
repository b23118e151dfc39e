//! Observing live processes on Linux: their file I/O, each call timed, as waits.
//!
//! A source (`perf` or `preload`) reports finished system calls as [`call::Event`]s; `assemble`
//! turns them into waits. Both sources share all that comes after.

pub mod call;
