//! The sessions of a file, and the state of each: its clock, cursors and open recursive calls.

use rustc_hash::FxHashMap;

use super::line::CallLine;
use super::sink::{Dictionary, SessionId};
use crate::wait::NameId;

/// Times of a session in one file, in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionTimes {
    /// From the start of the first line's wait, or from its `tim`, to the last `tim`; the sum of
    /// the stretches between backward steps of the clock.
    pub elapsed_us: i64,
    /// CPU of all calls; recursive calls are counted once.
    pub cpu_us: i64,
    /// Waits that are not idle.
    pub wait_us: i64,
    pub idle_us: i64,
    /// The part of `wait_us` since the last call ended: a call goes on, or its line is missing.
    pub open_us: i64,
    /// Number of times that `tim` went back by more than a second, because another file was
    /// appended or the clock was set.
    pub steps_back: u64,
    /// Time of the first line; the start of its wait if it is one.
    pub first_tim_us: Option<i64>,
    pub last_tim_us: Option<i64>,
    /// Offset to add to `tim` for the time of day that the lines show, in microseconds.
    pub local_less_tim_us: Option<i64>,
}

impl SessionTimes {
    /// Time accounted for by neither CPU of calls nor waits; below zero if those overlap.
    pub fn unaccounted_us(&self) -> i64 {
        let accounted = [self.cpu_us, self.wait_us, self.idle_us];
        accounted.into_iter().fold(self.elapsed_us, i64::saturating_sub)
    }
}

/// The `tim` of adjacent lines may be out of order by the duration of a call between them.
const STEP_BACK_US: i64 = 1_000_000;

/// Times above 285 years are impossible.
pub(super) const TIM_MAX_US: i64 = 9_000_000_000_000_000;

/// Deeper recursion levels are not distinguished.
const DEPTH_MAX: usize = 255;

#[derive(Debug, Default)]
pub(super) struct Session {
    pub times: SessionTimes,
    /// Time of the last line as far as known; waits without a `tim` advance it.
    pub(crate) clock_us: i64,
    /// Whether lines outside the window have set the clock.
    passed: bool,
    /// The stretch since the last backward step of the clock.
    stretch: Option<(i64, i64)>,
    sql: FxHashMap<i64, NameId>,
    /// The cursor of the last lookup, which is most often the next one too.
    last_sql: Option<(i64, Option<NameId>)>,
    /// Calls whose parent has not ended yet, by depth.
    children: Vec<Calls>,
}

/// The sums of several calls.
#[derive(Clone, Copy, Debug, Default)]
struct Calls {
    count: i64,
    c_us: i64,
    e_us: i64,
}

impl Calls {
    fn add(&mut self, count: i64, c_us: i64, e_us: i64) {
        self.count += count;
        self.c_us = self.c_us.saturating_add(c_us);
        self.e_us = self.e_us.saturating_add(e_us);
    }
}

impl Session {
    /// Advances the clock to a line written at `tim_us`, at the end of a wait of `elapsed_us`; 0
    /// for any other line.
    ///
    /// The session's time includes the wait during which tracing began, because that wait counts.
    #[inline(always)]
    pub fn tick(&mut self, tim_us: i64, elapsed_us: i64) {
        match &mut self.stretch {
            Some((first, last)) if tim_us >= *last - STEP_BACK_US => {
                *first = (*first).min(tim_us);
                *last = (*last).max(tim_us);
            }
            _ => self.begin_stretch(tim_us, elapsed_us),
        }
        self.clock_us = tim_us;
        self.times.last_tim_us = Some(tim_us);
    }

    #[cold]
    fn begin_stretch(&mut self, tim_us: i64, elapsed_us: i64) {
        let mut began_us = tim_us - elapsed_us;
        if self.stretch.is_some() {
            self.end_stretch();
            self.times.steps_back += 1;
        } else if !self.passed {
            // Before the first `tim`, the clock holds the sum of waits without a `tim`.
            began_us -= self.clock_us;
        }
        self.times.first_tim_us.get_or_insert(began_us);
        self.stretch = Some((began_us, tim_us));
    }

    /// The probable start of a wait without a `tim`: the time of the line before it.
    pub(crate) fn wait_without_tim(&mut self, elapsed_us: i64) -> i64 {
        let start_us = self.clock_us;
        self.clock_us = (start_us + elapsed_us).min(TIM_MAX_US);
        start_us
    }

    /// Sets the clock to a line outside the window, written at `tim_us`.
    pub(crate) fn pass(&mut self, tim_us: i64) {
        self.clock_us = tim_us;
        self.passed = true;
    }

    fn end_stretch(&mut self) {
        if let Some((first, last)) = self.stretch.take() {
            self.times.elapsed_us += last - first;
        }
    }

    /// Forgets the state, except the times, at the end of a file or at the header of another.
    pub fn restart(&mut self) {
        self.end_stretch();
        *self = Session { times: std::mem::take(&mut self.times), ..Session::default() };
    }

    pub fn parsed(&mut self, cursor: i64, sql: Option<NameId>) {
        match sql {
            Some(sql) => self.sql.insert(cursor, sql),
            None => self.sql.remove(&cursor),
        };
        self.last_sql = None;
    }

    /// The statement that a cursor was last parsed for. It survives CLOSE: a cached cursor is
    /// reopened without a parse.
    #[inline(always)]
    pub fn sql(&mut self, cursor: i64) -> Option<NameId> {
        match self.last_sql {
            Some((last, sql)) if last == cursor => sql,
            _ => {
                let sql = self.sql.get(&cursor).copied();
                self.last_sql = Some((cursor, sql));
                sql
            }
        }
    }

