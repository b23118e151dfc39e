//! The reader of extended SQL traces: what it promises on small traces, that it equals a slow
//! obvious reader on any, and figures of real traces that were counted by hand.

mod compare;
mod damaged;
mod equal;
mod real;
mod slow;
mod slow_line;
mod small;
mod writer;
