//! Text -> conditions, as far as they compare one column with constants. All else in SQL is for a
//! database to say: what is not surely understood is refused.

use std::iter::Peekable;
use std::mem::discriminant;
use std::vec::IntoIter;

use super::condition::{Column, Condition, Flag, Number, Seen, Test, Text, TextTest};

/// Deeper conditions are not read.
const DEPTH_MAX: usize = 64;
/// Whole numbers below are exact as doubles.
const EXACT_MAX: f64 = 9e15;

#[derive(Clone, Debug, PartialEq)]
enum Word {
    Name(String),
    Number(f64),
    Quoted(String),
    Sign(&'static str),
}

#[derive(Clone)]
enum Constant {
    Number(f64),
    Text(String),
    Flag(bool),
}

impl Condition {
    /// The condition that `text` says in SQL; None where it says more than can be tested here, or is
    /// no SQL.
    pub fn of_text(text: &str) -> Option<Condition> {
        let mut reader = Reader { words: words(text)?.into_iter().peekable(), depth: 0 };
        let test = reader.any()?;
        reader.words.next().is_none().then_some(Condition(test))
    }
}

fn words(text: &str) -> Option<Vec<Word>> {
    const SIGNS: [&str; 13] =
        ["!~~", "~~", "<=", ">=", "<>", "!=", "==", "=", "<", ">", "(", ")", ","];
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        if let Some(quoted) = rest.strip_prefix('\'') {
            let (text, behind) = quoted_text(quoted)?;
            found.push(Word::Quoted(text));
            rest = behind;
        } else if let Some(quoted) = rest.strip_prefix('"') {
            // A name in quotes is no word of the language, whatever it is.
            let (name, behind) = quoted.split_once('"')?;
            column(name)?;
            found.push(Word::Name(name.to_owned()));
            rest = behind;
        } else if first.is_ascii_alphabetic() || first == '_' {
            let name: String =
                rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
            rest = &rest[name.len()..];
            found.push(Word::Name(name.to_ascii_lowercase()));
        } else if first.is_ascii_digit() || is_signed(rest, found.last()) {
            let (number, behind) = number(rest)?;
            found.push(Word::Number(number));
            rest = behind;
        } else {
            let sign = SIGNS.into_iter().find(|sign| rest.starts_with(sign))?;
            found.push(Word::Sign(sign));
            rest = &rest[sign.len()..];
        }
        rest = rest.trim_start();
    }
    Some(found)
}

/// Whether a number with a sign comes, and not what is taken off something.
fn is_signed(rest: &str, before: Option<&Word>) -> bool {
    let behind = matches!(before, Some(Word::Sign(sign)) if *sign != ")")
        || matches!(before, Some(Word::Name(name)) if ["and", "between"].contains(&name.as_str()));
    behind
        && rest.strip_prefix('-').is_some_and(|more| more.starts_with(|c: char| c.is_ascii_digit()))
}

/// The text up to the closing quote, two of which stand for one, and what follows.
fn quoted_text(mut rest: &str) -> Option<(String, &str)> {
    let mut text = String::new();
    loop {
        let (before, behind) = rest.split_once('\'')?;
        text.push_str(before);
        match behind.strip_prefix('\'') {
            Some(_) => text.push('\''),
            None => return Some((text, behind)),
        }
        rest = &behind[1..];
    }
}

/// Digits, perhaps with a point and an exponent, that a double holds without rounding.
fn number(text: &str) -> Option<(f64, &str)> {
    let digits = |at: usize| text[at..].bytes().take_while(u8::is_ascii_digit).count();
    let mut end = usize::from(text.starts_with('-'));
    end += digits(end);
    if text[end..].starts_with('.') {
        end += 1 + digits(end + 1);
    }
    let (figures, before) = (end, text[..end].len());
    if text[end..].starts_with(['e', 'E']) {
        let sign = usize::from(text[end + 1..].starts_with(['-', '+']));
        let exponent = digits(end + 1 + sign);
        if exponent == 0 {
            return None;
        }
        end += 1 + sign + exponent;
    }
    // More figures than these a double would round.
    if before > 16
        || figures == 0
        || text[end..].starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '.')
    {
        return None;
    }
    let value: f64 = text[..end].parse().ok()?;
    (value.abs() < EXACT_MAX).then_some((value, &text[end..]))
}

