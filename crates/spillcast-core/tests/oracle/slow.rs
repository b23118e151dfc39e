//! The reader again, slow and obvious: one loop over all lines, everything kept, everything copied.

use std::collections::HashMap;

#[derive(Clone, Debug, PartialEq)]
pub struct SlowWait {
    pub line: u64,
    pub event: String,
    pub session: SlowSession,
    pub sql: Option<String>,
    pub start_us: i64,
    pub elapsed_us: i64,
    pub file: Option<i64>,
    pub blocks: Option<i64>,
    pub bytes: Option<i64>,
    pub object: Option<i64>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SlowCall {
    pub line: u64,
    pub kind: String,
    pub session: SlowSession,
    pub sql: Option<String>,
    pub self_c_us: i64,
    pub self_e_us: i64,
    pub tim_us: i64,
}

/// sid, serial, process.
pub type SlowSession = (Option<i64>, Option<i64>, Option<i64>);

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Slow {
    pub waits: Vec<SlowWait>,
    pub calls: Vec<SlowCall>,
    /// Line, name and text.
    pub statements: Vec<(u64, String, Vec<u8>)>,
    pub damaged_lines: Vec<u64>,
    pub lines: u64,
    pub elapsed_us: HashMap<SlowSession, i64>,
}

#[derive(Clone, PartialEq)]
enum Inside {
    Statement,
    FailedStatement,
    Value,
}

#[derive(Default)]
struct State {
    lenient: bool,
    out: Slow,
    inside: Option<(Inside, i64)>,
    avl: i64,
    line: u64,
    is_trace: bool,
    in_header: bool,
    unit_us: i64,
    is_11_1_0_7: bool,
    session: SlowSession,
    session_of_process: HashMap<i64, SlowSession>,
    clock: HashMap<SlowSession, i64>,
    tims: HashMap<SlowSession, Vec<i64>>,
    sql: HashMap<(SlowSession, i64), String>,
    ended: HashMap<SlowSession, Vec<(i64, i64, i64)>>,
    statement: Option<(u64, String, Vec<u8>)>,
}

/// Reads a whole trace.
pub fn read(bytes: &[u8], lenient: bool) -> Slow {
    let mut state =
        State { lenient, is_trace: lenient, in_header: true, unit_us: 1, ..State::default() };
    let mut lines: Vec<&[u8]> = bytes.split(|&byte| byte == b'\n').collect();
    if lines.last() == Some(&&b""[..]) {
        lines.pop();
    }
    for (i, raw) in lines.iter().enumerate() {
        state.line = i as u64 + 1;
        let with_end = if i + 1 < lines.len() || bytes.ends_with(b"\n") {
            [raw, &b"\n"[..]].concat()
        } else {
            raw.to_vec()
        };
        state.step(raw.strip_suffix(b"\r").unwrap_or(raw), &with_end);
    }
    state.out.lines = state.line;
    if state.inside.is_some() {
        state.damage();
    }
    state.end_statement();
    state.restart();
    state.out
}

/// Bytes as characters of the same numbers, so that any line is text.
fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

/// What characters of [`latin1`] say, read as a name.
fn name_of(text: &str) -> String {
    let bytes: Vec<u8> = text.chars().map(|c| c as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A number at the start of `text`, and what follows it.
fn number(text: &str) -> Option<(i64, &str)> {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let value: u64 = digits[..end].parse().ok()?;
    Some(((value as i64).wrapping_mul(sign), &digits[end..]))
}

type Pairs = Vec<(String, i64)>;

/// `name=number` pairs with commas between them, and nothing but spaces behind them. LOB calls
/// have names among the numbers, which are passed over.
fn pairs(mut text: &str, other_values: bool) -> Option<Pairs> {
    let mut found = Vec::new();
    loop {
        let (name, rest) = text.split_once('=')?;
        let behind = match number(rest) {
            Some((value, behind)) => {
                found.push((name.to_string(), value));
                behind
            }
            None if other_values => rest.find(',').map_or(rest, |comma| &rest[comma..]),
            None => return None,
        };
        match behind.strip_prefix(',') {
            Some(behind) => text = behind,
            None => return behind.trim_start_matches(' ').is_empty().then_some(found),
        }
    }
}

fn get(pairs: &Pairs, name: &str) -> Option<i64> {
    pairs.iter().rev().find(|(n, _)| n == name).map(|(_, value)| *value)
}

struct ParsedWait {
    cursor: i64,
    event: String,
    ela: i64,
    params: Vec<(String, i64)>,
    object: Option<i64>,
    tim: i64,
}

fn wait(text: &str, tail_allowed: bool) -> Option<ParsedWait> {
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

/// A name in typographic quotes, each of which is three bytes long.
fn typographic(text: &str) -> Option<(&str, &str)> {
    let quoted =
        text.strip_prefix("\u{e2}\u{80}")?.strip_prefix(|c| ('\u{98}'..='\u{9d}').contains(&c))?;
    let (name, rest) = quoted.split_once('\u{e2}')?;
    let mut rest = rest.chars();
    rest.next()?;
    rest.next()?;
    Some((name, rest.as_str()))
}

const CALLS: [&str; 6] = ["PARSE #", "EXEC #", "FETCH #", "UNMAP #", "SORT UNMAP #", "CLOSE #"];

/// Whether the line reads as a trace line; None where it begins as one and does not.
fn well_formed(text: &str) -> Option<bool> {
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

fn lob(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("LOB")?;
    let (name, figures) = rest.split_once(':')?;
    (!name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase())).then_some(figures)
}

struct ParsedCall {
    kind: String,
    cursor: i64,
    c: i64,
    e: i64,
    dep: i64,
    tim: i64,
}

fn call(text: &str) -> Option<ParsedCall> {
    let (kind, cursor, found) = if let Some(figures) = text.strip_prefix("RPC EXEC:") {
        ("RPC".to_string(), 0, pairs(figures, false)?)
    } else if let Some(figures) = lob(text) {
        ("LOB".to_string(), 0, pairs(figures.trim_start_matches(' '), true)?)
    } else {
        let kind = CALLS.iter().find(|kind| text.starts_with(*kind))?;
        let (kind, rest) = (kind.trim_end_matches(" #"), &text[kind.len()..]);
        let (cursor, rest) = number(rest)?;
        (kind.to_string(), cursor, pairs(rest.strip_prefix(':')?, false)?)
    };
    let tim = match get(&found, "tim") {
        None if kind != "RPC" => return None,
        tim => tim.unwrap_or(0),
    };
    let dep = get(&found, "dep").unwrap_or(0);
    u32::try_from(dep).ok()?;
    Some(ParsedCall { kind, cursor, c: get(&found, "c")?, e: get(&found, "e")?, dep, tim })
}

/// Cursor, len, tim, and the name of the statement.
fn parsing(text: &str) -> Option<(i64, i64, i64, String)> {
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
fn parse_error(text: &str) -> Option<(i64, i64, i64)> {
    let (cursor, rest) = number(text.strip_prefix("PARSE ERROR #")?)?;
    let mut rest = rest.strip_prefix(':').unwrap_or(rest);
    let mut found = Vec::new();
    while !rest.is_empty() {
        let (name, value) = rest.split_once('=')?;
        let (value, behind) = number(value)?;
        found.push((name.to_string(), value));
        rest = behind.trim_start_matches(' ');
    }
    get(&found, "err")?;
    Some((cursor, get(&found, "len")?, get(&found, "tim").unwrap_or(0)))
}

fn is_header(text: &str) -> bool {
    let path = text.strip_prefix("Trace file ").or(text.strip_prefix("Dump file "));
    path.is_some() && text.trim_end_matches([' ', '\t', '\n', '\x0c', '\r']).ends_with(".trc")
}

/// Of what follows three stars.
fn session_mark(stars: &str) -> Option<(i64, i64)> {
    let (sid, rest) = number(stars.strip_prefix("SESSION ID:(")?)?;
    Some((sid, number(rest.strip_prefix('.')?)?.0))
}

fn process_mark(stars: &str) -> Option<i64> {
    Some(number(stars.strip_prefix("[ Unix process pid: ")?)?.0)
}

fn release(text: &str) -> Option<Vec<u16>> {
    let (_, behind) = text.strip_prefix("Oracle")?.split_once(" Release ")?;
    let number = behind.split(' ').next()?;
    let parts: Option<Vec<u16>> = number.split('.').map(|part| part.parse().ok()).collect();
    parts.filter(|parts| parts.len() >= 4)
}

fn bind_value(text: &str) -> Option<&str> {
    let white = [' ', '\t', '\n', '\x0c', '\r'];
    text.strip_prefix(' ')?.trim_start_matches(white).strip_prefix("value=\"")
}

fn begins_anew(text: &str) -> bool {
    let stars = text.strip_prefix("*** ").unwrap_or("");
    let limit = stars.starts_with("DUMP FILE SIZE IS LIMITED TO ");
    is_header(text) || session_mark(stars).is_some() || process_mark(stars).is_some() || limit
}

impl State {
    fn damage(&mut self) {
        self.out.damaged_lines.push(self.line.max(1));
    }

    fn step(&mut self, line: &[u8], with_end: &[u8]) {
        let text = latin1(line);
        if let Some((inside, left)) = self.inside.clone() {
            let closing = text.ends_with('"') || text.ends_with("\"...");
            if (inside == Inside::Statement && text == "END OF STMT")
                || (inside == Inside::Value && closing)
            {
                self.inside = None;
                if inside == Inside::Statement {
                    self.is_trace = true;
                    self.end_statement();
                }
                return;
            }
            if !(begins_anew(&text) || (left == 0 && well_formed(&text) == Some(true))) {
                let left = (left - line.len() as i64 - 1).max(0);
                if let (Inside::Statement, Some((_, _, sql))) = (&inside, &mut self.statement) {
                    sql.extend_from_slice(with_end);
                }
                self.inside = if inside == Inside::FailedStatement && left == 0 {
                    None
                } else {
                    Some((inside, left))
                };
                return;
            }
            self.inside = None;
            self.damage();
        }
        self.outside(&text);
    }

    fn outside(&mut self, text: &str) {
        let avl = std::mem::take(&mut self.avl);
        match well_formed(text) {
            None => {
                if text.starts_with("PARSING IN CURSOR #") {
                    self.inside = Some((Inside::Statement, 0));
                }
                self.damage();
            }
            Some(true) => self.trace_line(text),
            Some(false) if text == "END OF STMT" => {
                self.is_trace = true;
                self.end_statement();
            }
            Some(false) => self.mark_or_text(text, avl),
        }
    }

    fn trace_line(&mut self, text: &str) {
        if let Some(rest) = text.strip_prefix("WAIT #") {
            return self.wait(wait(rest, false).unwrap());
        }
        self.is_trace = true;
        if let Some(parsed) = call(text).filter(|_| !text.starts_with("PARSE ERROR")) {
            self.in_header = false;
            self.call(parsed);
        } else if let Some((cursor, len, tim, name)) = parsing(text) {
            self.end_statement();
            self.in_header = false;
            self.tick(tim);
            self.sql.insert((self.session, cursor), name.clone());
            self.statement = Some((self.line, name, Vec::new()));
            self.inside = Some((Inside::Statement, len));
        } else if let Some((cursor, len, tim)) = parse_error(text) {
            self.tick(tim);
            self.sql.remove(&(self.session, cursor));
            self.inside = Some((Inside::FailedStatement, len.max(0)));
        } else if let Some((_, tim)) = text
            .split_once("tim=")
            .filter(|_| text.starts_with("ERROR") || text.starts_with("XCTEND"))
        {
            self.tick(number(tim).unwrap().0);
        }
    }

    fn mark_or_text(&mut self, text: &str, avl: i64) {
        let (.., pid) = self.session;
        if is_header(text) {
            self.is_trace = true;
            self.end_statement();
            self.restart();
            (self.unit_us, self.is_11_1_0_7, self.in_header) = (1, false, true);
            self.session = (None, None, None);
        } else if let Some(stars) = text.strip_prefix("*** ") {
            self.is_trace = true;
            if let Some((sid, serial)) = session_mark(stars) {
                self.switch((Some(sid), Some(serial), pid));
            } else if let Some(pid) = process_mark(stars) {
                let session = self.session_of_process.get(&pid).copied();
                self.switch(session.unwrap_or((None, None, Some(pid))));
            }
        } else if let Some((pid, _)) = text.strip_prefix("Unix process pid: ").and_then(number) {
            if self.in_header {
                self.switch((None, None, Some(pid)));
            }
        } else if let Some(release) = release(text) {
            if self.in_header {
                self.unit_us = if release[0] < 9 { 10_000 } else { 1 };
                self.is_11_1_0_7 = release[..4] == [11, 1, 0, 7];
            }
        } else if let Some(value) = bind_value(text) {
            if !value.ends_with('"') && !value.ends_with("\"...") {
                let left = avl - value.chars().count() as i64 - 1;
                self.inside = Some((Inside::Value, left.max(0)));
            }
        } else {
            if let Some((_, avl)) = text.split_once(" avl=").filter(|_| text.starts_with(' ')) {
                self.avl = number(avl).map_or(0, |(avl, _)| avl);
            }
            self.running_text(text);
        }
    }

    fn running_text(&mut self, text: &str) {
        if !self.lenient {
            return;
        }
        let mut starts = text.match_indices("WAIT #");
        if let Some(parsed) = starts.find_map(|(at, start)| wait(&text[at + start.len()..], true)) {
            self.avl = 0;
            self.wait(parsed);
        }
    }

    fn switch(&mut self, session: SlowSession) {
        self.session = session;
        if let Some(pid) = session.2 {
            self.session_of_process.insert(pid, session);
        }
    }

    fn restart(&mut self) {
        for (session, tims) in std::mem::take(&mut self.tims) {
            let (mut first, mut last) = (tims[0], tims[0]);
            let total = self.out.elapsed_us.entry(session).or_default();
            for tim in tims {
                if tim < last - 1_000_000 {
                    *total += last - first;
                    (first, last) = (tim, tim);
                }
                (first, last) = (first.min(tim), last.max(tim));
            }
            *total += last - first;
        }
        self.clock.clear();
        self.sql.clear();
        self.ended.clear();
    }

    fn end_statement(&mut self) {
        if let Some((line, name, mut text)) = self.statement.take() {
            if text.ends_with(b"\n") {
                text.pop();
            }
            if text.ends_with(b"\r") {
                text.pop();
            }
            self.out.statements.push((line, name, text));
        }
    }

    fn time(&mut self, value: i64) -> i64 {
        let us = i128::from(value) * i128::from(self.unit_us);
        if (0..=10_000_000_000_000).contains(&us) {
            return us as i64;
        }
        self.damage();
        0
    }

    /// Moves the session's clock on; true where the line has a time.
    fn tick(&mut self, tim: i64) -> Option<i64> {
        let us = i128::from(tim) * i128::from(self.unit_us);
        if !(0..=9_000_000_000_000_000).contains(&us) {
            self.damage();
            return None;
        }
        self.tick_us(us as i64)
    }

    fn tick_us(&mut self, us: i64) -> Option<i64> {
        if us == 0 {
            return None;
        }
        self.tims.entry(self.session).or_default().push(us);
        self.clock.insert(self.session, us);
        Some(us)
    }

    fn wait(&mut self, wait: ParsedWait) {
        if !self.is_trace && self.line > 3 {
            return self.damage();
        }
        (self.is_trace, self.in_header) = (true, false);
        let elapsed_us = self.time(wait.ela);
        let before = self.clock.get(&self.session).copied().unwrap_or(0);
        let tim = match self.is_11_1_0_7 {
            true if (0..=9_000_000_000_000_000).contains(&wait.tim) => {
                self.tick_us((i128::from(wait.tim) * 1_024 / 1_000) as i64)
            }
            _ => self.tick(wait.tim),
        };
        let start_us = match tim {
            Some(tim) => tim - elapsed_us,
            None => {
                self.clock.insert(self.session, (before + elapsed_us).min(9_000_000_000_000_000));
                before
            }
        };
        let name = name_of(&wait.event);
        let named = |names: &[&str]| {
            wait.params.iter().find(|(n, _)| names.contains(&n.as_str())).map(|p| p.1)
        };
        let (mut file, mut blocks) =
            (named(&["file#", "file number", "File number"]), named(&["blocks", "block cnt"]));
        let unnamed = |i: usize| ["p1", "p2", "p3"].contains(&wait.params[i].0.as_str());
        if ["db file s", "direct path ", "control file s"]
            .iter()
            .any(|family| name.starts_with(family))
        {
            file = file.or(unnamed(0).then(|| wait.params[0].1));
            blocks = blocks.or(unnamed(2).then(|| wait.params[2].1));
        }
        self.out.waits.push(SlowWait {
            line: self.line,
            event: name,
            session: self.session,
            sql: self.sql.get(&(self.session, wait.cursor)).cloned(),
            start_us,
            elapsed_us,
            file,
            blocks,
            bytes: named(&["bytes"]),
            object: wait.object,
        });
    }

    fn call(&mut self, call: ParsedCall) {
        let (c, e) = (self.time(call.c), self.time(call.e));
        self.tick(call.tim);
        let dep = call.dep.min(255);
        let ended = self.ended.entry(self.session).or_default();
        let made: Vec<_> = ended.iter().copied().filter(|(d, ..)| *d > dep).collect();
        ended.retain(|(d, ..)| *d <= dep);
        ended.push((dep, c, e));
        let made_c: i64 = made.iter().map(|m| m.1).sum();
        let made_e: i64 = made.iter().map(|m| m.2).sum();
        let own = made_e <= e + (made.len() as i64 + 1) * self.unit_us;
        let (made_c, made_e) = if own { (made_c, made_e) } else { (0, 0) };
        self.out.calls.push(SlowCall {
            line: self.line,
            kind: call.kind,
            session: self.session,
            sql: self.sql.get(&(self.session, call.cursor)).cloned(),
            self_c_us: c - made_c,
            self_e_us: e - made_e,
            tim_us: self.clock.get(&self.session).copied().unwrap_or(0),
        });
    }
}
