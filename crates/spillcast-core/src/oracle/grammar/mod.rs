//! The grammar of one line of an extended SQL trace: bytes in, a record out, without state.

use super::digits::Text;
use super::line::{CallKind, CallLine, Fault, Line, Mark, ParsingLine, StatLine};

mod marks;
mod wait;

use marks::{is_header, release, stars};
pub(crate) use wait::waits_within;
use wait::{Tail, wait};

/// Parses one line, without its line end; also returns the event name of a wait. Without `figures`,
/// only event, time and duration of waits are read: other figures are checked, and 0.
///
/// # Errors
/// Fails for a line that begins like a trace line but does not continue like one.
#[inline(always)]
pub fn parse(line: &[u8], figures: bool) -> Result<(Line, &[u8]), Fault> {
    use CallKind::*;
    let mut text = Text::new(line);
    let begins = |start: &[u8]| line.starts_with(start);
    let parsed = match line.first() {
        Some(b'W') if text.eat(b"WAIT #") => return wait(&mut text, Tail::Refused, figures),
        Some(b'F') if text.eat(b"FETCH #") => call(Fetch, &mut text),
        Some(b'E') if text.eat(b"EXEC #") => call(Exec, &mut text),
        Some(b'E') if line == b"END OF STMT" => Ok(Line::EndOfStatement),
        Some(b'E') if text.eat(b"ERROR #") => error(&mut text),
        Some(b'P') if text.eat(b"PARSE #") => call(Parse, &mut text),
        Some(b'P') if text.eat(b"PARSING IN CURSOR #") => parsing(&mut text),
        Some(b'P') if text.eat(b"PARSE ERROR #") => parse_error(&mut text),
        Some(b'C') if text.eat(b"CLOSE #") => call(Close, &mut text),
        Some(b'U') if text.eat(b"UNMAP #") => call(Unmap, &mut text),
        Some(b'S') if text.eat(b"SORT UNMAP #") => call(SortUnmap, &mut text),
        Some(b'S') if text.eat(b"STAT #") => stat(&mut text),
        Some(b'B') if text.eat(b"BINDS #") => binds(&mut text),
        Some(b'X') if text.eat(b"XCTEND ") => xctend(&mut text),
        Some(b'L') if begins(b"LOB") => lob(&mut text),
        Some(b'R') if text.eat(b"RPC EXEC:") => call_figures(Rpc, 0, &mut text),
        Some(b'=') if line == b"=====================" => Ok(Line::Other { tim: 0 }),
        Some(b'*') if text.eat(b"*** ") => Ok(Line::Mark(stars(&mut text))),
        Some(b'T' | b'D') if is_header(line) => Ok(Line::Mark(Mark::Header)),
        Some(b'O') if begins(b"Oracle") => Ok(release(line).map_or(Line::Text, Line::Mark)),
        Some(b'U') if text.eat(b"Unix process pid: ") => {
            Ok(text.int().map_or(Line::Text, |pid| Line::Mark(Mark::Process { pid })))
        }
        _ => Ok(Line::Text),
    };
    parsed.map(|line| (line, &b""[..]))
}

fn call(kind: CallKind, text: &mut Text) -> Result<Line, Fault> {
    let cursor = text.int().ok_or("call without a cursor number")?;
    if !text.eat(b":") {
        return Err("call without figures behind its cursor number");
    }
    call_figures(kind, cursor, text)
}

/// Comma-separated `name=number` pairs; unknown names are ignored.
#[inline(never)]
fn call_figures(kind: CallKind, cursor: i64, text: &mut Text) -> Result<Line, Fault> {
    const C: u8 = 1;
    const E: u8 = 2;
    const TIM: u8 = 4;
    let mut call = CallLine { kind, cursor, ..CallLine::default() };
    let mut seen = 0;
    loop {
        let name = text.until(b'=').ok_or("call with a figure that has no name")?;
        let value = match text.int() {
            Some(value) => value,
            None if kind == CallKind::Lob => {
                let Some(_) = text.until(b',') else { break };
                continue;
            }
            None => return Err("call with a figure that is not a number"),
        };
        match name {
            b"c" => (call.c, seen) = (value, seen | C),
            b"e" => (call.e, seen) = (value, seen | E),
            b"p" => call.p = value,
            b"cr" => call.cr = value,
            b"cu" => call.cu = value,
            b"mis" => call.mis = value,
            b"r" => call.r = value,
            b"dep" => call.dep = u32::try_from(value).map_err(|_| "call whose dep= is no depth")?,
            b"plh" => call.plh = value,
            b"tim" => (call.tim, seen) = (value, seen | TIM),
            _ => {}
        }
        if !text.eat(b",") {
            break;
        }
    }
    text.ended("call with text after its last figure")?;
    let needed = if kind == CallKind::Rpc { C | E } else { C | E | TIM };
    if seen & needed == needed { Ok(Line::Call(call)) } else { Err("call without c=, e= or tim=") }
}

/// `LOBREAD: type=TEMPORARY LOB,bytes=1,c=0,e=42,...`, `LOBTMPCREATE:c=0,...` and similar.
fn lob(text: &mut Text) -> Result<Line, Fault> {
    let name = text.rest().iter().take_while(|byte| byte.is_ascii_uppercase()).count();
    let mut figures = Text::new(&text.rest()[name..]);
    if name == 3 || !figures.eat(b":") {
        return Ok(Line::Text);
    }
    figures.skip_spaces();
    call_figures(CallKind::Lob, 0, &mut figures)
}

