//! Waits and calls of a file: their duration and their session, by the session's clock.

use super::{Follower, Output};
use crate::oracle::line::{CallLine, Role, WaitLine};
use crate::oracle::session::TIM_MAX_US;
use crate::oracle::sink::{Origin, Sink, TimedCall, TimedWait};
use crate::wait::NameId;

/// A record within these first lines shows that the file is a trace, or the end of one.
const HEAD_LINES: u64 = 3;

/// Durations above 115 days are impossible.
const ELAPSED_MAX_US: i64 = 10_000_000_000_000;

impl Follower {
    #[inline(always)]
    pub(super) fn wait(
        &mut self,
        line: u64,
        event: NameId,
        wait: &WaitLine,
        out: &mut Output<impl Sink>,
    ) {
        if !self.is_trace && line > HEAD_LINES {
            self.summary.waits_in_text += 1;
            return self.damage(line, "WAIT within other text, which only --lenient reads");
        }
        self.in_header = false;
        self.is_trace = true;
        let class = out.dictionary.classes[event as usize];
        let elapsed_us = self.in_us(wait.ela);
        let tim_us = self.tim(line, wait.tim).map(|tim| match self.clock.wait_tim_1024 {
            true => tim + tim * 24 / 1_000,
            false => tim,
        });
        let (position, session) = self.sessions.current(out.dictionary);
        if !self.window.is_all() {
            let ended_us = match tim_us {
                Some(tim) => tim,
                None => session.clock_us.saturating_add(elapsed_us.unwrap_or(0)),
            };
            if !self.window.holds(ended_us) {
                session.pass(ended_us);
                self.summary.outside += 1;
                return;
            }
        }
        let Some(elapsed_us) = elapsed_us else {
            if let Some(tim) = tim_us {
                session.tick(tim, 0);
            }
            return self.unmeasured(line, wait.ela);
        };
        let start_us = match tim_us {
            Some(tim) => {
                session.tick(tim, elapsed_us);
                tim - elapsed_us
            }
            None => session.wait_without_tim(elapsed_us),
        };
        let times = &mut session.times;
        if class.idle {
            times.idle_us = times.idle_us.saturating_add(elapsed_us);
        } else {
            times.wait_us = times.wait_us.saturating_add(elapsed_us);
            times.open_us = times.open_us.saturating_add(elapsed_us);
        }
        let sql = if self.wanted.figures { session.sql(wait.cursor) } else { None };
        let param = |role| wait.roles.iter().position(|&r| r == role).map(|i| wait.params[i]);
        let unnamed = |i| {
            let is_unnamed = class.unnamed_blocks && wait.roles[i] == Role::Unnamed;
            is_unnamed.then(|| wait.params[i])
        };
        let row = TimedWait {
            event,
            class,
            cursor: wait.cursor,
            start_us,
            elapsed_us,
            params: wait.params,
            file: param(Role::File).or_else(|| unnamed(0)),
            blocks: param(Role::Blocks).or_else(|| unnamed(2)),
            bytes: param(Role::Bytes),
            object: wait.object,
        };
        self.summary.waits += 1;
        out.sink.wait(
            out.dictionary,
            Origin { file: self.file, line, session: position, sql },
            &row,
        );
    }

    #[inline(always)]
    pub(super) fn call(&mut self, line: u64, mut call: CallLine, out: &mut Output<impl Sink>) {
        self.in_header = false;
        self.is_trace = true;
        call.c = self.elapsed(line, call.c);
        call.e = self.elapsed(line, call.e);
        let tim_us = self.tim(line, call.tim);
        let (position, session) = self.sessions.current(out.dictionary);
        let ended_us = tim_us.unwrap_or(session.clock_us);
        if !self.window.holds(ended_us) {
            session.pass(ended_us);
            session.self_times(&call, self.clock.unit_us);
            self.summary.outside += 1;
            return;
        }
        if let Some(tim) = tim_us {
            session.tick(tim, 0);
        }
        call.tim = session.clock_us;
        let (self_c_us, self_e_us) = session.self_times(&call, self.clock.unit_us);
        session.times.open_us = 0;
        session.times.cpu_us = session.times.cpu_us.saturating_add(self_c_us);
        let sql = session.sql(call.cursor);
        self.summary.calls += 1;
        let origin = Origin { file: self.file, line, session: position, sql };
        out.sink.call(out.dictionary, origin, &TimedCall { line: call, self_c_us, self_e_us });
    }

    /// A duration in microseconds; None if it is impossible.
    #[inline(always)]
    fn in_us(&self, value: i64) -> Option<i64> {
        let value_us = value.saturating_mul(self.clock.unit_us);
        (0..=ELAPSED_MAX_US).contains(&value_us).then_some(value_us)
    }

    /// A call's duration in microseconds; an impossible one is damage and counts as 0.
    fn elapsed(&mut self, line: u64, value: i64) -> i64 {
        if let Some(value_us) = self.in_us(value) {
            return value_us;
        }
        let too_long = "time above 115 days, counted as 0";
        self.damage(line, if value < 0 { "time below zero, counted as 0" } else { too_long });
        0
    }

    /// A wait of unknown length.
    #[cold]
    fn unmeasured(&mut self, line: u64, ela: i64) {
        self.summary.waits_unmeasured += 1;
        let too_long = "ela= above 115 days: the wait is counted apart";
        let negative = "ela= below zero: the wait is counted apart";
        self.damage(line, if ela < 0 { negative } else { too_long });
    }

    /// `tim` in microseconds; None if it is 0 or not a time.
    #[inline(always)]
    pub(super) fn tim(&mut self, line: u64, tim: i64) -> Option<i64> {
        let tim_us = tim.saturating_mul(self.clock.unit_us);
        if !(0..=TIM_MAX_US).contains(&tim_us) {
            self.damage(line, "tim= is not a time, and is not used");
            return None;
        }
        // A record follows the timestamp and ended at that time or earlier; later if a header lies
        // between the two.
        if tim_us != 0
            && let Some(local_us) = self.local_us.take()
        {
            self.sessions.date(local_us - tim_us);
        }
        (tim_us != 0).then_some(tim_us)
    }
}
