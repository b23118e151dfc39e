//! Simulates flash caches for the I/O of scans and spills: policies, accounts, miss-ratio curves.
//!
//! A cache holds lines of one size. All modules work on requests for single lines ([`Request`]),
//! whatever file format they come from ([`Source`]).

mod curve;
mod distances;
mod hot;
mod oracle_general;
mod policy;
mod request;
mod rounded;
mod rows;
mod seen;
mod simulate;
mod spread;
mod stack;
pub(crate) mod store;
mod table;

pub use curve::Curve;
pub use distances::{distances, distances_within};
pub use oracle_general::{OracleGeneral, RECORD_BYTES};
pub use policy::NAMES;
pub use policy::keep::Rules;
pub use request::{Class, Flow, Request, Source};
pub use rows::{Row, Rows};
pub use simulate::{Account, Options, Outcome, Run, simulate};
