//! Undoes what mails and forums do to a short trace: marks before its lines, lines broken at a width.

use super::grammar;
use super::line::{Line, Role};

/// Lines that one may be broken into, but for the first.
const MORE_MAX: usize = 4;
const BROKEN_MIN: usize = 3;
const STARTS: [&str; 7] = ["WAIT", "FETCH", "EXEC", "PARSE", "PARSING IN", "CLOSE", "STAT"];

/// The same trace with whole lines; empty ones behind those that were broken keep the numbers.
pub(super) fn plain(bytes: &[u8]) -> Vec<u8> {
    let mut lines: Vec<_> = bytes.split(|&byte| byte == b'\n').collect();
    let mark = mark(&lines);
    for line in &mut lines {
        *line = line.strip_prefix(mark).unwrap_or(line);
    }
    let mut plain = Vec::with_capacity(bytes.len());
    let (mut at, mut whole, mut broken) = (0, 0, 0);
    while at < lines.len() {
        let more = &lines[at + 1..lines.len().min(at + 1 + MORE_MAX)];
        let (line, used) = joined(lines[at], more).unwrap_or((lines[at].to_vec(), 0));
        broken += usize::from(used > 0);
        whole += usize::from(used == 0 && starts(&line));
        plain.extend(line);
        plain.extend(std::iter::repeat_n(b'\n', used + 1));
        at += used + 1;
    }
    plain.pop();
    // A width breaks the lines of waits, which are most; a single one is damaged.
    if broken >= BROKEN_MIN && broken >= whole { plain } else { lines.join(&b'\n') }
}

/// What stands before the first line of a known kind: blanks, or signs of a quotation.
fn mark<'a>(lines: &[&'a [u8]]) -> &'a [u8] {
    let marked = lines.iter().find_map(|line| {
        let width = line.iter().take_while(|byte| b" \t>".contains(byte)).count();
        starts(&line[width..]).then(|| &line[..width])
    });
    marked.unwrap_or_default()
}

fn starts(line: &[u8]) -> bool {
    STARTS.iter().any(|start| {
        let rest = line.strip_prefix(start.as_bytes()).map(<[u8]>::trim_ascii_start);
        rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'#' || rest.starts_with(b"CURSOR #"))
    })
}

/// The line with as many of those behind it as make it longer and are no lines themselves.
fn joined(line: &[u8], more: &[&[u8]]) -> Option<(Vec<u8>, usize)> {
    let mut best = None;
    let mut whole = line.trim_ascii_end().to_vec();
    // The text of a statement follows its line, whose last figures are in quotes.
    let is_complete = line.starts_with(b"PARSING") && grammar::parse(line, true).is_ok();
    let goes_on = |next: &&[u8]| memchr::memmem::find(next, b"d='").is_some();
    if !starts(line) || (is_complete && !more.first().is_some_and(goes_on)) {
        return None;
    }
    for (used, next) in more.iter().map(|next| next.trim_ascii()).enumerate() {
        if next.is_empty()
            || starts(next)
            || !matches!(grammar::parse(next, true), Ok((Line::Text, _)))
        {
            break;
        }
        let within_number = whole.last()?.is_ascii_digit() && next[0].is_ascii_digit();
        let has_words = line.starts_with(b"WAIT") || line.starts_with(b"STAT");
        let glues: [&[u8]; 2] = if has_words && !within_number { [b"", b" "] } else { [b" ", b""] };
        let ways = glues.map(|glue| [&whole[..], glue, next].concat());
        // Of equals the last.
        whole = ways.into_iter().max_by_key(|way| known(way)).unwrap_or_default();
        if known(&whole) > 0 {
            best = Some((whole.clone(), used + 1));
        }
    }
    best
}

/// How well a line is understood: whether at all, and how many parameters of a wait are known.
fn known(line: &[u8]) -> usize {
    match grammar::parse(line, true) {
        Ok((Line::Wait(wait), _)) => {
            1 + wait.roles.iter().filter(|&&role| role != Role::Other).count()
        }
        Ok((Line::Text, _)) | Err(_) => 0,
        Ok(_) => 1,
    }
}
