//! A node: phases of tasks, the page cache, and the device shared by readers and writeback.
//!
//! Time is continuous: between two events each phase progresses at a constant speed. Writes go to
//! the page cache. Writeback starts above the background limit; writers wait for it near the dirty
//! limit, as in Linux. A read waits for the device for bytes that the page cache lacks. The cache
//! evicts the least recently used bytes; a read counts as a use.

use rustc_hash::FxHashMap;

/// The storage of a node's temp files. Rates apply to large operations.
#[derive(Clone, Copy, Debug)]
pub struct NodeStorage {
    /// Rate of a single reader on an idle device, and of many readers together.
    pub reader_bytes_per_s: f64,
    pub read_bytes_per_s: f64,
    pub write_bytes_per_s: f64,
    /// Memory that temp files may occupy; infinite if they are in memory.
    pub cache_bytes: f64,
    /// The dirty limit; infinite if temp files are in memory.
    pub dirty_bytes: f64,
    /// Whether reads and writes compete for bandwidth.
    pub shared: bool,
}

impl NodeStorage {
    /// A storage for which no task ever waits.
    pub fn unlimited() -> NodeStorage {
        let unlimited = f64::INFINITY;
        NodeStorage {
            reader_bytes_per_s: unlimited,
            read_bytes_per_s: unlimited,
            write_bytes_per_s: unlimited,
            cache_bytes: unlimited,
            dirty_bytes: unlimited,
            shared: false,
        }
    }

    /// Dirty bytes at which writeback starts: Linux's default is half of the dirty limit.
    fn background_bytes(&self) -> f64 {
        self.dirty_bytes / 2.0
    }

    /// Dirty bytes at which writers wait. Linux throttles them from midway between the background
    /// limit and the dirty limit, so dirty bytes settle midway between that point and the dirty
    /// limit (`dirty_freerun_ceiling` and the set point of `wb_position_ratio`).
    fn throttled_bytes(&self) -> f64 {
        (self.background_bytes() + 3.0 * self.dirty_bytes) / 4.0
    }
}

/// A temp file, or all temp files of a kind on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum File {
    /// Shuffle output, by the stage that writes it.
    Shuffle(u32),
    /// Spill files, by task.
    Spill(u32),
    /// Files for each partition of a shuffle, by task.
    Partitions(u32),
    /// Bytes that a stage has read and no other stage reads again.
    Consumed(u32),
    /// Bytes of a removed file whose writeback had started, by task.
    Removed(u32),
}

/// Bytes that a phase reads of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    pub file: File,
    pub bytes: f64,
    /// How many times all stages together read the whole file.
    pub(crate) times_read: f64,
}

/// A part of a task, which works while it reads and writes bytes.
#[derive(Clone, Debug)]
pub(super) struct Phase {
    pub task: u32,
    pub stage: u32,
    /// Time that does not depend on storage.
    pub work_s: f64,
    pub reads: Vec<Read>,
    pub written_bytes: f64,
    pub file: File,
    /// The remaining share of the phase.
    pub left: f64,
    /// Time for which the phase has waited for reads and for writes so far.
    pub(crate) read_wait_s: f64,
    pub(crate) write_wait_s: f64,
}

/// Minimum duration of a phase, which would otherwise be infinitely fast.
const PHASE_MIN_S: f64 = 1e-6;
/// A phase with less time than this left has ended: it is the resolution of the clock.
const END_S: f64 = 1e-9;
/// After this many consecutive steps below `STEP_MIN_S`, every step takes at least that time;
/// otherwise limits that are reached repeatedly would cause endless steps.
const SHORT_STEPS_MAX: u32 = 1000;
const STEP_MIN_S: f64 = 1e-4;
/// A share that may remain because of rounding.
const NOTHING: f64 = 1e-9;
/// Dirty bytes within this share of the distance from the background limit to the dirty limit count
/// as being at the background limit.
const AT_LIMIT: f64 = 0.01;
/// The readers' share of the device while writeback cannot keep up.
const SHARED: f64 = 0.5;
/// Iterations that compute the number of concurrent readers and the speed of throttled writers.
const READER_STEPS: usize = 4;
const THROTTLE_STEPS: usize = 30;

/// The speeds until the next event.
#[derive(Debug, Default)]
struct Rates {
    /// By running phase: time of the whole phase, and its parts in reads and in waits for writes.
    phase_s: Vec<(f64, f64, f64)>,
    /// By running phase: bytes that the whole phase would read from the device.
    missed_bytes: Vec<f64>,
    /// Growth of the dirty bytes, and rate of writeback, in bytes per second.
    growth: f64,
    drain: f64,
}

