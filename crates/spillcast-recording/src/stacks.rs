//! stacks.json: the functions that the observed threads ran; docs/schema.md describes each key.

use serde::Serialize;
use spillcast_core::capture::{NamedStacks, STACKS_PER_S, Symbols};

pub const STACKS: &str = "stacks.json";
const SCHEMA: &str = "spillcast.stacks/1";

#[derive(Serialize)]
pub struct StacksDocument<'a> {
    schema: &'static str,
    samples_per_s: f64,
    samples: u64,
    left_out: u64,
    modules: Vec<Module<'a>>,
    functions: Vec<Function<'a>>,
    stacks: Vec<Stack<'a>>,
}

#[derive(Serialize)]
struct Module<'a> {
    name: &'a str,
    build_id: Option<&'a str>,
    symbols: &'static str,
}

#[derive(Serialize)]
struct Function<'a> {
    name: Option<&'a str>,
    module: usize,
}

#[derive(Serialize)]
struct Stack<'a> {
    thread: &'a str,
    functions: &'a [usize],
    complete: bool,
    samples: u64,
}

impl<'a> StacksDocument<'a> {
    pub fn of(stacks: &'a NamedStacks) -> StacksDocument<'a> {
        let module = |module: &'a spillcast_core::capture::NamedModule| Module {
            name: &module.name,
            build_id: module.build_id.as_deref(),
            symbols: match module.symbols {
                Symbols::All => "all",
                Symbols::Exported => "exported",
                Symbols::None => "none",
            },
        };
        let function = |(name, module): &'a (Option<String>, usize)| Function {
            name: name.as_deref(),
            module: *module,
        };
        StacksDocument {
            schema: SCHEMA,
            samples_per_s: STACKS_PER_S,
            samples: stacks.samples,
            left_out: stacks.left_out,
            modules: stacks.modules.iter().map(module).collect(),
            functions: stacks.functions.iter().map(function).collect(),
            stacks: stacks
                .stacks
                .iter()
                .map(|stack| Stack {
                    thread: &stack.thread,
                    functions: &stack.functions,
                    complete: stack.complete,
                    samples: stack.samples,
                })
                .collect(),
        }
    }
}