fn parsing(text: &mut Text) -> Result<Line, Fault> {
    let cursor = text.int().ok_or("PARSING IN CURSOR without a cursor number")?;
    let mut line = ParsingLine { cursor, len: -1, ..ParsingLine::default() };
    text.skip_spaces();
    while !text.is_end() {
        let name = text.until(b'=').ok_or("PARSING IN CURSOR with a figure that has no name")?;
        if text.eat(b"'") {
            let value = text.until(b'\'').ok_or("PARSING IN CURSOR with an open quote")?;
            let value = String::from_utf8_lossy(value).into_owned();
            match name {
                b"ad" => line.ad = value,
                b"sqlid" => line.sqlid = value,
                _ => {}
            }
        } else {
            let value = text.int().ok_or("PARSING IN CURSOR with a figure that is not a number")?;
            match name {
                b"len" => line.len = value,
                b"dep" => line.dep = value,
                b"uid" => line.uid = value,
                b"oct" => line.oct = value,
                b"lid" => line.lid = value,
                b"tim" => line.tim = value,
                b"hv" => line.hv = value,
                _ => {}
            }
        }
        text.skip_spaces();
    }
    if line.len < 0 || line.ad.is_empty() {
        return Err("PARSING IN CURSOR without len= or ad=");
    }
    Ok(Line::Parsing(Box::new(line)))
}

fn parse_error(text: &mut Text) -> Result<Line, Fault> {
    let cursor = text.int().ok_or("PARSE ERROR without a cursor number")?;
    let (mut len, mut tim, mut err) = (None, 0, None);
    text.eat(b":");
    while !text.is_end() {
        let name = text.until(b'=').ok_or("PARSE ERROR with a figure that has no name")?;
        let value = text.int().ok_or("PARSE ERROR with a figure that is not a number")?;
        match name {
            b"len" => len = Some(value),
            b"tim" => tim = value,
            b"err" => err = Some(value),
            _ => {}
        }
        text.skip_spaces();
    }
    match (len, err) {
        (Some(len), Some(_)) => Ok(Line::ParseError { cursor, len, tim }),
        _ => Err("PARSE ERROR without len= or err="),
    }
}

/// `ERROR #cursor:err=N tim=N`
fn error(text: &mut Text) -> Result<Line, Fault> {
    const FAULT: Fault = "ERROR that is not #cursor:err=number tim=number";
    let err = text.int().filter(|_| text.eat(b":err=")).and_then(|_| text.int()).ok_or(FAULT)?;
    let tim = if text.eat(b" tim=") { text.int().ok_or(FAULT)? } else { 0 };
    text.ended(FAULT)?;
    Ok(Line::Error { err, tim })
}

/// `XCTEND rlbk=0, rd_only=1[, tim=N]`
fn xctend(text: &mut Text) -> Result<Line, Fault> {
    const FAULT: Fault = "XCTEND that is not rlbk=number, rd_only=number";
    let mut number = |name: &[u8]| text.eat(name).then(|| text.int()).flatten();
    number(b"rlbk=").and_then(|_| number(b", rd_only=")).ok_or(FAULT)?;
    let tim = if text.eat(b", tim=") { text.int().ok_or(FAULT)? } else { 0 };
    text.ended(FAULT)?;
    Ok(Line::Other { tim })
}

/// `STAT #cursor id=N cnt=N pid=N pos=N obj=N op='...'`
fn stat(text: &mut Text) -> Result<Line, Fault> {
    let mut line = StatLine {
        cursor: text.int().ok_or("STAT without a cursor number")?,
        ..StatLine::default()
    };
    let whole = text.rest().trim_ascii_end();
    let at = memchr::memmem::find(whole, b" op='").filter(|at| at + 5 < whole.len());
    let at = at.ok_or("STAT without op=")?;
    let op = whole[at + 5..].strip_suffix(b"'").ok_or("STAT with an open quote")?;
    for (name, value) in figures(&whole[..at]) {
        match name {
            b"id" => line.id = value,
            b"cnt" => line.cnt = value,
            b"pid" => line.pid = value,
            b"pos" => line.pos = value,
            b"obj" => line.obj = value,
            _ => {}
        }
    }
    let (op, figures_of) = match memchr::memmem::rfind(op, b"(cr=") {
        Some(open) => op.split_at(open),
        None => (op, &b""[..]),
    };
    for (name, value) in figures(figures_of.strip_prefix(b"(").unwrap_or_default()) {
        match name {
            b"cr" => line.cr = Some(value),
            // 9.2 uses one letter.
            b"pr" | b"r" => line.pr = Some(value),
            b"pw" | b"w" => line.pw = Some(value),
            b"str" => line.starts = Some(value),
            b"time" => line.time_us = Some(value),
            _ => {}
        }
    }
    line.op = String::from_utf8_lossy(op.trim_ascii()).into_owned();
    Ok(Line::Stat(Box::new(line)))
}

/// Space-separated `name=number` pairs; anything else is skipped.
fn figures(bytes: &[u8]) -> impl Iterator<Item = (&[u8], i64)> {
    bytes.split(|&byte| byte == b' ').filter_map(|word| {
        let mut text = Text::new(word);
        let name = text.until(b'=')?;
        Some((name, text.int()?))
    })
}

fn binds(text: &mut Text) -> Result<Line, Fault> {
    let cursor = text.int().filter(|_| text.eat(b":")).ok_or("BINDS without a cursor number")?;
    text.ended("BINDS with text after its cursor number")?;
    Ok(Line::Binds { cursor })
}