#[derive(Debug)]
pub(super) struct Node {
    storage: NodeStorage,
    now_s: f64,
    short_steps: u32,
    running: Vec<Phase>,
    rates: Rates,
    /// Dirty bytes by file, in order of the first writes.
    dirty: Vec<(File, f64)>,
    dirty_bytes: f64,
    /// Cached bytes by file, least recently used first.
    cached: Vec<(File, f64)>,
    cached_bytes: f64,
    /// Bytes that were written and are still to be read.
    unread: FxHashMap<File, f64>,
}

impl Node {
    pub fn new(storage: NodeStorage) -> Node {
        Node {
            storage,
            now_s: 0.0,
            short_steps: 0,
            running: Vec::new(),
            rates: Rates::default(),
            dirty: Vec::new(),
            dirty_bytes: 0.0,
            cached: Vec::new(),
            cached_bytes: 0.0,
            unread: FxHashMap::default(),
        }
    }

    pub fn start(&mut self, phase: Phase) {
        self.running.push(phase);
    }

    fn cached_of(&self, file: File) -> f64 {
        self.cached.iter().find(|(cached, _)| *cached == file).map_or(0.0, |(_, bytes)| *bytes)
    }

    /// Bytes that the whole of a phase would read from the device.
    fn missed_bytes(&self, phase: &Phase) -> f64 {
        let full = self.cached_bytes >= self.storage.cache_bytes * (1.0 - NOTHING);
        let missed = phase.reads.iter().map(|read| {
            let unread = self.unread.get(&read.file).copied().unwrap_or(0.0);
            let absent = unread - self.cached_of(read.file);
            if absent <= NOTHING * unread {
                return 0.0;
            }
            let left = (phase.left * read.bytes).max(1.0);
            let share = left / read.times_read / unread;
            read.bytes * missed_share(absent / unread, share.min(1.0), full)
        });
        missed.sum()
    }

    /// Removes a file of a task. Writeback completes for bytes that it has already started on,
    /// which are the oldest dirty bytes beyond the background limit, and a phase of `File::Removed`
    /// waits for them. The other bytes are never written.
    pub fn remove(&mut self, file: File, task: u32) {
        self.unread.remove(&file);
        if let Some(at) = self.dirty.iter().position(|(dirty, _)| *dirty == file) {
            let older: f64 = self.dirty[..at].iter().map(|(_, bytes)| bytes).sum();
            let begun = self.dirty_bytes - self.storage.background_bytes() - older;
            let (name, bytes) = &mut self.dirty[at];
            let dropped = *bytes - begun.clamp(0.0, *bytes);
            *name = File::Removed(task);
            *bytes -= dropped;
            self.dirty_bytes = (self.dirty_bytes - dropped).max(0.0);
            self.dirty.retain(|(_, bytes)| *bytes > 0.0);
        }
        if let Some(at) = self.cached.iter().position(|(cached, _)| *cached == file) {
            self.cached_bytes -= self.cached.remove(at).1;
        }
    }

    /// The phase in which a task waits for the writeback of files that it removed.
    pub fn removal(&self, task: u32, stage: u32) -> Option<Phase> {
        let phase = Phase {
            task,
            stage,
            work_s: 0.0,
            reads: Vec::new(),
            written_bytes: 0.0,
            file: File::Removed(task),
            left: 1.0,
            read_wait_s: 0.0,
            write_wait_s: 0.0,
        };
        (bytes_before_removal(&self.dirty, task) > 0.0).then_some(phase)
    }

    /// The time at which a phase ends or a limit is reached, unless a phase starts earlier.
    pub(crate) fn next_s(&self) -> f64 {
        let ends = self.running.iter().zip(&self.rates.phase_s);
        let ends_s = ends.map(|(phase, (whole_s, ..))| phase.left * whole_s);
        let limit_s = self
            .next_limit()
            .map_or(f64::INFINITY, |limit| (limit - self.dirty_bytes) / self.rates.growth);
        let least_s = if self.short_steps > SHORT_STEPS_MAX { STEP_MIN_S } else { 0.0 };
        self.now_s + ends_s.fold(limit_s, f64::min).max(least_s)
    }

    /// The dirty bytes at which the rates change next.
    fn next_limit(&self) -> Option<f64> {
        let (limit, background) = (self.storage.throttled_bytes(), self.storage.background_bytes());
        if !limit.is_finite() {
            return None;
        }
        let near = AT_LIMIT * (limit - background);
        match self.rates.growth {
            growth if growth > 0.0 => [background, background + 2.0 * near, limit]
                .into_iter()
                .find(|&level| self.dirty_bytes < level * (1.0 - NOTHING)),
            growth if growth < 0.0 => (self.dirty_bytes > background + near).then_some(background),
            _ => None,
        }
    }

