//! Which functions the observed threads run: samples of their stacks, counted by function.
//!
//! A sample has the registers of a thread and the innermost part of its stack. It is unwound here
//! with the tables that every program has for its exceptions (`.eh_frame`): PostgreSQL and DuckDB
//! are often built without frame pointers, which are followed only where there is no table. The
//! bytes of the stack are dropped at once; only a count for each thread name and list of functions
//! is kept.

mod compiled;
mod image;
mod space;

use std::sync::Arc;

use framehop::{CacheNative, MayAllocateDuringUnwind};
use rustc_hash::FxHashMap;
use serde::Serialize;

pub use image::Symbols;
use space::{Code, Codes, Function, NamedModule, Space};

use super::event::StackSample;
use super::spinning::SAMPLES_PER_S;
use crate::proc::read_text;
use crate::wait::{NameId, Names};

/// Number of samples of the instruction pointer per sample of the stack.
pub(super) const SAMPLES_PER_STACK: u64 = 5;
/// Sampling frequency of the stack of a running thread, in Hz.
pub const STACKS_PER_S: f64 = SAMPLES_PER_S as f64 / SAMPLES_PER_STACK as f64;
/// The innermost bytes of a stack that are sampled. Each function of DuckDB's sort takes 5 KB.
pub(super) const STACK_BYTES: usize = 32 << 10;
/// Limit of functions in all counted stacks, some 10 MB; above it, only innermost ones are kept.
const FUNCTIONS_MAX: usize = 1 << 20;
/// The same limit for stacks of only their innermost function; above it, samples are left out.
const ENTRIES_MAX: usize = FUNCTIONS_MAX + (1 << 16);
/// After this time a process that runs code unknown at the last look is looked at again.
const LOOK_AGAIN_NS: u64 = 100_000_000;

#[derive(PartialEq, Eq, Hash)]
struct Key {
    thread: NameId,
    /// Whether the stack was unwound to the function in which the thread started.
    complete: bool,
    functions: Box<[Function]>,
}

/// Counts of the sampled stacks of one recording.
#[derive(Default)]
pub(crate) struct Stacks {
    spaces: FxHashMap<i32, Known>,
    codes: Codes,
    cache: CacheNative<MayAllocateDuringUnwind>,
    threads: FxHashMap<(i32, i32), NameId>,
    names: Names,
    counts: FxHashMap<Key, u64>,
    functions: usize,
    samples: u64,
    left_out: u64,
}

struct Known {
    space: Arc<Space>,
    looked_ns: u64,
}

/// The counted stacks with names, as in stacks.json.
#[derive(Clone, Debug, Default, Serialize)]
pub struct NamedStacks {
    pub samples: u64,
    /// Samples that did not fit.
    pub left_out: u64,
    pub modules: Vec<NamedModule>,
    pub functions: Vec<NamedFunction>,
    pub stacks: Vec<NamedStack>,
}

/// A function, and the index of its module; the name is None if it is unknown.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct NamedFunction {
    pub name: Option<String>,
    pub module: usize,
}

/// A thread name and a list of functions, with the number of their samples.
#[derive(Clone, Debug, Serialize)]
pub struct NamedStack {
    pub thread: String,
    /// Indices of functions, from the innermost one to its callers.
    pub functions: Vec<usize>,
    pub complete: bool,
    pub samples: u64,
}

impl Stacks {
    pub(crate) fn sample(&mut self, (pid, tid): (i32, i32), time_ns: u64, sample: &StackSample) {
        self.samples += 1;
        let thread = self.thread(pid, tid);
        self.look(pid, time_ns, sample.ip);
        let (mut functions, mut complete) = match self.spaces.get(&pid) {
            Some(known) => known.space.unwind(sample, &mut self.cache, &self.codes),
            None => (vec![Function { code: Codes::UNKNOWN, start: None }], false),
        };
        if self.functions + functions.len() > FUNCTIONS_MAX {
            functions.truncate(1);
            complete = false;
        }
        let (room, length) = (self.functions < ENTRIES_MAX, functions.len());
        let key = Key { thread, complete, functions: functions.into() };
        if let Some(count) = self.counts.get_mut(&key) {
            *count += 1;
        } else if room {
            self.functions += length;
            self.counts.insert(key, 1);
        } else {
            self.left_out += 1;
        }
    }

