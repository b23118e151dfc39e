//! Waits summed up by their columns, for queries that ask for no single row.

use rustc_hash::FxHashMap;

use super::condition::{Column, Condition};
use super::condition_words::column;
use super::sink::{Dictionary, Origin, Sink, Statement, TimedCall, TimedWait};

/// Columns that groups may be told apart by.
const KEYS_MAX: usize = 8;
/// Stands for null, which no number of a trace comes near.
const NONE: i64 = i64::MIN;

type Key = [i64; KEYS_MAX];

/// What the values of a column sum up to, nulls aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sum {
    pub count: i64,
    pub sum: i128,
    pub least: i64,
    pub most: i64,
}

impl Sum {
    const NOTHING: Sum = Sum { count: 0, sum: 0, least: i64::MAX, most: i64::MIN };

    #[inline(always)]
    fn add(&mut self, value: i64) {
        self.count += 1;
        self.sum += i128::from(value);
        self.least = self.least.min(value);
        self.most = self.most.max(value);
    }
}

/// The columns that groups are told apart by, and the numbers that are summed up.
#[derive(Clone, Debug)]
pub struct Summed {
    keys: Vec<(String, Column)>,
    numbers: Vec<(String, Column)>,
}

impl Summed {
    /// By names of columns of the table of waits; None for too many, or those that cannot be.
    pub fn new(keys: &[String], numbers: &[String]) -> Option<Summed> {
        let known = |name: &String| Some((name.clone(), column(name)?));
        let keys: Vec<_> = keys.iter().map(known).collect::<Option<_>>()?;
        let numbers: Vec<_> = numbers.iter().map(known).collect::<Option<_>>()?;
        let all_numbers = numbers.iter().all(|(_, column)| column.is_number());
        (keys.len() <= KEYS_MAX && all_numbers).then_some(Summed { keys, numbers })
    }

    /// Names and columns of the keys.
    pub fn keys(&self) -> &[(String, Column)] {
        &self.keys
    }

    /// Names of the numbers.
    pub fn numbers(&self) -> impl Iterator<Item = &str> {
        self.numbers.iter().map(|(name, _)| name.as_str())
    }
}

/// Groups of waits, in the order of their first ones.
#[derive(Clone, Debug, Default)]
pub struct SumGroups {
    keys: Vec<Key>,
    waits: Vec<i64>,
    /// Of each group one a number.
    sums: Vec<Sum>,
}

impl SumGroups {
    /// How many waits each group has.
    pub fn waits(&self) -> &[i64] {
        &self.waits
    }

    /// The values of the key at this place, None for null; of a text its place in its dictionary.
    pub fn key(&self, at: usize) -> impl Iterator<Item = Option<i64>> {
        self.keys.iter().map(move |key| Some(key[at]).filter(|&value| value != NONE))
    }

    /// The sums of the number at this place, of `numbers` in all.
    pub fn sums(&self, at: usize, numbers: usize) -> impl Iterator<Item = Sum> {
        self.sums.chunks_exact(numbers.max(1)).map(move |of_group| of_group[at])
    }
}

/// Sums up waits. A group is handed on as several where there are so many that they are handed on
/// in between.
pub struct Sums<F> {
    of: Summed,
    condition: Option<Condition>,
    groups: SumGroups,
    groups_max: usize,
    position: FxHashMap<Key, usize>,
    /// The group of each event's last wait: most often that of its next one too.
    last: Vec<Option<(Key, usize)>>,
    take: F,
}

impl<F: FnMut(&Dictionary, SumGroups) -> bool + Send> Sums<F> {
    /// Of the waits for which the condition holds; `take` returns false to end the reading.
    pub fn new(of: Summed, condition: Option<Condition>, groups_max: usize, take: F) -> Self {
        Sums {
            of,
            condition,
            groups: SumGroups::default(),
            groups_max,
            position: FxHashMap::default(),
            last: Vec::new(),
            take,
        }
    }

    /// The groups left when the reading is over.
    pub fn finish(self) -> SumGroups {
        self.groups
    }

    #[inline(always)]
    fn group(&mut self, event: usize, key: Key) -> usize {
        if event >= self.last.len() {
            self.last.resize(event + 1, None);
        }
        match self.last[event] {
            Some((last, position)) if last == key => position,
            _ => {
                let SumGroups { keys, waits, sums } = &mut self.groups;
                let numbers = self.of.numbers.len();
                let position = *self.position.entry(key).or_insert_with(|| {
                    keys.push(key);
                    waits.push(0);
                    sums.resize(sums.len() + numbers, Sum::NOTHING);
                    keys.len() - 1
                });
                self.last[event] = Some((key, position));
                position
            }
        }
    }
}

impl<F: FnMut(&Dictionary, SumGroups) -> bool + Send> Sink for Sums<F> {
    #[inline(always)]
    fn wait(&mut self, names: &Dictionary, origin: Origin, wait: &TimedWait) {
        if let Some(condition) = &mut self.condition
            && !condition.holds(names, origin, wait)
        {
            return;
        }
        let mut key = [NONE; KEYS_MAX];
        for (value, (_, column)) in key.iter_mut().zip(&self.of.keys) {
            *value = column.of(names, origin, wait).unwrap_or(NONE);
        }
        let position = self.group(wait.event as usize, key);
        self.groups.waits[position] += 1;
        let sums = &mut self.groups.sums[position * self.of.numbers.len()..];
        for (sum, (_, column)) in sums.iter_mut().zip(&self.of.numbers) {
            if let Some(value) = column.of(names, origin, wait) {
                sum.add(value);
            }
        }
    }

    fn call(&mut self, _names: &Dictionary, _origin: Origin, _call: &TimedCall) {}

    fn statement(&mut self, _names: &Dictionary, _origin: Origin, _statement: Statement) {}

    fn needs_figures(&self) -> bool {
        let mut columns = self.of.keys.iter().chain(&self.of.numbers);
        columns.any(|(_, column)| column.is_figure())
            || self.condition.as_ref().is_some_and(Condition::needs_figures)
    }

    /// Groups are handed on between chunks, so that there are somewhat more than asked for.
    fn progress(&mut self, names: &Dictionary, _bytes: usize) -> bool {
        if self.groups.keys.len() < self.groups_max {
            return true;
        }
        self.position.clear();
        self.last.clear();
        (self.take)(names, std::mem::take(&mut self.groups))
    }
}
