//! The reader of extended SQL traces: its guarantees on small traces, its equality with a slow,
//! obvious reader on any trace, and figures of real traces that were counted by hand.

mod compare;
mod damaged;
mod equal;
mod real;
mod slow;
mod slow_line;
mod small;
mod writer;
