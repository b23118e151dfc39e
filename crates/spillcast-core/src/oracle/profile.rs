//! The profile of traces: counts waits and CPU in groups without keeping rows.

use rustc_hash::FxHashMap;

use super::line::CallKind;
use super::sink::{Dictionary, Origin, Sink, TimedCall, TimedWait};
use crate::histogram::Histogram;
use crate::wait::Op;

/// The dimensions of groups. A row's value in each is a number, or None.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Dimension {
    /// Position in [`Dictionary::events`]; None for the CPU of calls.
    Event,
    /// A [`CallKind`] for the CPU of calls; None for waits.
    Call,
    /// An [`Op`]; None for neither read nor write.
    Op,
    /// 1 for temporary segments, 0 for anything else.
    Temp,
    /// 1 for idle waits, 0 for anything else.
    Idle,
    Blocks,
    /// Oracle's number of the data file.
    File,
    Object,
    /// Position in [`Dictionary::sql`].
    Sql,
    /// The number of the session, or of its process.
    Session,
    /// Second of the clock of `tim` in which the row ended.
    Second,
    /// The same in minutes.
    Minute,
    /// Of waits that say so in bytes.
    Bytes,
    Cursor,
    /// The parameters of a wait.
    P1,
    P2,
    P3,
}

impl Dimension {
    /// What groups may be told apart by, by the names that people give. Calls are told apart by
    /// their kind where waits are by their event.
    pub const NAMED: [(&'static str, Dimension); 16] = [
        ("event", Dimension::Event),
        ("op", Dimension::Op),
        ("temp", Dimension::Temp),
        ("idle", Dimension::Idle),
        ("blocks", Dimension::Blocks),
        ("file", Dimension::File),
        ("object", Dimension::Object),
        ("sql", Dimension::Sql),
        ("session", Dimension::Session),
        ("second", Dimension::Second),
        ("minute", Dimension::Minute),
        ("bytes", Dimension::Bytes),
        ("cursor", Dimension::Cursor),
        ("p1", Dimension::P1),
        ("p2", Dimension::P2),
        ("p3", Dimension::P3),
    ];

    /// Whether a wait's own figures tell it, and not its event, its session or when it was.
    fn is_figure(self) -> bool {
        use Dimension::*;
        !matches!(self, Event | Call | Op | Temp | Idle | Session | Second | Minute)
    }
}

const DIMENSIONS: usize = Dimension::P3 as usize + 1;

/// Represents None; no number of a trace comes near it.
const NONE: i64 = i64::MIN;

/// The key of a group in the requested dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key([i64; DIMENSIONS]);

impl Key {
    pub fn get(&self, dimension: Dimension) -> Option<i64> {
        Some(self.0[dimension as usize]).filter(|&value| value != NONE)
    }

    pub fn op(&self) -> Op {
        self.get(Dimension::Op).map_or(Op::Null, |op| Op::of_number(op as u8))
    }

    pub fn call(&self) -> Option<CallKind> {
        self.get(Dimension::Call).map(|kind| CallKind::ALL[kind as usize])
    }
}

/// Rows counted together, in microseconds: how long waits lasted, or the CPU that calls took
/// without the calls they made (whose sum, but not the least of which, is never below zero).
#[derive(Clone, Debug)]
pub struct Group {
    pub count: u64,
    /// How many of them are waits.
    pub waits: u64,
    /// What all of them do; [`Op::Null`] where they differ.
    pub op: Op,
    /// Whether all of them are idle.
    pub idle: bool,
    pub total_us: i64,
    pub min_us: i64,
    pub max_us: i64,
    /// Where the longest stands, the first of equals.
    pub max_at: Origin,
    /// Blocks that waits moved, and how many waits tell it; where figures of waits are read.
    pub blocks: i64,
    pub blocks_count: i64,
    latencies: Histogram,
}

impl Group {
    fn new(op: Op, origin: Origin) -> Self {
        Group {
            count: 0,
            waits: 0,
            op,
            idle: true,
            total_us: 0,
            min_us: i64::MAX,
            max_us: i64::MIN,
            max_at: origin,
            blocks: 0,
            blocks_count: 0,
            latencies: Histogram::default(),
        }
    }

    #[inline(always)]
    fn add(&mut self, us: i64, origin: Origin) {
        self.count += 1;
        self.total_us = self.total_us.saturating_add(us);
        self.min_us = self.min_us.min(us);
        if us > self.max_us {
            self.max_us = us;
            self.max_at = origin;
        }
        self.latencies.record(us.max(0) as u64 * 1_000);
    }

    #[inline(always)]
    fn add_wait(&mut self, wait: &TimedWait, origin: Origin) {
        self.waits += 1;
        if self.op != wait.class.op {
            self.op = Op::Null;
        }
        self.idle &= wait.class.idle;
        if let Some(blocks) = wait.blocks.filter(|&blocks| blocks > 0) {
            self.blocks = self.blocks.saturating_add(blocks);
            self.blocks_count += 1;
        }
        self.add(wait.elapsed_us, origin);
    }

    fn add_call(&mut self, call: &TimedCall, origin: Origin) {
        self.op = Op::Null;
        self.idle = false;
        self.add(call.self_c_us, origin);
    }

