//! The words of a condition in SQL: names, numbers, quoted texts and signs.

use super::arithmetic::Value;
use super::condition_words::column;

/// Whole numbers below are exact as doubles.
const EXACT_MAX: f64 = 9e15;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Word {
    Name(String),
    Number(Value),
    Quoted(String),
    Sign(&'static str),
}

/// The words of a condition; None for what is none.
pub(super) fn words(text: &str) -> Option<Vec<Word>> {
    const SIGNS: [&str; 21] = [
        "!~~*", "!~~", "~~*", "~~", "<=", ">=", "<>", "!=", "==", "//", "=", "<", ">", "(", ")",
        ",", "+", "-", "*", "/", "%",
    ];
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        if rest.starts_with("--") || rest.starts_with("/*") {
            return None;
        } else if let Some(quoted) = rest.strip_prefix('\'') {
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
    const WORDS: [&str; 4] = ["and", "between", "not", "or"];
    let behind = match before {
        None => true,
        Some(Word::Sign(sign)) => *sign != ")",
        Some(Word::Name(name)) => WORDS.contains(&name.as_str()),
        Some(_) => false,
    };
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
fn number(text: &str) -> Option<(Value, &str)> {
    // Between digits there may be a `_`.
    let digits = |at: usize| {
        let bytes = &text.as_bytes()[at..];
        let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
        let is_between =
            |at: usize| bytes[at] == b'_' && at > 0 && is_digit(at - 1) && is_digit(at + 1);
        (0..bytes.len()).take_while(|&at| is_digit(at) || is_between(at)).count()
    };
    let mut end = usize::from(text.starts_with('-'));
    end += digits(end);
    let before = end;
    if text[end..].starts_with('.') {
        end += 1 + digits(end + 1);
    }
    let figures = end;
    if text[end..].starts_with(['e', 'E']) {
        let sign = usize::from(text[end + 1..].starts_with(['-', '+']));
        let exponent = digits(end + 1 + sign);
        if exponent == 0 {
            return None;
        }
        end += 1 + sign + exponent;
    }
    // More figures than these a double would round.
    if figures > 16
        || text[end..].starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '.')
    {
        return None;
    }
    let value: f64 = text[..end].replace('_', "").parse().ok()?;
    let typed = match end {
        _ if end > figures => Value::Double(value),
        _ if end > before => Value::Decimal(value),
        _ => Value::Whole(value as i128),
    };
    (value.abs() < EXACT_MAX).then_some((typed, &text[end..]))
}
