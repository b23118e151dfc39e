//! Restores short traces from mails and forums: removes marks before lines, rejoins wrapped lines.

use std::iter::repeat_n;

use super::grammar;
use super::line::{Line, Role};

/// Maximum number of lines that continue a broken line.
const MORE_MAX: usize = 4;
const BROKEN_MIN: usize = 3;
const STARTS: [&str; 7] = ["WAIT", "FETCH", "EXEC", "PARSE", "PARSING IN", "CLOSE", "STAT"];

/// Whether the beginning of a trace has marks or wrapped lines.
pub(super) fn is_pasted(bytes: &[u8]) -> bool {
    plain(bytes.to_vec()) != bytes
}

/// The trace with whole lines; empty lines beside rejoined lines preserve the line numbers.
pub(super) fn plain(bytes: Vec<u8>) -> Vec<u8> {
    let mut lines = lines_of(&bytes);
    let mark = mark(&lines);
    for line in &mut lines {
        *line = unmarked(line, mark).unwrap_or(line);
    }
    let starting: Vec<_> = (0..lines.len()).filter(|&at| starts(lines[at])).collect();
    // Wrapping breaks most wait lines, the majority of a trace; a single broken line is damage.
    let are_most = |broken: usize| broken >= BROKEN_MIN && 2 * broken >= starting.len();
    let is_followed = |&&at: &&usize| lines.get(at + 1).is_some_and(|next| may_continue(next));
    if are_most(starting.iter().filter(is_followed).count()) {
        let (whole, broken) = whole(&lines, bytes.len());
        if are_most(broken) {
            return whole;
        }
    }
    if mark.is_empty() { bytes } else { lines.join(&b'\n') }
}

fn lines_of(bytes: &[u8]) -> Vec<&[u8]> {
    let mut begin = 0;
    let line = |end| &bytes[std::mem::replace(&mut begin, end + 1)..end];
    memchr::memchr_iter(b'\n', bytes).chain([bytes.len()]).map(line).collect()
}

/// The lines with wrapped lines rejoined, and the number of lines that were wrapped.
fn whole(lines: &[&[u8]], bytes: usize) -> (Vec<u8>, usize) {
    let mut whole = Vec::with_capacity(bytes);
    let (mut at, mut broken) = (0, 0);
    while at < lines.len() {
        let more = &lines[at + 1..lines.len().min(at + 1 + MORE_MAX)];
        let (line, used) = joined(lines[at], more).unwrap_or((lines[at].to_vec(), 0));
        broken += usize::from(used > 0);
        // The text of a statement directly follows its line.
        let before = if line.starts_with(b"PARSING") { used } else { 0 };
        whole.extend(repeat_n(b'\n', before));
        whole.extend(line);
        whole.extend(repeat_n(b'\n', used - before + 1));
        at += used + 1;
    }
    whole.pop();
    (whole, broken)
}

/// The prefix of the first line of a known kind: blanks, quotation marks (`>`), its number or a
/// time, if the next such line has one, too.
fn mark<'a>(lines: &[&'a [u8]]) -> &'a [u8] {
    let mut marks = lines.iter().filter_map(|line| Some(marked(line)?.0));
    let mark = marks.next().unwrap_or_default();
    let is_common = !is_numbered(mark) || marks.next().is_some_and(is_numbered);
    if is_common { mark } else { &[] }
}

/// A line of a known kind, split behind its mark.
fn marked(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let width = line.iter().take_while(|byte| b" \t>0123456789:.,-+TZ[]".contains(byte)).count();
    starts(&line[width..]).then(|| line.split_at(width))
}

fn is_numbered(mark: &[u8]) -> bool {
    mark.iter().any(u8::is_ascii_digit)
}

/// The line without its mark, in which numbers differ. Numbers of lines may be right-aligned, and
/// times may lack decimals.
fn unmarked<'a>(line: &'a [u8], mut mark: &[u8]) -> Option<&'a [u8]> {
    if !is_numbered(mark) {
        return line.strip_prefix(mark);
    }
    if let Some((_, rest)) = marked(line) {
        return Some(rest);
    }
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut rest = line.trim_ascii_start();
    mark = mark.trim_ascii_start();
    while let [byte, after @ ..] = mark {
        if byte.is_ascii_digit() {
            let width = digits(rest);
            (rest, mark) = ((width > 0).then(|| &rest[width..])?, &mark[digits(mark)..]);
        } else {
            (rest, mark) = (rest.strip_prefix(&[*byte])?, after);
        }
    }
    Some(rest)
}

fn starts(line: &[u8]) -> bool {
    STARTS.iter().any(|start| {
        let rest = line.strip_prefix(start.as_bytes()).map(<[u8]>::trim_ascii_start);
        rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'#' || rest.starts_with(b"CURSOR #"))
    })
}

/// Whether a line may continue the line above it.
fn may_continue(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    !line.is_empty() && !starts(line) && matches!(grammar::parse(line, true), Ok((Line::Text, _)))
}

/// The line joined with following lines that extend it and are not trace lines themselves.
fn joined(line: &[u8], more: &[&[u8]]) -> Option<(Vec<u8>, usize)> {
    let mut best = None;
    let mut whole = line.trim_ascii_end().to_vec();
    if !starts(line) {
        return None;
    }
    for (used, next) in more.iter().map(|next| next.trim_ascii()).enumerate() {
        // The text of a statement follows its line, and may look like more figures.
        let is_text = line.starts_with(b"PARSING") && known(&whole) > 0;
        if !may_continue(next) || (is_text && !next.starts_with(b"sqlid='")) {
            break;
        }
        let within_number = whole.last()?.is_ascii_digit() && next[0].is_ascii_digit();
        let has_words = line.starts_with(b"WAIT") || line.starts_with(b"STAT");
        let glues: [&[u8]; 2] = if has_words && !within_number { [b"", b" "] } else { [b" ", b""] };
        let ways = glues.map(|glue| [&whole[..], glue, next].concat());
        // The last of equals wins.
        whole = ways.into_iter().max_by_key(|way| known(way)).unwrap_or_default();
        if known(&whole) > 0 {
            best = Some((whole.clone(), used + 1));
        }
    }
    best
}

/// Score of a parse: 0 if the line is not understood; known parameters of a wait add to it.
fn known(line: &[u8]) -> usize {
    match grammar::parse(line, true) {
        Ok((Line::Wait(wait), _)) => {
            1 + wait.roles.iter().filter(|&&role| role != Role::Other).count()
        }
        Ok((Line::Text, _)) | Err(_) => 0,
        Ok(_) => 1,
    }
}