    /// The CPU and elapsed time of a call without its recursive calls. A line is written when its
    /// call ends, so the lines of its recursive calls precede it, with a greater depth.
    ///
    /// Deeper calls that took longer than the call, by more than the rounding of times to
    /// `unit_us`, are not its own: they belong to a call that the trace lacks, and nothing is
    /// subtracted. The CPU is below zero if its clock is too coarse for short calls; this cancels
    /// out in the sum.
    pub(crate) fn self_times(&mut self, call: &CallLine, unit_us: i64) -> (i64, i64) {
        let depth = (call.dep as usize).min(DEPTH_MAX);
        let mut made = Calls::default();
        for deeper in self.children.drain((depth + 1).min(self.children.len())..) {
            made.add(deeper.count, deeper.c_us, deeper.e_us);
        }
        if self.children.len() <= depth {
            self.children.resize(depth + 1, Calls::default());
        }
        self.children[depth].add(1, call.c, call.e);
        let rounding_us = (made.count + 1).saturating_mul(unit_us);
        if made.e_us > call.e.saturating_add(rounding_us) {
            return (call.c, call.e);
        }
        (call.c - made.c_us, call.e - made.e_us)
    }
}

/// The sessions of a file; each line belongs to the current one.
pub(super) struct Sessions {
    list: Vec<Known>,
    position: FxHashMap<SessionId, usize>,
    /// The most recent session of each process.
    of_process: FxHashMap<i64, usize>,
    current: usize,
}

struct Known {
    id: SessionId,
    /// Index in [`Dictionary::sessions`], once a line belongs to the session.
    name: Option<usize>,
    session: Session,
}

impl Default for Sessions {
    fn default() -> Self {
        let mut sessions = Sessions {
            list: Vec::new(),
            position: FxHashMap::default(),
            of_process: FxHashMap::default(),
            current: 0,
        };
        sessions.switch(SessionId::default());
        sessions
    }
}

impl Sessions {
    #[inline(always)]
    pub(crate) fn current(&mut self, dictionary: &mut Dictionary) -> (usize, &mut Session) {
        let known = &mut self.list[self.current];
        let name = *known.name.get_or_insert_with(|| dictionary.session(known.id));
        (name, &mut known.session)
    }

    /// A line of the current session follows a time of day, which exceeds its `tim` by `more_us`.
    pub(crate) fn date(&mut self, more_us: i64) {
        let known = &mut self.list[self.current].session.times.local_less_tim_us;
        *known = (*known).max(Some(more_us));
    }

    pub(crate) fn current_id(&self) -> SessionId {
        self.list[self.current].id
    }

    pub fn switch(&mut self, id: SessionId) {
        self.current = *self.position.entry(id).or_insert_with(|| {
            self.list.push(Known { id, name: None, session: Session::default() });
            self.list.len() - 1
        });
        if let Some(pid) = id.pid {
            self.of_process.insert(pid, self.current);
        }
    }

    pub(crate) fn switch_process(&mut self, pid: i64) {
        match self.of_process.get(&pid) {
            Some(&position) => self.current = position,
            None => self.switch(SessionId { pid: Some(pid), ..SessionId::default() }),
        }
    }

    /// Forgets the state, because another file was appended.
    pub fn restart(&mut self) {
        self.list.iter_mut().for_each(|known| known.session.restart());
        self.switch(SessionId::default());
    }

    pub fn finish(mut self) -> Vec<(usize, SessionTimes)> {
        self.restart();
        let named = |known: Known| Some((known.name?, known.session.times));
        self.list.into_iter().filter_map(named).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(dep: u32, c: i64, e: i64) -> CallLine {
        CallLine { dep, c, e, ..CallLine::default() }
    }

    #[test]
    fn the_time_of_recursive_calls_counts_once() {
        let mut session = Session::default();
        assert_eq!(session.self_times(&call(2, 5, 7), 1), (5, 7));
        assert_eq!(session.self_times(&call(1, 20, 30), 1), (15, 23));
        assert_eq!(session.self_times(&call(1, 1, 2), 1), (1, 2));
        assert_eq!(session.self_times(&call(0, 100, 200), 1), (79, 168));
        assert_eq!(session.self_times(&call(0, 3, 4), 1), (3, 4));
    }

    #[test]
    fn longer_recursive_calls_than_a_call_are_not_subtracted() {
        let mut session = Session::default();
        session.self_times(&call(1, 300, 919), 1);
        assert_eq!(session.self_times(&call(0, 20, 28), 1), (20, 28));
        session.self_times(&call(1, 0, 10_000), 10_000);
        assert_eq!(session.self_times(&call(0, 0, 0), 10_000), (0, -10_000));
    }

    #[test]
    fn a_call_contains_deeper_calls_without_their_parent() {
        let mut session = Session::default();
        session.self_times(&call(3, 5, 7), 1);
        assert_eq!(session.self_times(&call(1, 20, 30), 1), (15, 23));
    }

    #[test]
    fn elapsed_time_is_the_sum_of_stretches_between_steps_back() {
        let mut session = Session::default();
        for tim in [5_000_000, 9_000_000, 8_999_990, 1_000_000, 4_000_000] {
            session.tick(tim, 0);
        }
        session.restart();
        assert_eq!((session.times.elapsed_us, session.times.steps_back), (7_000_000, 1));
    }

    #[test]
    fn a_stretch_that_starts_with_a_wait_includes_it() {
        let mut session = Session::default();
        for (tim, elapsed) in [(5_000_000, 300), (6_000_000, 7_000), (1_000_000, 40)] {
            session.tick(tim, elapsed);
        }
        assert_eq!(session.times.first_tim_us, Some(4_999_700));
        session.restart();
        session.wait_without_tim(25);
        session.tick(8_000_000, 0);
        session.restart();
        assert_eq!(session.times.elapsed_us, 1_000_300 + 40 + 25);
    }
}
