//! Text -> conditions, as far as they compare what is made of one column with constants. All else in SQL is for a
//! database to say: what is not surely understood is refused.

use std::mem::discriminant;

use super::arithmetic::{Operator, Sign, Step, Value};
use super::condition::{Case, Column, Condition, Flag, Number, Seen, Test, Text, TextTest};
use super::condition_lexer::{Word, words};

/// Deeper conditions are not read.
const DEPTH_MAX: usize = 64;

#[derive(Clone, Debug)]
enum Constant {
    Number(Value),
    Text(String),
    Flag(bool),
}

/// What is compared.
#[derive(Clone, Debug)]
enum Operand {
    Constant(Constant),
    Flag(Flag),
    Number(Number, Vec<Step>),
    Text(Text, Option<Case>),
}

impl Condition {
    /// The condition that `text` says in SQL; None where it says more than can be tested here, or is
    /// no SQL.
    pub fn of_text(text: &str) -> Option<Condition> {
        let mut reader = Reader { words: words(text)?, at: 0, depth: 0 };
        let test = reader.any()?;
        (reader.at == reader.words.len()).then_some(Condition(test))
    }
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
    words: Vec<Word>,
    /// The next word.
    at: usize,
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
        self.deeper(|reader| match reader.takes("not") {
            true => Some(Test::Not(Box::new(reader.not()?))),
            false => reader.one(),
        })
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        self.depth += 1;
        let found = if self.depth < DEPTH_MAX { read(self) } else { None };
        self.depth -= 1;
        found
    }

    /// One comparison, or a condition in brackets, behind which nothing binds more tightly.
    fn one(&mut self) -> Option<Test> {
        let at = self.at;
        if let Some(test) = self.comparison() {
            return Some(test);
        }
        self.at = at;
        self.takes_sign("(").then_some(())?;
        let test = self.any()?;
        self.takes_sign(")").then_some(test)
    }

    fn comparison(&mut self) -> Option<Test> {
        if let Some(test) = self.function_test() {
            return Some(test);
        }
        let operand = self.sum()?;
        if self.takes("is") {
            let negated = self.takes("not");
            let test = self.takes("null").then(|| missing(&operand))??;
            return Some(unless(negated, test));
        }
        let negated = self.takes("not");
        let test = if self.takes("in") {
            self.one_of(&operand)?
        } else if self.takes("like") {
            self.like(&operand, None)?
        } else if self.takes("ilike") {
            self.like(&operand, Some(Case::Lower))?
        } else if self.takes("between") {
            let low = self.constant()?;
            let high = self.takes("and").then(|| self.constant())??;
            let above = compared(&operand, Sign::AtLeast, low)?;
            Test::All(vec![above, compared(&operand, Sign::AtMost, high)?])
        } else if negated {
            return None;
        } else {
            self.signed(operand)?
        };
        Some(unless(negated, test))
    }

    /// What follows an operand where no word does.
    fn signed(&mut self, operand: Operand) -> Option<Test> {
        for (sign, negated, case) in [
            ("~~", false, None),
            ("!~~", true, None),
            ("~~*", false, Some(Case::Lower)),
            ("!~~*", true, Some(Case::Lower)),
        ] {
            if self.takes_sign(sign) {
                return Some(unless(negated, self.like(&operand, case)?));
            }
        }
        if let Some(Word::Sign(text)) = self.words.get(self.at)
            && let Some((sign, negated)) = Sign::of_text(text)
        {
            self.at += 1;
            let test = match (operand, self.sum()?) {
                (Operand::Constant(_), Operand::Constant(_)) => return None,
                (Operand::Constant(constant), right) => compared(&right, sign.turned(), constant)?,
                (left, Operand::Constant(constant)) => compared(&left, sign, constant)?,
                _ => return None,
            };
            return Some(unless(negated, test));
        }
        match operand {
            Operand::Flag(flag) => Some(Test::Flag(flag)),
            Operand::Constant(Constant::Flag(known)) => Some(Test::Is(known)),
            _ => None,
        }
    }

    fn one_of(&mut self, operand: &Operand) -> Option<Test> {
        let mut constants = Vec::new();
        self.takes_sign("(").then_some(())?;
        while {
            constants.push(self.constant()?);
            self.takes_sign(",")
        } {}
        self.takes_sign(")").then_some(())?;
        // Of constants of several kinds, a database makes one kind.
        let kind = discriminant(&constants[0]);
        constants.iter().all(|one| discriminant(one) == kind).then_some(())?;
        let any = constants.into_iter().map(|one| compared(operand, Sign::Equal, one));
        Some(Test::Any(any.collect::<Option<_>>()?))
    }

    fn like(&mut self, operand: &Operand, case: Option<Case>) -> Option<Test> {
        let Constant::Text(pattern) = self.constant()? else { return None };
        let pattern = case.map_or(pattern.clone(), |case| case.of(&pattern));
        let test = cased(case, TextTest::Like(pattern.chars().collect()));
        text_test(operand, test)
    }

    /// `starts_with(event, 'direct')` and its like.
    fn function_test(&mut self) -> Option<Test> {
        let test: fn(String) -> TextTest = match self.function()? {
            "starts_with" | "prefix" => TextTest::Begins,
            "ends_with" | "suffix" => TextTest::Ends,
            "contains" => TextTest::Holds,
            _ => return None,
        };
        self.at += 2;
        let operand = self.sum()?;
        self.takes_sign(",").then_some(())?;
        let Constant::Text(text) = self.constant()? else { return None };
        self.takes_sign(")").then(|| text_test(&operand, test(text)))?
    }

    /// The name of the function that is called next.
    fn function(&self) -> Option<&str> {
        match &self.words[self.at..] {
            [Word::Name(name), Word::Sign("("), ..] => Some(name),
            _ => None,
        }
    }

    fn constant(&mut self) -> Option<Constant> {
        match self.sum()? {
            Operand::Constant(constant) => Some(constant),
            _ => None,
        }
    }

    fn sum(&mut self) -> Option<Operand> {
        self.made(&["+", "-"], |reader| {
            reader.made(&["*", "/", "//", "%"], |reader| reader.deeper(Self::atom))
        })
    }

    fn made(
        &mut self,
        signs: &[&str],
        part: impl Fn(&mut Self) -> Option<Operand>,
    ) -> Option<Operand> {
        let mut made = part(self)?;
        while let Some(sign) = signs.iter().copied().find(|sign| self.takes_sign(sign)) {
            made = made.with(Operator::of_sign(sign)?, part(self)?)?;
        }
        Some(made)
    }

    fn atom(&mut self) -> Option<Operand> {
        if self.takes_sign("(") {
            let operand = self.sum()?;
            return self.takes_sign(")").then_some(operand);
        }
        let case = match self.function() {
            Some("lower") => Some(Case::Lower),
            Some("upper") => Some(Case::Upper),
            Some(_) => return None,
            None => None,
        };
        if case.is_some() {
            self.at += 2;
            let Operand::Text(text, None) = self.sum()? else { return None };
            return self.takes_sign(")").then_some(Operand::Text(text, case));
        }
        self.at += 1;
        Some(match self.words.get(self.at - 1)? {
            Word::Number(number) => Operand::Constant(Constant::Number(*number)),
            Word::Quoted(text) => Operand::Constant(Constant::Text(text.clone())),
            Word::Name(name) if name == "true" => Operand::Constant(Constant::Flag(true)),
            Word::Name(name) if name == "false" => Operand::Constant(Constant::Flag(false)),
            Word::Name(name) => match column(name)? {
                Column::Flag(flag) => Operand::Flag(flag),
                Column::Number(number) => Operand::Number(number, Vec::new()),
                Column::Text(text) => Operand::Text(text, None),
            },
            Word::Sign(_) => return None,
        })
    }

    fn takes(&mut self, word: &str) -> bool {
        let is_next = matches!(self.words.get(self.at), Some(Word::Name(name)) if name == word);
        self.at += usize::from(is_next);
        is_next
    }

    fn takes_sign(&mut self, sign: &str) -> bool {
        let is_next = matches!(self.words.get(self.at), Some(Word::Sign(next)) if *next == sign);
        self.at += usize::from(is_next);
        is_next
    }
}