    /// What of the distribution holds something: (middle of the bucket in ns, count), ascending,
    /// with negative CPU times counted as none.
    pub fn buckets(&self) -> Vec<(u64, u64)> {
        self.latencies.buckets().collect()
    }

    /// The middle of the bucket below whose end this share lies, of what `buckets` gives; not
    /// beyond the least and the most.
    pub fn quantile_us(&self, buckets: &[(u64, u64)], share: f64) -> f64 {
        let wanted = share * self.count as f64;
        let mut below = 0;
        let reached = buckets.iter().find(|(_, count)| {
            below += count;
            below as f64 >= wanted
        });
        // Traces count whole microseconds, of which a bucket's middle has two digits more at most.
        let us = reached.or(buckets.last()).map_or(0.0, |&(ns, _)| (ns / 10) as f64 / 1e2);
        us.max(self.min_us as f64).min(self.max_us as f64)
    }
}

/// Counts waits, and the CPU of calls, in groups by the dimensions given.
pub struct Profile {
    by: Vec<Dimension>,
    counts_calls: bool,
    groups: Vec<(Key, Group)>,
    position: FxHashMap<Key, usize>,
    /// The group of each event's, or call kind's, last row: most often that of its next one too.
    last: Vec<Option<(Key, usize)>>,
}

impl Profile {
    pub fn new(by: Vec<Dimension>) -> Self {
        let (groups, position, last) = Default::default();
        Profile { by, counts_calls: true, groups, position, last }
    }

    /// The same of waits alone.
    pub fn of_waits(by: Vec<Dimension>) -> Self {
        Profile { counts_calls: false, ..Profile::new(by) }
    }

    /// The groups, in the order of their first rows.
    pub fn groups(&self) -> &[(Key, Group)] {
        &self.groups
    }

    #[inline(always)]
    fn group(
        &mut self,
        slot: usize,
        value: impl Fn(Dimension) -> Option<i64>,
        op: Op,
        origin: Origin,
    ) -> &mut Group {
        let value = |dimension| value(dimension).unwrap_or(NONE);
        let position = match self.last.get(slot) {
            Some(Some((last, position)))
                if self
                    .by
                    .iter()
                    .all(|&dimension| last.0[dimension as usize] == value(dimension)) =>
            {
                *position
            }
            _ => self.other_group(slot, value, op, origin),
        };
        &mut self.groups[position].1
    }

    /// Looks up a group other than that of the slot's last row.
    fn other_group(
        &mut self,
        slot: usize,
        value: impl Fn(Dimension) -> i64,
        op: Op,
        origin: Origin,
    ) -> usize {
        let mut key = Key([NONE; DIMENSIONS]);
        for &dimension in &self.by {
            key.0[dimension as usize] = value(dimension);
        }
        let position = *self.position.entry(key).or_insert_with(|| {
            self.groups.push((key, Group::new(op, origin)));
            self.groups.len() - 1
        });
        if slot >= self.last.len() {
            self.last.resize(slot + 1, None);
        }
        self.last[slot] = Some((key, position));
        position
    }
}

impl Sink for Profile {
    #[inline(always)]
    fn wait(&mut self, names: &Dictionary, origin: Origin, wait: &TimedWait) {
        let class = wait.class;
        let value = |dimension| match dimension {
            Dimension::Event => Some(i64::from(wait.event)),
            Dimension::Call => None,
            Dimension::Op => (class.op != Op::Null).then_some(class.op as i64),
            Dimension::Temp => Some(i64::from(class.temp)),
            Dimension::Idle => Some(i64::from(class.idle)),
            Dimension::Blocks => wait.blocks,
            Dimension::File => wait.file,
            Dimension::Object => wait.object.map(i64::from),
            Dimension::Second => Some((wait.start_us + wait.elapsed_us).div_euclid(1_000_000)),
            Dimension::Minute => Some((wait.start_us + wait.elapsed_us).div_euclid(60_000_000)),
            Dimension::Bytes => wait.bytes,
            Dimension::Cursor => Some(wait.cursor),
            Dimension::P1 => Some(wait.params[0]),
            Dimension::P2 => Some(wait.params[1]),
            Dimension::P3 => Some(wait.params[2]),
            Dimension::Sql => origin.sql.map(i64::from),
            Dimension::Session => names.sessions[origin.session].number(),
        };
        let slot = CallKind::ALL.len() + wait.event as usize;
        self.group(slot, value, class.op, origin).add_wait(wait, origin);
    }

    fn call(&mut self, names: &Dictionary, origin: Origin, call: &TimedCall) {
        if !self.counts_calls {
            return;
        }
        let kind = call.line.kind;
        let value = |dimension| match dimension {
            Dimension::Call => Some(kind as i64),
            Dimension::Temp | Dimension::Idle => Some(0),
            Dimension::Second => Some(call.line.tim.div_euclid(1_000_000)),
            Dimension::Minute => Some(call.line.tim.div_euclid(60_000_000)),
            Dimension::Sql => origin.sql.map(i64::from),
            Dimension::Session => names.sessions[origin.session].number(),
            _ => None,
        };
        self.group(kind as usize, value, Op::Null, origin).add_call(call, origin);
    }

    fn needs_figures(&self) -> bool {
        self.by.iter().any(|dimension| dimension.is_figure())
    }
}
