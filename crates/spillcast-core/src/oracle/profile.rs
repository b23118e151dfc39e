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
    /// Index in [`Dictionary::events`]; None for the CPU of calls.
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
    /// Index in [`Dictionary::sql`].
    Sql,
    /// The number of the session, or of its process.
    Session,
    /// Second in which the row ended, on the clock of `tim`.
    Second,
    /// Minute in which the row ended.
    Minute,
    /// For waits that report bytes.
    Bytes,
    Cursor,
    /// The parameters of a wait.
    P1,
    P2,
    P3,
}

impl Dimension {
    /// Dimensions that users can group by, with their names. Calls are distinguished by kind where
    /// waits are distinguished by event.
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

    /// Whether the dimension depends on a wait's own figures, not on its event, session or time.
    fn is_figure(self) -> bool {
        use Dimension::*;
        !matches!(self, Event | Call | Op | Temp | Idle | Session | Second | Minute)
    }
}

const DIMENSIONS: usize = Dimension::P3 as usize + 1;

/// Represents None; numbers of a trace are never near it.
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

/// A group of rows, in microseconds: durations of waits, or CPU of calls without their recursive
/// calls. A single such CPU time may be below zero; their sum never is.
#[derive(Clone, Debug)]
pub struct Group {
    pub count: u64,
    /// Number of rows that are waits.
    pub waits: u64,
    /// The operation of all rows; [`Op::Null`] if they differ.
    pub op: Op,
    /// Whether all rows are idle waits.
    pub idle: bool,
    pub total_us: i64,
    pub min_us: i64,
    pub max_us: i64,
    /// Position of the longest row, the first of equals.
    pub max_at: Origin,
    /// Blocks transferred by waits, and the number of waits that report them, if figures are read.
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

    /// The non-empty buckets of the distribution, ascending: (middle of the bucket in ns, count).
    /// Negative CPU times count as 0.
    pub fn buckets(&self) -> Vec<(u64, u64)> {
        self.latencies.buckets().collect()
    }

    /// The quantile `share` of `buckets`, as returned by that method: the middle of the bucket that
    /// contains it, limited to the minimum and maximum.
    pub fn quantile_us(&self, buckets: &[(u64, u64)], share: f64) -> f64 {
        let wanted = share * self.count as f64;
        let mut below = 0;
        let reached = buckets.iter().find(|(_, count)| {
            below += count;
            below as f64 >= wanted
        });
        // Traces count whole microseconds, so a bucket's middle needs at most two more digits.
        let us = reached.or(buckets.last()).map_or(0.0, |&(ns, _)| (ns / 10) as f64 / 1e2);
        us.max(self.min_us as f64).min(self.max_us as f64)
    }
}

/// Counts waits, and the CPU of calls, in groups by the given dimensions.
pub struct Profile {
    by: Vec<Dimension>,
    counts_calls: bool,
    groups: Vec<(Key, Group)>,
    position: FxHashMap<Key, usize>,
    /// The group of the last row of each event or call kind, which is most often the next one too.
    last: Vec<Option<(Key, usize)>>,
}

impl Profile {
    pub fn new(by: Vec<Dimension>) -> Self {
        let (groups, position, last) = Default::default();
        Profile { by, counts_calls: true, groups, position, last }
    }

    /// Counts waits only.
    pub fn of_waits(by: Vec<Dimension>) -> Self {
        Profile { counts_calls: false, ..Profile::new(by) }
    }

    /// The groups in order of their first rows.
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

    /// Looks up a group that is not that of the slot's last row.
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