/// The column of this name of the table of waits, unless it is always null.
pub(super) fn column(name: &str) -> Option<Column> {
    Some(match name {
        "temp" => Column::Flag(Flag::Temp),
        "idle" => Column::Flag(Flag::Idle),
        "event" => Column::Text(Text::Event),
        "op" => Column::Text(Text::Op),
        "sql_id" => Column::Text(Text::Sql),
        "start_ns" => Column::Number(Number::StartNs),
        "elapsed_ns" => Column::Number(Number::ElapsedNs),
        "session" => Column::Number(Number::Session),
        "file" => Column::Number(Number::File),
        "bytes" => Column::Number(Number::Bytes),
        "object" => Column::Number(Number::Object),
        "line" => Column::Number(Number::Line),
        "blocks" => Column::Number(Number::Blocks),
        "p1" => Column::Number(Number::P1),
        "p2" => Column::Number(Number::P2),
        "p3" => Column::Number(Number::P3),
        "cursor" => Column::Number(Number::Cursor),
        "source" => Column::Number(Number::Source),
        _ => return None,
    })
}

struct Reader {
    words: Peekable<IntoIter<Word>>,
    depth: usize,
}

impl Reader {
    fn any(&mut self) -> Option<Test> {
        self.joined("or", Self::all, Test::Any)
    }

    fn all(&mut self) -> Option<Test> {
        self.joined("and", Self::not, Test::All)
    }

    fn joined(
        &mut self,
        word: &str,
        part: fn(&mut Self) -> Option<Test>,
        join: fn(Vec<Test>) -> Test,
    ) -> Option<Test> {
        let mut parts = vec![part(self)?];
        while self.takes(word) {
            parts.push(part(self)?);
        }
        if parts.len() == 1 { parts.pop() } else { Some(join(parts)) }
    }

    fn not(&mut self) -> Option<Test> {
        self.depth += 1;
        let test = match self.depth < DEPTH_MAX {
            true if self.takes("not") => Test::Not(Box::new(self.not()?)),
            true => self.one()?,
            false => return None,
        };
        self.depth -= 1;
        Some(test)
    }

    /// One comparison, or a condition in brackets, behind which nothing binds more tightly.
    fn one(&mut self) -> Option<Test> {
        if self.takes_sign("(") {
            let test = self.any()?;
            return self.takes_sign(")").then_some(test);
        }
        let Word::Name(name) = self.words.next()? else { return None };
        match name.as_str() {
            "true" => return Some(Test::Is(true)),
            "false" => return Some(Test::Is(false)),
            _ => {}
        }
        let column = column(&name)?;
        if self.takes("is") {
            let negated = self.takes("not");
            let test = self.takes("null").then(|| missing(column))?;
            return Some(unless(negated, test));
        }
        let negated = self.takes("not");
        let test = if self.takes("in") {
            let constants = self.list()?;
            // Of constants of several kinds, a database makes one kind.
            let kinds = constants.iter().map(discriminant);
            kinds
                .zip(constants.iter().skip(1).map(discriminant))
                .all(|(a, b)| a == b)
                .then_some(())?;
            let any = constants.into_iter().map(|one| compared(&column, "=", one));
            Test::Any(any.collect::<Option<_>>()?)
        } else if self.takes("like") {
            self.like(&column)?
        } else if self.takes("between") {
            let low = self.constant()?;
            let high = self.takes("and").then(|| self.constant())??;
            Test::All(vec![compared(&column, ">=", low)?, compared(&column, "<=", high)?])
        } else if negated {
            return None;
        } else if self.takes_sign("~~") {
            self.like(&column)?
        } else if self.takes_sign("!~~") {
            unless(true, self.like(&column)?)
        } else if let Some(Word::Sign(
            sign @ ("=" | "==" | "<>" | "!=" | "<" | "<=" | ">" | ">="),
        )) = self.words.peek().cloned()
        {
            self.words.next();
            let constant = self.constant()?;
            compared(&column, sign, constant)?
        } else {
            let Column::Flag(flag) = column else { return None };
            Test::Flag(flag)
        };
        Some(unless(negated, test))
    }

