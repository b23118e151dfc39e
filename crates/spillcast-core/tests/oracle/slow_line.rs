//! Lines for the slow reader: parses text by splitting and searching strings.

use std::collections::HashMap;

/// Maps bytes to the characters of the same numbers, so that any line is text.
pub fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

/// The UTF-8 name in characters of [`latin1`].
pub fn name_of(text: &str) -> String {
    let bytes: Vec<u8> = text.chars().map(|c| c as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The number at the start of `text`, and the rest.
pub fn number(text: &str) -> Option<(i64, &str)> {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let value: u64 = digits[..end].parse().ok()?;
    Some(((value as i64).wrapping_mul(sign), &digits[end..]))
}

pub type Pairs = Vec<(String, i64)>;

/// Comma-separated `name=number` pairs, followed only by spaces. LOB calls have words among the
/// numbers, which are ignored.
pub fn pairs(mut text: &str, other_values: bool) -> Option<Pairs> {
    let mut pairs = Vec::new();
    loop {
        let (name, rest) = text.split_once('=')?;
        let behind = match number(rest) {
            Some((value, behind)) => {
                pairs.push((name.to_string(), value));
                behind
            }
            None if other_values => rest.find(',').map_or(rest, |comma| &rest[comma..]),
            None => return None,
        };
        match behind.strip_prefix(',') {
            Some(behind) => text = behind,
            None => return behind.trim_start_matches(' ').is_empty().then_some(pairs),
        }
    }
}

pub fn get(pairs: &Pairs, name: &str) -> Option<i64> {
    pairs.iter().rev().find(|(n, _)| n == name).map(|(_, value)| *value)
}

pub struct ParsedWait {
    pub cursor: i64,
    pub event: String,
    pub ela: i64,
    pub params: Vec<(String, i64)>,
    pub object: Option<i64>,
    pub tim: i64,
}

pub fn wait(text: &str, tail_allowed: bool) -> Option<ParsedWait> {
    let (cursor, rest) = number(text)?;
    let rest = rest.strip_prefix(": nam=")?;
    let quote = rest.chars().next()?;
    let (event, rest) = match quote {
        '\'' | '"' => rest[1..].split_once(quote)?,
        _ if tail_allowed => typographic(rest)?,
        _ => return None,
    };
    let rest = rest.strip_prefix(" ela=")?;
    let (ela, mut rest) = number(rest.trim_start_matches(' '))?;
    let mut params = Vec::new();
    for _ in 0..3 {
        let (name, value) = rest.strip_prefix(' ')?.split_once('=')?;
        let (value, behind) = number(value)?;
        params.push((name.to_string(), value));
        rest = behind;
    }
    let mut object = None;
    if let Some(value) = rest.strip_prefix(" obj#=") {
        let (value, behind) = number(value)?;
        object = Some(value).filter(|v| (0..=i64::from(u32::MAX)).contains(v));
        rest = behind;
    }
    let mut tim = 0;
    if let Some(value) = rest.strip_prefix(" tim=") {
        (tim, rest) = number(value)?;
    }
    if !tail_allowed && !rest.trim_start_matches(' ').is_empty() {
        return None;
    }
    Some(ParsedWait { cursor, event: event.to_string(), ela, params, object, tim })
}

/// A name in typographic quotes of three bytes each.
pub fn typographic(text: &str) -> Option<(&str, &str)> {
    let quoted =
        text.strip_prefix("\u{e2}\u{80}")?.strip_prefix(|c| ('\u{98}'..='\u{9d}').contains(&c))?;
    let (name, rest) = quoted.split_once('\u{e2}')?;
    let mut rest = rest.chars();
    rest.next()?;
    rest.next()?;
    Some((name, rest.as_str()))
}

pub const CALLS: [&str; 6] = ["PARSE #", "EXEC #", "FETCH #", "UNMAP #", "SORT UNMAP #", "CLOSE #"];

/// Whether the line is a valid trace line; None if it begins like one but is invalid.
pub fn well_formed(text: &str) -> Option<bool> {
    let spaces_only = |rest: &str| rest.trim_start_matches(' ').is_empty();
    if let Some(rest) = text.strip_prefix("WAIT #") {
        return wait(rest, false).map(|_| true);
    }
    if CALLS.iter().any(|start| text.starts_with(start))
        || text.starts_with("RPC EXEC:")
        || lob(text).is_some()
    {
        return call(text).map(|_| true);
    }
    if text.starts_with("PARSING IN CURSOR #") {
        return parsing(text).map(|_| true);
    }
    if text.starts_with("PARSE ERROR #") {
        return parse_error(text).map(|_| true);
    }
    if let Some(rest) = text.strip_prefix("ERROR #") {
        let (_, rest) = number(rest)?;
        let (_, rest) = number(rest.strip_prefix(":err=")?)?;
        let rest = rest.strip_prefix(" tim=").map_or(Some(rest), |tim| number(tim).map(|n| n.1))?;
        return spaces_only(rest).then_some(true);
    }
    if let Some(rest) = text.strip_prefix("XCTEND ") {
        let (_, rest) = number(rest.strip_prefix("rlbk=")?)?;
        let (_, rest) = number(rest.strip_prefix(", rd_only=")?)?;
        let rest =
            rest.strip_prefix(", tim=").map_or(Some(rest), |tim| number(tim).map(|n| n.1))?;
        return spaces_only(rest).then_some(true);
    }
    if let Some(rest) = text.strip_prefix("STAT #") {
        let (_, rest) = number(rest)?;
        let rest = rest.trim_end_matches([' ', '\t', '\n', '\x0c', '\r']);
        let (_, op) = rest.split_once(" op='")?;
        return op.ends_with('\'').then_some(true);
    }
    if let Some(rest) = text.strip_prefix("BINDS #") {
        let (_, rest) = number(rest)?;
        return rest.strip_prefix(':').filter(|rest| spaces_only(rest)).map(|_| true);
    }
    Some(text == "=====================")
}

pub fn lob(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("LOB")?;
    let (name, figures) = rest.split_once(':')?;
    (!name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase())).then_some(figures)
}

/// Whether the line is a wait or a call.
pub fn is_timed(text: &str) -> bool {
    let starts = |start: &&str| text.starts_with(*start);
    CALLS.iter().chain(&["WAIT #", "RPC EXEC:"]).any(starts) || lob(text).is_some()
}

pub struct ParsedCall {
    pub kind: String,
    pub cursor: i64,
    pub c: i64,
    pub e: i64,
    pub dep: i64,
    pub tim: i64,
}

pub fn call(text: &str) -> Option<ParsedCall> {
    let (kind, cursor, pairs) = if let Some(figures) = text.strip_prefix("RPC EXEC:") {
        ("RPC".to_string(), 0, pairs(figures, false)?)
    } else if let Some(figures) = lob(text) {
        ("LOB".to_string(), 0, pairs(figures.trim_start_matches(' '), true)?)
    } else {
        let kind = CALLS.iter().find(|kind| text.starts_with(*kind))?;
        let (kind, rest) = (kind.trim_end_matches(" #"), &text[kind.len()..]);
        let (cursor, rest) = number(rest)?;
        (kind.to_string(), cursor, pairs(rest.strip_prefix(':')?, false)?)
    };
    let tim = match get(&pairs, "tim") {
        None if kind != "RPC" => return None,
        tim => tim.unwrap_or(0),
    };
    let dep = get(&pairs, "dep").unwrap_or(0);
    u32::try_from(dep).ok()?;
    Some(ParsedCall { kind, cursor, c: get(&pairs, "c")?, e: get(&pairs, "e")?, dep, tim })
}

/// Cursor, len, tim, and the name of the statement.
pub fn parsing(text: &str) -> Option<(i64, i64, i64, String)> {
    let (cursor, mut rest) = number(text.strip_prefix("PARSING IN CURSOR #")?)?;
    let (mut numbers, mut texts) = (Vec::new(), HashMap::new());
    rest = rest.trim_start_matches(' ');
    while !rest.is_empty() {
        let (name, value) = rest.split_once('=')?;
        rest = if let Some(quoted) = value.strip_prefix('\'') {
            let (value, behind) = quoted.split_once('\'')?;
            texts.insert(name.to_string(), name_of(value));
            behind
        } else {
            let (value, behind) = number(value)?;
            numbers.push((name.to_string(), value));
            behind
        };
        rest = rest.trim_start_matches(' ');
    }
    let len = get(&numbers, "len").filter(|&len| len >= 0)?;
    texts.get("ad").filter(|ad| !ad.is_empty())?;
    let hash = get(&numbers, "hv").unwrap_or(0).to_string();
    let name = texts.get("sqlid").filter(|id| !id.is_empty()).cloned().unwrap_or(hash);
    Some((cursor, len, get(&numbers, "tim").unwrap_or(0), name))
}

/// Cursor, len, tim.
pub fn parse_error(text: &str) -> Option<(i64, i64, i64)> {
    let (cursor, rest) = number(text.strip_prefix("PARSE ERROR #")?)?;
    let mut rest = rest.strip_prefix(':').unwrap_or(rest);
    let mut pairs = Vec::new();
    while !rest.is_empty() {
        let (name, value) = rest.split_once('=')?;
        let (value, behind) = number(value)?;
        pairs.push((name.to_string(), value));
        rest = behind.trim_start_matches(' ');
    }
    get(&pairs, "err")?;
    Some((cursor, get(&pairs, "len")?, get(&pairs, "tim").unwrap_or(0)))
}

pub fn is_header(text: &str) -> bool {
    let path = text.strip_prefix("Trace file ").or(text.strip_prefix("Dump file "));
    path.is_some() && text.trim_end_matches([' ', '\t', '\n', '\x0c', '\r']).ends_with(".trc")
}

/// Parses the rest of a line that starts with `*** `.
pub fn session_mark(stars: &str) -> Option<(i64, i64)> {
    let (sid, rest) = number(stars.strip_prefix("SESSION ID:(")?)?;
    Some((sid, number(rest.strip_prefix('.')?)?.0))
}

pub fn process_mark(stars: &str) -> Option<i64> {
    Some(number(stars.strip_prefix("[ Unix process pid: ")?)?.0)
}

pub fn release(text: &str) -> Option<Vec<u16>> {
    let (_, behind) = text.strip_prefix("Oracle")?.split_once(" Release ")?;
    let number = behind.split(' ').next()?;
    let parts: Option<Vec<u16>> = number.split('.').map(|part| part.parse().ok()).collect();
    parts.filter(|parts| parts.len() >= 4)
}

pub fn bind_value(text: &str) -> Option<&str> {
    let white = [' ', '\t', '\n', '\x0c', '\r'];
    text.strip_prefix(' ')?.trim_start_matches(white).strip_prefix("value=\"")
}

pub fn begins_anew(text: &str) -> bool {
    let stars = text.strip_prefix("*** ").unwrap_or("");
    let limit = stars.starts_with("DUMP FILE SIZE IS LIMITED TO ");
    is_header(text) || session_mark(stars).is_some() || process_mark(stars).is_some() || limit
}
