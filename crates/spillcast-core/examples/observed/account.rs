//! Calls counted by the program itself, in memory shared with forked children.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Map, Value, json};
use spillcast_calls::Mapping;

/// Members of the JSON document that a kind adds to its account.
pub type Members = Vec<(&'static str, Value)>;

/// Calls by the kernel's names, as in recordings.
#[derive(Clone, Copy)]
pub enum Call {
    Pread,
    Pwrite,
    Read,
    Write,
}

const NAMES: [&str; 4] = ["pread64", "pwrite64", "read", "write"];

/// For each call: number, and sums of bytes and offsets.
type Totals = [[AtomicU64; 3]; NAMES.len()];

/// The totals of all processes.
#[derive(Clone, Copy)]
pub struct Account(&'static Totals);

impl Account {
    pub fn shared() -> io::Result<Account> {
        let memory = Box::leak(Box::new(Mapping::new(None, size_of::<Totals>())?));
        // SAFETY: the mapping is zeroed, large enough and aligned to a page; it is never unmapped.
        Ok(Account(unsafe { memory.start().cast().as_ref() }))
    }

    /// Counts one call that transferred all its bytes.
    pub fn did(&self, call: Call, bytes: u64, offset: u64) {
        self.did_all(call, [1, bytes, offset]);
    }

    pub fn did_all(&self, call: Call, totals: [u64; 3]) {
        for (total, number) in self.0[call as usize].iter().zip(totals) {
            total.fetch_add(number, Ordering::Relaxed);
        }
    }

    pub fn json(&self) -> Map<String, Value> {
        let each = NAMES.iter().zip(self.0).filter_map(|(name, totals)| {
            let [count, bytes, offsets] =
                totals.each_ref().map(|total| total.load(Ordering::Relaxed));
            let call = json!({ "count": count, "bytes": bytes, "offsets": offsets });
            (count > 0).then(|| ((*name).to_owned(), call))
        });
        each.collect()
    }
}

/// CPU time of this process and the children that it has reaped, in s.
pub fn cpu_s() -> f64 {
    usage(libc::RUSAGE_SELF).0 + usage(libc::RUSAGE_CHILDREN).0
}

/// Number of voluntary and involuntary context switches of this process.
pub fn switches() -> i64 {
    usage(libc::RUSAGE_SELF).1
}

fn usage(who: i32) -> (f64, i64) {
    // SAFETY: a plain structure, which the call fills.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(who, &mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    (seconds(usage.ru_utime) + seconds(usage.ru_stime), usage.ru_nvcsw + usage.ru_nivcsw)
}

/// The median of the measurements, in ns; 0 without any.
pub fn median_ns(times_ns: &mut [u64]) -> u64 {
    times_ns.sort_unstable();
    times_ns.get(times_ns.len() / 2).copied().unwrap_or(0)
}