    fn like(&mut self, column: &Column) -> Option<Test> {
        let (Column::Text(text), Constant::Text(pattern)) = (column, self.constant()?) else {
            return None;
        };
        Some(Test::Text(*text, TextTest::Like(pattern.chars().collect()), Seen::new()))
    }

    fn list(&mut self) -> Option<Vec<Constant>> {
        let mut found = Vec::new();
        self.takes_sign("(").then_some(())?;
        loop {
            found.push(self.constant()?);
            if self.takes_sign(")") {
                return Some(found);
            }
            self.takes_sign(",").then_some(())?;
        }
    }

    fn constant(&mut self) -> Option<Constant> {
        match self.words.next()? {
            Word::Number(number) => Some(Constant::Number(number)),
            Word::Quoted(text) => Some(Constant::Text(text)),
            Word::Name(name) if name == "true" => Some(Constant::Flag(true)),
            Word::Name(name) if name == "false" => Some(Constant::Flag(false)),
            _ => None,
        }
    }

    fn takes(&mut self, word: &str) -> bool {
        self.words.next_if(|next| matches!(next, Word::Name(name) if name == word)).is_some()
    }

    fn takes_sign(&mut self, sign: &str) -> bool {
        self.words.next_if(|next| matches!(next, Word::Sign(found) if *found == sign)).is_some()
    }
}

fn unless(negated: bool, test: Test) -> Test {
    if negated { Test::Not(Box::new(test)) } else { test }
}

fn missing(column: Column) -> Test {
    match column {
        Column::Flag(_) => Test::Is(false),
        Column::Number(number) => Test::NoNumber(number),
        Column::Text(text) => Test::NoText(text),
    }
}

fn compared(column: &Column, sign: &str, constant: Constant) -> Option<Test> {
    let negated = matches!(sign, "<>" | "!=");
    let equal = negated || matches!(sign, "=" | "==");
    let test = match (column, constant) {
        (Column::Flag(flag), Constant::Flag(is)) if equal => unless(!is, Test::Flag(*flag)),
        (Column::Number(Number::File), constant) if equal => file(constant)?,
        (Column::Number(Number::File), _) => return None,
        (Column::Number(number), Constant::Number(value)) => {
            Test::Number(*number, vec![range(if negated { "=" } else { sign }, value)])
        }
        (Column::Text(text), Constant::Text(value)) => {
            let test = match sign {
                "<" => TextTest::Between(None, Some((value, false))),
                "<=" => TextTest::Between(None, Some((value, true))),
                ">" => TextTest::Between(Some((value, false)), None),
                ">=" => TextTest::Between(Some((value, true)), None),
                _ => TextTest::AnyOf(vec![value]),
            };
            Test::Text(*text, test, Seen::new())
        }
        _ => return None,
    };
    Some(unless(negated, test))
}

/// The whole numbers that compare so with a value.
fn range(sign: &str, value: f64) -> (i64, i64) {
    let (floor, ceil) = (value.floor() as i64, value.ceil() as i64);
    match sign {
        "<" => (i64::MIN, ceil - 1),
        "<=" => (i64::MIN, floor),
        ">" => (floor + 1, i64::MAX),
        ">=" => (ceil, i64::MAX),
        // None where the value is not whole.
        _ => (ceil, floor),
    }
}

/// Files are texts: only the one way to write a number is equal to it.
fn file(constant: Constant) -> Option<Test> {
    let number = match constant {
        Constant::Number(value) if value.fract() == 0.0 => Some(value as i64),
        Constant::Text(text) => text.parse().ok().filter(|number: &i64| number.to_string() == text),
        _ => return None,
    };
    Some(Test::Number(Number::File, number.map(|number| (number, number)).into_iter().collect()))
}
