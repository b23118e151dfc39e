//! Sends requests through a cache, once or repeatedly, and accounts for them by object and class.

use std::io;

use super::policy::Policy;
use super::policy::arc::Arc;
use super::policy::keep::{Keep, Rules};
use super::policy::queue::Queue;
use super::policy::s3fifo::S3Fifo;
use super::policy::sieve::Sieve;
use super::request::{Class, Flow, Request, Source};
use super::store::Store;

/// Prefetch distance in requests, about the latency of memory.
const AHEAD: usize = 8;

#[derive(Clone, Debug)]
pub struct Options {
    /// One of [`super::NAMES`].
    pub policy: String,
    /// Number of lines that the cache holds, at least 1.
    pub lines: usize,
    pub rules: Rules,
    /// Whether temp data is written to the cache, and to the disk only if it is evicted unread.
    pub temp_writes: bool,
    /// How often the requests are replayed; the cache is empty only before the first run.
    pub runs: u32,
    /// Whether each object is also simulated with a whole cache of its own.
    pub alone: bool,
}

/// The outcome of the requests of one object and class in one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    pub requests: u64,
    pub bytes: u64,
    pub hits: u64,
    pub hit_bytes: u64,
    /// Hits if the object had a cache of the same size for itself.
    pub alone_hits: u64,
    /// Bytes written to the cache: admitted lines and temp data.
    pub flash_write_bytes: u64,
    /// Bytes written directly to the disk.
    pub disk_write_bytes: u64,
}

/// One pass through all requests.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// By object, then by class in the order of [`Class::ALL`].
    pub accounts: Vec<[Account; 5]>,
    /// Dirty lines that were evicted.
    pub lines_written_back: u64,
}

#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub runs: Vec<Run>,
    /// Lines of each object in the cache at the end.
    pub cached_lines: Vec<u64>,
}

/// Simulates a cache. Returns None for an unknown policy.
pub fn simulate(source: &dyn Source, options: &Options) -> Option<io::Result<Outcome>> {
    let lines = options.lines;
    Some(match options.policy.as_str() {
        "keep" => run(source, options, || Keep::new(lines, options.rules.clone())),
        // Whatever "bypass" caches, it caches by LRU.
        "bypass" | "lru" => run(source, options, || Queue::<true>::new(lines)),
        "fifo" => run(source, options, || Queue::<false>::new(lines)),
        "sieve" => run(source, options, || Sieve::new(lines)),
        "s3fifo" => run(source, options, || S3Fifo::new(lines)),
        "arc" => run(source, options, || Arc::new(lines)),
        _ => return None,
    })
}

struct Cache<P> {
    policy: P,
    store: Store,
}

fn run<P: Policy>(
    source: &dyn Source,
    options: &Options,
    make: impl Fn() -> P,
) -> io::Result<Outcome> {
    let make = || Cache { policy: make(), store: Store::default() };
    let mut cache = make();
    let mut alone = Vec::new();
    let mut outcome = Outcome::default();
    // The clock continues from run to run.
    let mut later_s = 0;
    for _ in 0..options.runs {
        let written_back = cache.store.written_back;
        let mut run = Run::default();
        let (mut first_s, mut last_s) = (None, 0u32);
        source.each(&mut |requests| {
            for (at, request) in requests.iter().enumerate() {
                if let Some(later) = requests.get(at + 2 * AHEAD) {
                    cache.store.expect(later.key);
                }
                if let Some(soon) = requests.get(at + AHEAD) {
                    cache.store.expect_line(soon.key);
                }
                let request =
                    &Request { time_s: request.time_s.saturating_add(later_s), ..*request };
                first_s.get_or_insert(request.time_s);
                last_s = request.time_s;
                let account = run.account(request);
                cache.step(options, request, account);
                if options.alone {
                    let object = request.object as usize;
                    alone.resize_with(alone.len().max(object + 1), &make);
                    let mut apart = Account::default();
                    alone[object].step(options, request, &mut apart);
                    account.alone_hits += apart.hits;
                }
            }
            Flow::Continue(())
        })?;
        // Traces from other programs may be out of order.
        later_s = later_s.saturating_add(last_s.saturating_sub(first_s.unwrap_or(0)));
        run.lines_written_back = cache.store.written_back - written_back;
        outcome.runs.push(run);
    }
    cache.policy.each_cached(&cache.store, |slot| {
        let object = cache.store.object(slot) as usize;
        let length = outcome.cached_lines.len().max(object + 1);
        outcome.cached_lines.resize(length, 0);
        outcome.cached_lines[object] += 1;
    });
    Ok(outcome)
}

impl Run {
    /// The account of a request's object and class.
    #[inline]
    fn account(&mut self, request: &Request) -> &mut Account {
        let object = request.object as usize;
        if object >= self.accounts.len() {
            self.accounts.resize(object + 1, Default::default());
        }
        &mut self.accounts[object][request.class as usize]
    }
}

impl<P: Policy> Cache<P> {
    #[inline]
    fn step(&mut self, options: &Options, request: &Request, account: &mut Account) {
        let bytes = u64::from(request.bytes);
        account.requests += 1;
        account.bytes += bytes;
        if request.class.is_write() {
            return self.write(options, request, account);
        }
        let Cache { policy, store } = self;
        let passes = options.policy == "bypass" && request.class != Class::Read;
        let admitted = store.admitted;
        let hit =
            if passes { policy.holds(store, request.key) } else { policy.access(store, request) };
        if hit {
            account.hits += 1;
            account.hit_bytes += bytes;
        } else {
            account.flash_write_bytes += (store.admitted - admitted) * bytes;
        }
    }

    fn write(&mut self, options: &Options, request: &Request, account: &mut Account) {
        let Cache { policy, store } = self;
        let bytes = u64::from(request.bytes);
        if request.class == Class::TempWrite {
            let passes = !options.temp_writes || options.policy == "bypass";
            if !passes && (policy.access(store, request) || policy.holds(store, request.key)) {
                if let Some(slot) = store.find(request.key) {
                    store.mark_dirty(slot);
                }
                account.flash_write_bytes += bytes;
                return;
            }
            // The cached content belongs to temp files that no longer exist.
            policy.discard(store, request.key);
        } else if policy.holds(store, request.key) {
            account.flash_write_bytes += bytes;
        }
        account.disk_write_bytes += bytes;
    }
}