impl Operand {
    fn with(self, operator: Operator, by: Operand) -> Option<Operand> {
        use Operand::Constant as Of;
        let fits = |value| matches!(value, Value::Whole(value) if i32::try_from(value).is_ok());
        match (self, by) {
            (Of(Constant::Number(value)), Of(Constant::Number(by))) => {
                let made = value.with(operator, by)?;
                // What does not fit into 32 bits is an error where both did.
                let told = !fits(value) || !fits(by) || fits(made) || operator == Operator::Over;
                told.then_some(Of(Constant::Number(made)))
            }
            (Operand::Number(column, mut steps), Of(Constant::Number(by)))
                if column != Number::File =>
            {
                // Whether it can be done depends on types alone.
                let typed = steps
                    .iter()
                    .try_fold(Value::Whole(1), |value, step| value.with(step.operator, step.by));
                typed?.with(operator, by)?;
                steps.push(Step { operator, by });
                Some(Operand::Number(column, steps))
            }
            (constant @ Of(_), column @ Operand::Number(..)) if operator.commutes() => {
                column.with(operator, constant)
            }
            _ => None,
        }
    }
}

fn unless(negated: bool, test: Test) -> Test {
    if negated { Test::Not(Box::new(test)) } else { test }
}

fn missing(operand: &Operand) -> Option<Test> {
    Some(match operand {
        Operand::Constant(_) => return None,
        Operand::Flag(_) => Test::Is(false),
        Operand::Number(number, _) => Test::NoNumber(*number),
        Operand::Text(text, _) => Test::NoText(*text),
    })
}

