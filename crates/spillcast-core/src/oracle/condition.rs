//! What is asked of waits, tested row by row as they are read: the conditions of SQL that compare a
//! column with constants. `condition_words` makes them of text.

use super::arithmetic::{Sign, Step, Value};
use super::sink::{Dictionary, Origin, TimedWait};
use crate::wait::Op;

/// A condition on the columns of the table of waits. As in SQL, a comparison with null is neither
/// true nor false, and a row counts for which the whole is true.
#[derive(Clone, Debug)]
pub struct Condition(pub(super) Test);

#[derive(Clone, Debug)]
pub(super) enum Test {
    Is(bool),
    All(Vec<Test>),
    Any(Vec<Test>),
    Not(Box<Test>),
    Flag(Flag),
    /// Whether the value lies in the range, both ends included.
    Number(Number, (i64, i64)),
    /// Whether what is made of the value compares so with a constant.
    Made(Number, Vec<Step>, Sign, f64),
    Text(Text, TextTest, Seen),
    NoNumber(Number),
    NoText(Text),
}

/// A column of the table of waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    Flag(Flag),
    Number(Number),
    Text(Text),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flag {
    Temp,
    Idle,
}

/// Columns of whole numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    StartNs,
    ElapsedNs,
    Session,
    /// A text in the table, but one that is made of a number.
    File,
    Bytes,
    Object,
    Line,
    Blocks,
    P1,
    P2,
    P3,
    Cursor,
    Source,
}

/// Columns of texts, of which there are few different ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text {
    Event,
    Op,
    Sql,
}

#[derive(Clone, Debug)]
pub(super) enum TextTest {
    Equal(String),
    /// `%` stands for any text, `_` for any letter.
    Like(Vec<char>),
    /// From the first to the second, by their bytes, each with whether it is included.
    Between(Option<(String, bool)>, Option<(String, bool)>),
    Begins(String),
    Ends(String),
    Holds(String),
    /// Of the text in other letters.
    Cased(Case, Box<TextTest>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    Lower,
    Upper,
}

/// What was found of a text, by its position in the dictionary.
pub(super) type Seen = Vec<Option<bool>>;

impl Condition {
    #[inline]
    pub(super) fn holds(&mut self, names: &Dictionary, origin: Origin, wait: &TimedWait) -> bool {
        self.0.of(names, origin, wait) == Some(true)
    }

    /// Whether it looks at more of a wait than its event, its session and when it was.
    pub(super) fn needs_figures(&self) -> bool {
        self.0.needs_figures()
    }
}

impl Test {
    fn needs_figures(&self) -> bool {
        match self {
            Test::Is(_) | Test::Flag(_) => false,
            Test::All(tests) | Test::Any(tests) => tests.iter().any(Test::needs_figures),
            Test::Not(test) => test.needs_figures(),
            Test::Number(column, _) | Test::Made(column, ..) | Test::NoNumber(column) => {
                column.is_figure()
            }
            Test::Text(column, ..) | Test::NoText(column) => column.is_figure(),
        }
    }

    /// None for null.
    fn of(&mut self, names: &Dictionary, origin: Origin, wait: &TimedWait) -> Option<bool> {
        match self {
            Test::Is(known) => Some(*known),
            Test::All(tests) => decided(tests, false, |test| test.of(names, origin, wait)),
            Test::Any(tests) => decided(tests, true, |test| test.of(names, origin, wait)),
            Test::Not(test) => test.of(names, origin, wait).map(|is| !is),
            Test::Flag(Flag::Temp) => Some(wait.class.temp),
            Test::Flag(Flag::Idle) => Some(wait.class.idle),
            Test::Number(column, (low, high)) => {
                let value = column.of(names, origin, wait)?;
                Some((*low..=*high).contains(&value))
            }
            Test::Made(column, steps, sign, constant) => {
                let value = Value::Whole(column.of(names, origin, wait)?.into());
                let made =
                    steps.iter().try_fold(value, |made, step| made.with(step.operator, step.by));
                made.map(|made| made.compares(*sign, *constant))
            }
            Test::Text(column, test, seen) => {
                let position = column.position(origin, wait)?;
                if position >= seen.len() {
                    seen.resize(position + 1, None);
                }
                let found = &mut seen[position];
                Some(*found.get_or_insert_with(|| test.holds(column.text(names, position))))
            }
            Test::NoNumber(column) => Some(column.of(names, origin, wait).is_none()),
            Test::NoText(column) => Some(column.position(origin, wait).is_none()),
        }
    }
}

/// Whether one of the tests gives `decisive`; null where none does and one gives null.
fn decided(
    tests: &mut [Test],
    decisive: bool,
    mut of: impl FnMut(&mut Test) -> Option<bool>,
) -> Option<bool> {
    let mut result = Some(!decisive);
    for test in tests {
        match of(test) {
            Some(found) if found == decisive => return Some(decisive),
            Some(_) => {}
            None => result = None,
        }
    }
    result
}

impl Column {
    /// Whether a wait's own figures tell it, and not its event, its session or when it was.
    pub(super) fn is_figure(self) -> bool {
        match self {
            Column::Flag(_) => false,
            Column::Number(number) => number.is_figure(),
            Column::Text(text) => text.is_figure(),
        }
    }

