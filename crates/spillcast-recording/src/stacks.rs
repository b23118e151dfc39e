//! stacks.json: the functions that the observed threads ran; docs/schema.md describes each key.

use serde::Serialize;
use spillcast_core::capture::{NamedStacks, STACKS_PER_S};

pub const STACKS: &str = "stacks.json";
const SCHEMA: &str = "spillcast.stacks/1";

#[derive(Serialize)]
pub struct StacksDocument<'a> {
    schema: &'static str,
    samples_per_s: f64,
    #[serde(flatten)]
    stacks: &'a NamedStacks,
}

impl StacksDocument<'_> {
    pub fn of(stacks: &NamedStacks) -> StacksDocument<'_> {
        StacksDocument { schema: SCHEMA, samples_per_s: STACKS_PER_S, stacks }
    }
}