fn cased(case: Option<Case>, test: TextTest) -> TextTest {
    match case {
        Some(case) => TextTest::Cased(case, Box::new(test)),
        None => test,
    }
}

fn text_test(operand: &Operand, test: TextTest) -> Option<Test> {
    let Operand::Text(text, case) = operand else { return None };
    Some(Test::Text(*text, cased(*case, test), Seen::new()))
}

fn compared(operand: &Operand, sign: Sign, constant: Constant) -> Option<Test> {
    let equal = sign == Sign::Equal;
    match (operand, constant) {
        (Operand::Flag(flag), Constant::Flag(is)) if equal => Some(unless(!is, Test::Flag(*flag))),
        (Operand::Number(Number::File, _), constant) if equal => file(constant),
        (Operand::Number(Number::File, _), _) => None,
        (Operand::Number(number, steps), Constant::Number(value)) if steps.is_empty() => {
            let (low, high) = sign.whole_range(value.as_double());
            let limits = (i64::MIN.into(), i64::MAX.into());
            let within = |value: i128| value.clamp(limits.0, limits.1) as i64;
            Some(Test::Number(*number, (within(low), within(high))))
        }
        (Operand::Number(number, steps), Constant::Number(value)) => {
            Some(Test::Made(*number, steps.clone(), sign, value.as_double()))
        }
        (operand, Constant::Text(value)) => {
            let test = match sign {
                Sign::Equal => TextTest::Equal(value),
                Sign::Below => TextTest::Between(None, Some((value, false))),
                Sign::AtMost => TextTest::Between(None, Some((value, true))),
                Sign::Above => TextTest::Between(Some((value, false)), None),
                Sign::AtLeast => TextTest::Between(Some((value, true)), None),
            };
            text_test(operand, test)
        }
        _ => None,
    }
}

/// Files are texts: only the one way to write a number is equal to it.
fn file(constant: Constant) -> Option<Test> {
    let number = match constant {
        Constant::Number(Value::Whole(value)) => i64::try_from(value).ok(),
        Constant::Text(text) => text.parse().ok().filter(|number: &i64| number.to_string() == text),
        _ => return None,
    };
    Some(Test::Number(Number::File, number.map_or((1, 0), |number| (number, number))))
}
