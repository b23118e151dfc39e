//! A second reader, slow and obvious: one loop over all lines, which keeps and copies everything.

use std::collections::HashMap;

use super::slow_line::*;

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
    pub waits_unmeasured: u64,
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
    /// Time of each line, and how long before that its wait began.
    tims: HashMap<SlowSession, Vec<(i64, i64)>>,
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
            let value = inside == Inside::Value;
            // A bind value may exceed its stated length by 4,000 bytes, and hold waits and calls.
            let still = value && left > -4_000 && is_timed(&text);
            if !(begins_anew(&text) || (left <= 0 && !still && well_formed(&text) == Some(true))) {
                let left = left.saturating_sub(line.len() as i64 + 1);
                let left = if value { left } else { left.max(0) };
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
            self.tick(tim, 0);
            self.sql.insert((self.session, cursor), name.clone());
            self.statement = Some((self.line, name, Vec::new()));
            self.inside = Some((Inside::Statement, len));
        } else if let Some((cursor, len, tim)) = parse_error(text) {
            self.tick(tim, 0);
            self.sql.remove(&(self.session, cursor));
            self.inside = Some((Inside::FailedStatement, len.max(0)));
        } else if let Some((_, tim)) = text
            .split_once("tim=")
            .filter(|_| text.starts_with("ERROR") || text.starts_with("XCTEND"))
        {
            self.tick(number(tim).unwrap().0, 0);
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
                let left = avl.saturating_sub(value.chars().count() as i64 + 1);
                self.inside = Some((Inside::Value, left));
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
        for (at, start) in text.match_indices("WAIT #") {
            if let Some(parsed) = wait(&text[at + start.len()..], true) {
                self.avl = 0;
                self.wait(parsed);
            }
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
            let (mut first, mut last) = (tims[0].0 - tims[0].1, tims[0].0);
            let total = self.out.elapsed_us.entry(session).or_default();
            for (tim, waited) in tims {
                if tim < last - 1_000_000 {
                    *total += last - first;
                    (first, last) = (tim - waited, tim);
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

    fn in_us(&self, value: i64) -> Option<i64> {
        let us = i128::from(value) * i128::from(self.unit_us);
        (0..=10_000_000_000_000).contains(&us).then_some(us as i64)
    }

    fn time(&mut self, value: i64) -> i64 {
        let us = self.in_us(value);
        if us.is_none() {
            self.damage();
        }
        us.unwrap_or(0)
    }

    /// Advances the session's clock to the end of a wait; returns the line's time if it has one.
    fn tick(&mut self, tim: i64, waited_us: i64) -> Option<i64> {
        let us = i128::from(tim) * i128::from(self.unit_us);
        if !(0..=9_000_000_000_000_000).contains(&us) {
            self.damage();
            return None;
        }
        self.tick_us(us as i64, waited_us)
    }

    fn tick_us(&mut self, us: i64, waited_us: i64) -> Option<i64> {
        if us == 0 {
            return None;
        }
        let before = self.clock.insert(self.session, us).unwrap_or(0);
        let tims = self.tims.entry(self.session).or_default();
        // Waits without a time have advanced the clock from 0.
        let waited_us = if tims.is_empty() { waited_us + before } else { waited_us };
        tims.push((us, waited_us));
        Some(us)
    }

    fn wait(&mut self, wait: ParsedWait) {
        if !self.is_trace && self.line > 3 {
            return self.damage();
        }
        (self.is_trace, self.in_header) = (true, false);
        let elapsed_us = self.in_us(wait.ela);
        let waited_us = elapsed_us.unwrap_or(0);
        let before = self.clock.get(&self.session).copied().unwrap_or(0);
        let tim = match self.is_11_1_0_7 {
            true if (0..=9_000_000_000_000_000).contains(&wait.tim) => {
                self.tick_us((i128::from(wait.tim) * 1_024 / 1_000) as i64, waited_us)
            }
            _ => self.tick(wait.tim, waited_us),
        };
        let Some(elapsed_us) = elapsed_us else {
            self.out.waits_unmeasured += 1;
            return self.damage();
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
        self.tick(call.tim, 0);
        let dep = call.dep.min(255);
        let ended = self.ended.entry(self.session).or_default();
        let made: Vec<_> = ended.iter().copied().filter(|(d, ..)| *d > dep).collect();
        ended.retain(|(d, ..)| *d <= dep);
        ended.push((dep, c, e));
        let made_c: i64 = made.iter().map(|m| m.1).sum();
        let made_e: i64 = made.iter().map(|m| m.2).sum();
        let enough = made_e <= e + (made.len() as i64 + 1) * self.unit_us;
        let (made_c, made_e) = if enough { (made_c, made_e) } else { (0, 0) };
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
