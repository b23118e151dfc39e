//! Simulates flash caches for the I/O of scans and spills: policies, accounts, miss-ratio curves.
//!
//! A cache holds lines of one size. All modules work on requests for single lines ([`Request`]),
//! whatever file format they come from ([`Source`]).

mod curve;
mod distances;
mod policy;
mod request;
mod rounded;
mod sample;
mod simulate;
mod stack;
pub(crate) mod store;

pub use curve::Curve;
pub use distances::{distances, distances_within};
pub use policy::NAMES;
pub use policy::keep::Rules;
pub use request::{Class, Flow, OracleGeneral, Request, Row, Rows, Source};
pub use simulate::{Account, Options, Outcome, Run, simulate};