    /// Reads the files that a process has mapped as code. That takes some 30 ms for a large
    /// program: before a query begins, it takes no CPU time from the query. Where they are mapped
    /// is read at the first sample, because a process that has just started maps more.
    pub(crate) fn read_files(&mut self, pid: i32) {
        drop(Space::read(pid, &mut self.codes));
    }

    /// Gives a new process the code of its parent, until it executes another program.
    pub fn fork(&mut self, parent: i32, child: i32) {
        if let Some(Known { space, looked_ns }) = self.spaces.get(&parent) {
            let known = Known { space: space.clone(), looked_ns: *looked_ns };
            self.spaces.insert(child, known);
        }
    }

    /// Forgets a process that has ended or executes another program.
    pub(crate) fn forget(&mut self, pid: i32) {
        self.spaces.remove(&pid);
        self.threads.retain(|&(of, _), _| of != pid);
    }

    /// Reads the mappings of a process, unless they are recent or known to contain `ip`.
    fn look(&mut self, pid: i32, time_ns: u64, ip: u64) {
        if self
            .spaces
            .get(&pid)
            .is_some_and(|known| known.space.holds(ip) || time_ns < known.looked_ns + LOOK_AGAIN_NS)
        {
            return;
        }
        let space = Space::read(pid, &mut self.codes).map(Arc::new);
        match (space, self.spaces.get_mut(&pid)) {
            (Some(space), _) => drop(self.spaces.insert(pid, Known { space, looked_ns: time_ns })),
            (None, Some(known)) => known.looked_ns = time_ns,
            (None, None) => (),
        }
    }

    fn thread(&mut self, pid: i32, tid: i32) -> NameId {
        *self.threads.entry((pid, tid)).or_insert_with(|| {
            let name = read_text(format!("/proc/{pid}/task/{tid}/comm"));
            self.names.id(name.unwrap_or_default().trim_end())
        })
    }

    pub fn any(&self) -> bool {
        self.samples > 0
    }

    /// The stacks with the names of their functions, those with the most samples first.
    pub fn named(&self) -> NamedStacks {
        let mut named = NamedStacks {
            samples: self.samples,
            left_out: self.left_out,
            modules: self.codes.list().iter().map(Code::described).collect(),
            ..NamedStacks::default()
        };
        let names = self.codes.names();
        let mut positions = FxHashMap::default();
        let mut of_name = FxHashMap::default();
        let mut position = |function: &Function| {
            *positions.entry(*function).or_insert_with(|| {
                let (name, module) = (names.of(function), function.code as usize);
                let named_function = NamedFunction { name, module };
                *of_name.entry(named_function.clone()).or_insert_with(|| {
                    named.functions.push(named_function);
                    named.functions.len() - 1
                })
            })
        };
        let mut counts: FxHashMap<(NameId, bool, Vec<usize>), u64> = FxHashMap::default();
        for (key, count) in &self.counts {
            let functions = key.functions.iter().map(&mut position).collect();
            *counts.entry((key.thread, key.complete, functions)).or_default() += count;
        }
        let stack = |((thread, complete, functions), samples)| {
            let thread = self.names.list()[thread as usize].clone();
            NamedStack { thread, functions, complete, samples }
        };
        named.stacks = counts.into_iter().map(stack).collect();
        let key = |stack: &NamedStack| (u64::MAX - stack.samples, stack.functions.clone());
        named.stacks.sort_by_cached_key(key);
        named
    }
}