    /// Advances to a time up to `next_s`; returns the phases that end there.
    pub(crate) fn advance(&mut self, to_s: f64) -> Vec<Phase> {
        let passed_s = to_s - self.now_s;
        self.short_steps = if passed_s > 1.01 * STEP_MIN_S { 0 } else { self.short_steps + 1 };
        let limit = self.next_limit();
        self.now_s = to_s;
        let mut wrote = 0.0;
        let mut running = std::mem::take(&mut self.running);
        for (at, phase) in running.iter_mut().enumerate() {
            let (whole_s, read_s, write_s) = self.rates.phase_s[at];
            let done = (passed_s / whole_s).min(phase.left);
            phase.left -= done;
            if phase.left * whole_s < END_S {
                phase.left = 0.0;
            }
            phase.read_wait_s += done * read_s;
            phase.write_wait_s += done * write_s;
            self.read(phase, done, done * self.rates.missed_bytes[at]);
            if phase.written_bytes > 0.0 {
                let bytes = done * phase.written_bytes;
                wrote += bytes;
                self.write(phase.file, bytes);
            }
        }
        self.write_back(passed_s, wrote);
        // Limits are set exactly, so that rounding does not cause endless steps.
        if let Some(limit) = limit
            && (self.dirty_bytes - limit).abs() < 1e-6 * limit
        {
            self.dirty_bytes = limit;
        }
        self.evict();
        let (ended, running) = running.into_iter().partition(|phase| phase.left < NOTHING);
        self.running = running;
        ended
    }

    /// Marks bytes read by a phase as most recently used; `missed_bytes` came from the device.
    fn read(&mut self, phase: &Phase, done: f64, missed_bytes: f64) {
        let mut consumed = missed_bytes;
        for &Read { file, bytes, times_read } in &phase.reads {
            let Some(unread) = self.unread.get_mut(&file).filter(|unread| **unread > 0.0) else {
                continue;
            };
            let share = (done * bytes / times_read / *unread).min(1.0);
            *unread *= 1.0 - share;
            if let Some((_, cached)) = self.cached.iter_mut().find(|(cached, _)| *cached == file) {
                consumed += share * *cached;
                self.cached_bytes -= share * *cached;
                *cached *= 1.0 - share;
            }
        }
        if consumed > 0.0 {
            self.cache(File::Consumed(phase.stage), consumed);
        }
    }

    fn write(&mut self, file: File, bytes: f64) {
        *self.unread.entry(file).or_default() += bytes;
        if self.storage.dirty_bytes.is_finite() {
            add(&mut self.dirty, file, bytes);
        }
        self.cache(file, bytes);
    }

    fn cache(&mut self, file: File, bytes: f64) {
        add(&mut self.cached, file, bytes);
        self.cached_bytes += bytes;
    }

    /// Writes back the oldest bytes first, as Linux does.
    fn write_back(&mut self, passed_s: f64, wrote: f64) {
        if !self.storage.dirty_bytes.is_finite() {
            return;
        }
        let before = self.dirty_bytes + wrote;
        self.dirty_bytes = (before - self.rates.drain * passed_s).max(0.0);
        take_oldest(&mut self.dirty, before - self.dirty_bytes);
    }

    fn evict(&mut self) {
        let excess = self.cached_bytes - self.storage.cache_bytes;
        if excess > 0.0 {
            self.cached_bytes -= take_oldest(&mut self.cached, excess);
        }
    }