    /// Its value as a number; of a text the place in its dictionary.
    #[inline]
    pub(super) fn of(self, names: &Dictionary, origin: Origin, wait: &TimedWait) -> Option<i64> {
        match self {
            Column::Flag(Flag::Temp) => Some(i64::from(wait.class.temp)),
            Column::Flag(Flag::Idle) => Some(i64::from(wait.class.idle)),
            Column::Number(number) => number.of(names, origin, wait),
            Column::Text(text) => text.position(origin, wait).map(|position| position as i64),
        }
    }

    /// Whether its values can be summed up. Files are texts that are made of numbers.
    pub(super) fn is_number(self) -> bool {
        matches!(self, Column::Number(number) if number != Number::File)
    }
}

impl Number {
    fn is_figure(self) -> bool {
        use Number::*;
        !matches!(self, StartNs | ElapsedNs | Session | Line | Source)
    }

    /// The value as it stands in the table of waits.
    #[inline]
    fn of(self, names: &Dictionary, origin: Origin, wait: &TimedWait) -> Option<i64> {
        match self {
            Number::StartNs => Some(wait.start_us * 1_000),
            Number::ElapsedNs => Some(wait.elapsed_us * 1_000),
            Number::Session => Some(names.sessions[origin.session].number().unwrap_or(0)),
            Number::File => wait.file,
            Number::Bytes => wait.bytes,
            Number::Object => wait.object.map(i64::from),
            Number::Line => i64::try_from(origin.line).ok(),
            Number::Blocks => wait.blocks,
            Number::P1 => Some(wait.params[0]),
            Number::P2 => Some(wait.params[1]),
            Number::P3 => Some(wait.params[2]),
            Number::Cursor => Some(wait.cursor),
            Number::Source => i64::try_from(origin.file).ok(),
        }
    }
}

impl Text {
    fn is_figure(self) -> bool {
        self == Text::Sql
    }

    #[inline]
    fn position(self, origin: Origin, wait: &TimedWait) -> Option<usize> {
        match self {
            Text::Event => Some(wait.event as usize),
            Text::Op => (wait.class.op != Op::Null).then_some(wait.class.op as usize),
            Text::Sql => origin.sql.map(|id| id as usize),
        }
    }

    fn text(self, names: &Dictionary, position: usize) -> &str {
        match self {
            Text::Event => &names.events.list()[position],
            Text::Op if position == Op::Read as usize => "read",
            Text::Op => "write",
            Text::Sql => &names.sql.list()[position],
        }
    }
}

impl TextTest {
    fn holds(&self, text: &str) -> bool {
        match self {
            TextTest::Equal(one) => one == text,
            TextTest::Begins(one) => text.starts_with(one),
            TextTest::Ends(one) => text.ends_with(one),
            TextTest::Holds(one) => text.contains(one),
            TextTest::Cased(case, test) => test.holds(&case.of(text)),
            TextTest::Like(pattern) => is_like(&text.chars().collect::<Vec<_>>(), pattern),
            TextTest::Between(low, high) => {
                let above = low
                    .as_ref()
                    .is_none_or(|(low, with)| text > low.as_str() || (*with && text == low));
                let below = high
                    .as_ref()
                    .is_none_or(|(high, with)| text < high.as_str() || (*with && text == high));
                above && below
            }
        }
    }
}

impl Case {
    /// The text in these letters, each of which stays one.
    pub fn of(self, text: &str) -> String {
        let one = |letter: char| match self {
            Case::Lower => letter.to_lowercase().next(),
            Case::Upper => Some(letter.to_uppercase()).filter(|more| more.len() == 1)?.next(),
        };
        text.chars().map(|letter| one(letter).unwrap_or(letter)).collect()
    }
}

/// Goes back to the last `%` where a letter does not fit.
fn is_like(text: &[char], pattern: &[char]) -> bool {
    let (mut at, mut next, mut any) = (0, 0, None);
    while at < text.len() {
        match pattern.get(next) {
            Some('%') => {
                any = Some((next, at));
                next += 1;
            }
            Some(&letter) if letter == '_' || letter == text[at] => {
                at += 1;
                next += 1;
            }
            _ => {
                let Some((percent, from)) = any else { return false };
                any = Some((percent, from + 1));
                (at, next) = (from + 1, percent + 1);
            }
        }
    }
    pattern[next..].iter().all(|&letter| letter == '%')
}