    /// Computes the speeds after a phase started or ended or a limit was reached.
    pub fn update(&mut self) {
        let storage = self.storage;
        let (limit, background) = (storage.throttled_bytes(), storage.background_bytes());
        let near = if limit.is_finite() { AT_LIMIT * (limit - background) } else { 0.0 };
        let removes = |phase: &Phase| matches!(phase.file, File::Removed(_));
        let saturated = limit.is_finite()
            && (self.dirty_bytes > background + near || self.running.iter().any(removes));
        let contended = saturated && storage.shared;
        let missed_bytes: Vec<f64> =
            self.running.iter().map(|phase| self.missed_bytes(phase)).collect();
        let reader = self.reader_bytes_per_s(&missed_bytes, if contended { SHARED } else { 1.0 });
        let phases = self.running.iter().zip(&missed_bytes);
        let mut phase_s: Vec<(f64, f64, f64)> = phases
            .map(|(phase, missed_bytes)| {
                let read_s = missed_bytes / reader;
                ((phase.work_s + read_s).max(PHASE_MIN_S), read_s, 0.0)
            })
            .collect();
        let read_per_s: f64 =
            missed_bytes.iter().zip(&phase_s).map(|(bytes, (whole_s, ..))| bytes / whole_s).sum();
        let writers = self.running.iter().zip(&phase_s);
        let mut inflow: f64 =
            writers.map(|(phase, (whole_s, ..))| phase.written_bytes / whole_s).sum();
        let left = if storage.shared { 1.0 - read_per_s / storage.read_bytes_per_s } else { 1.0 };
        let drain_max = storage.write_bytes_per_s * left.max(if contended { SHARED } else { 0.0 });
        if limit.is_finite() && self.dirty_bytes >= limit * (1.0 - NOTHING) && inflow > drain_max {
            throttle(&self.running, &mut phase_s, drain_max);
            inflow = drain_max;
        }
        let drain = if saturated {
            drain_max
        } else if !limit.is_finite() || self.dirty_bytes < background * (1.0 - NOTHING) {
            0.0
        } else {
            inflow.min(drain_max)
        };
        for (phase, times_s) in self.running.iter_mut().zip(&mut phase_s) {
            if let File::Removed(task) = phase.file {
                phase.left = 1.0;
                let wait_s = (bytes_before_removal(&self.dirty, task) / drain).max(PHASE_MIN_S);
                *times_s = (wait_s, 0.0, wait_s);
            }
        }
        let growth = if limit.is_finite() { inflow - drain } else { 0.0 };
        self.rates = Rates { phase_s, missed_bytes, growth, drain };
    }

    /// Bytes per second of each reader: readers that wait for the device at the same time share it.
    fn reader_bytes_per_s(&self, missed_bytes: &[f64], share: f64) -> f64 {
        let all = share * self.storage.read_bytes_per_s;
        let readers = || self.running.iter().zip(missed_bytes).filter(|(_, bytes)| **bytes > 0.0);
        let mut at_once = readers().count() as f64;
        let mut reader = f64::INFINITY;
        for _ in 0..READER_STEPS {
            reader = self.storage.reader_bytes_per_s.min(all / at_once.max(1.0));
            let waits = readers().map(|(phase, bytes)| {
                let read_s = bytes / reader;
                read_s / (phase.work_s + read_s).max(PHASE_MIN_S)
            });
            at_once = waits.sum();
        }
        reader
    }
}

/// Dirty bytes that writeback must write before all removed files of a task are gone.
fn bytes_before_removal(dirty: &[(File, f64)], task: u32) -> f64 {
    let last = dirty.iter().rposition(|(file, _)| *file == File::Removed(task));
    last.map_or(0.0, |last| dirty[..=last].iter().map(|(_, bytes)| bytes).sum())
}

/// Adds bytes to a file's entry, or appends an entry.
fn add(files: &mut Vec<(File, f64)>, file: File, bytes: f64) {
    match files.iter_mut().rev().find(|(other, _)| *other == file) {
        Some((_, all)) => *all += bytes,
        None => files.push((file, bytes)),
    }
}

/// Takes up to `bytes` from the first files; returns the bytes taken.
fn take_oldest(files: &mut Vec<(File, f64)>, bytes: f64) -> f64 {
    let mut left = bytes;
    for (_, of_file) in files.iter_mut() {
        let taken = left.min(*of_file);
        *of_file -= taken;
        left -= taken;
        if left <= 0.0 {
            break;
        }
    }
    files.retain(|(_, bytes)| *bytes > 0.0);
    bytes - left
}

/// The share of a part of a file that is read from the device if the share `absent` of the file is
/// not cached. In a full cache each byte from the device evicts a byte that is still to be read.
fn missed_share(absent: f64, part: f64, full: bool) -> f64 {
    if !full {
        return absent;
    }
    let until_none_cached = part.min(1.0 - absent);
    (part - until_none_cached - absent * (-until_none_cached).ln_1p()) / part
}

/// Makes writers wait so that together they write `drain` bytes per second, all at the same speed
/// while they write.
fn throttle(running: &[Phase], phase_s: &mut [(f64, f64, f64)], drain: f64) {
    let inflow = |writer: f64| -> f64 {
        let pairs = running.iter().zip(&*phase_s);
        pairs.map(|(phase, (s, ..))| phase.written_bytes / (s + phase.written_bytes / writer)).sum()
    };
    let (mut slow, mut fast) = (drain * 1e-3, drain * 1e6);
    for _ in 0..THROTTLE_STEPS {
        let writer = (slow * fast).sqrt();
        if inflow(writer) > drain { fast = writer } else { slow = writer }
    }
    for (phase, (whole_s, _, write_s)) in running.iter().zip(phase_s) {
        *write_s = phase.written_bytes / slow;
        *whole_s += *write_s;
    }
}
