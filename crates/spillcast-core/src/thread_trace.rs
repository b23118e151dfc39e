//! The trace of a recording's threads, row by row: CPU, waits, and waits for each other.
//!
//! The start of a thread is a row, too. A wait that no observed thread is known to have ended, and
//! the start of a thread, are assumed to follow the last row of another thread that had ended by
//! then: engines poll whether other threads are done. If no other row ended during the wait, it
//! keeps its recorded length.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::wait::{NameId, Names, Op, Wait};

/// Stands for a missing row, thread or file.
pub const NONE: u32 = u32::MAX;
const UNKNOWN: i64 = -1;

/// The fields of a recorded wait that a trace needs, in 64 bytes; UNKNOWN and NONE stand for None.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub start_ns: i64,
    pub elapsed_ns: i64,
    session: i64,
    cpu_before_ns: i64,
    woken_by: i64,
    offset: i64,
    /// 0 for a wait that moved no bytes.
    pub bytes: u32,
    pub file: u32,
    pub event: NameId,
    pub op: Op,
    /// On a temp file, or a wait for writeback of temp files.
    pub temp: bool,
    blocked: Option<bool>,
}

impl From<&Wait> for Recorded {
    fn from(wait: &Wait) -> Recorded {
        Recorded {
            start_ns: wait.start_ns,
            elapsed_ns: wait.elapsed_ns,
            session: wait.session,
            cpu_before_ns: wait.cpu_before_ns.unwrap_or(UNKNOWN),
            woken_by: wait.woken_by.unwrap_or(UNKNOWN),
            offset: wait.offset.unwrap_or(UNKNOWN),
            bytes: wait.bytes.map_or(0, |bytes| bytes.clamp(0, i64::from(u32::MAX)) as u32),
            file: wait.file.unwrap_or(NONE),
            event: wait.event,
            op: wait.op,
            temp: wait.temp,
            blocked: wait.blocked,
        }
    }
}

impl Recorded {
    pub fn end_ns(&self) -> i64 {
        self.start_ns + self.elapsed_ns
    }

    /// Whether it is a call on a file or a wait for writeback, not a wait for something else.
    pub(crate) fn on_file(&self) -> bool {
        self.op != Op::Null || self.file != NONE || self.temp
    }

    /// Whether it reads or writes a temp file.
    pub fn moves(&self) -> bool {
        self.temp && self.op != Op::Null && self.bytes > 0
    }

    /// Whether it makes, resizes, syncs, removes or looks up a temp file, or waits for writeback.
    pub fn changes(&self) -> bool {
        self.temp && self.op == Op::Null
    }

    pub fn offset(&self) -> Option<u64> {
        u64::try_from(self.offset).ok()
    }
}

/// A wait and what its thread did before it.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub start_ns: i64,
    pub end_ns: i64,
    /// CPU time of the thread since its last row, until `start_ns`.
    pub cpu_ns: i64,
    /// Time that the thread was ready without a core since its last row, until `start_ns`.
    pub ready_ns: i64,
    /// CPU time of the thread of row `after` between that row and the end of this one.
    pub after_cpu_ns: i64,
    /// The row of another thread that has to end before this one; NONE if there is none.
    pub after: u32,
    pub thread: u32,
    woken_by: u32,
    /// Position of the wait; NONE for the start of a thread.
    pub source: u32,
    /// Whether the thread kept its core in the call.
    pub on_core: bool,
    /// Whether the row is neither a call on a file nor the start of a thread.
    pub blocked_outside: bool,
}

/// Start and end, ns, of each interval of the run whose waits were kept; empty if all were.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slices<'a>(pub &'a [(i64, i64)]);

impl Slices<'_> {
    /// The number of slices that have begun by `ns`.
    pub fn number(self, ns: i64) -> usize {
        self.0.partition_point(|slice| slice.0 <= ns)
    }

    /// The start of the slice in which a wait starts; 0 if all waits were kept.
    fn begin_ns(self, start_ns: i64) -> i64 {
        match self.number(start_ns) {
            0 => start_ns.min(0),
            number => self.0[number - 1].0,
        }
    }

    /// Whether a thread whose first row begins at `begin_ns` did not work before the first slice.
    fn shows_beginning(self, begin_ns: i64) -> bool {
        self.0.first().is_none_or(|first| first.0 == 0 || begin_ns > first.1)
    }
}

/// The threads of a recording: the number of each session, from 0 in ascending order.
pub struct Threads(FxHashMap<i64, u32>);

impl Threads {
    pub fn of<'a>(waits: impl Iterator<Item = &'a Recorded>) -> Threads {
        // Consecutive waits are often of one session, which is looked up once.
        let (mut distinct, mut last) = (FxHashSet::default(), None);
        for wait in waits {
            if last.replace(wait.session) != Some(wait.session) {
                distinct.insert(wait.session);
            }
        }
        let mut sessions: Vec<i64> = distinct.into_iter().collect();
        sessions.sort_unstable();
        Threads(sessions.into_iter().zip(0..).collect())
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn of_wait(&self, wait: &Recorded) -> u32 {
        self.of_session(wait.session)
    }

    fn of_session(&self, session: i64) -> u32 {
        self.0.get(&session).copied().unwrap_or(NONE)
    }
}

pub struct ThreadTrace {
    /// Sorted by start; the rows of each thread are in its order.
    pub rows: Vec<Row>,
    /// Whether CPU time was measured. If not, all time between two rows of a thread counts as such.
    pub cpu_known: bool,
}

/// The trace of `waits`, which are sorted by start and whose events are positions in `names`.
///
/// Threads that neither do temp I/O nor wait for one that does, directly or through others, are
/// left out: they sleep, or serve other threads.
pub fn thread_trace(waits: &[Recorded], names: &Names, slices: Slices) -> ThreadTrace {
    let requests: Vec<bool> =
        names.list().iter().map(|name| name.starts_with("io_uring_")).collect();
    let (rows, cpu_known) = rows_of_waits(waits, &requests, slices);
    let (rows, threads) = delayed_by_temp_io(rows, waits);
    let mut rows = with_beginnings(rows, threads, slices);
    let order = by_thread(&rows, threads);
    tie_to_wakers(&mut rows, &order);
    if threads > 1 {
        tie_to_latest(&mut rows, &order, slices);
    }
    ThreadTrace { rows, cpu_known }
}

/// A row for each wait, and whether CPU time is known. Requests of io_uring that a thread had in
/// flight beside others have no row: other rows of the thread show how it waited for them.
fn rows_of_waits(waits: &[Recorded], requests: &[bool], slices: Slices) -> (Vec<Row>, bool) {
    let beside = |wait: &&Recorded| requests[wait.event as usize] && wait.blocked.is_none();
    let threads = Threads::of(waits.iter());
    let mut alone = waits.iter().filter(|wait| !beside(wait));
    let cpu_known = alone.any(|wait| wait.cpu_before_ns != UNKNOWN);
    let mut ends_ns = vec![0; threads.count()];
    let row = |(source, wait): (usize, &Recorded)| {
        let thread = threads.of_wait(wait);
        let before_ns = std::mem::replace(&mut ends_ns[thread as usize], wait.end_ns());
        let mut gap_ns = (wait.start_ns - before_ns).max(0);
        if !slices.0.is_empty() {
            // Before its slice, only the CPU time of the row itself is known.
            let known_ns = wait.start_ns - slices.begin_ns(wait.start_ns);
            gap_ns = gap_ns.min(known_ns.max(wait.cpu_before_ns).max(0));
        }
        let cpu_ns = if cpu_known { wait.cpu_before_ns.clamp(0, gap_ns) } else { gap_ns };
        let waker = wait.woken_by;
        Row {
            start_ns: wait.start_ns,
            end_ns: wait.end_ns(),
            cpu_ns,
            ready_ns: gap_ns - cpu_ns,
            after_cpu_ns: 0,
            after: NONE,
            thread,
            woken_by: if waker == UNKNOWN { NONE } else { threads.of_session(waker) },
            source: source as u32,
            on_core: wait.blocked == Some(false) && wait.on_file(),
            blocked_outside: !wait.on_file(),
        }
    };
    (waits.iter().enumerate().filter(|(_, wait)| !beside(wait)).map(row).collect(), cpu_known)
}

/// The rows of the threads that temp I/O can delay, renumbered, and the number of these threads.
fn delayed_by_temp_io(mut rows: Vec<Row>, waits: &[Recorded]) -> (Vec<Row>, usize) {
    let mut held_up = FxHashSet::default();
    let mut waiters_of: FxHashMap<u32, FxHashSet<u32>> = FxHashMap::default();
    for row in &rows {
        if waits[row.source as usize].temp {
            held_up.insert(row.thread);
        }
        if row.woken_by != NONE {
            waiters_of.entry(row.woken_by).or_default().insert(row.thread);
        }
    }
    let mut wakers: Vec<u32> = held_up.iter().copied().collect();
    while let Some(waker) = wakers.pop() {
        let waiters = waiters_of.remove(&waker).unwrap_or_default().into_iter();
        wakers.extend(waiters.filter(|&waiter| held_up.insert(waiter)));
    }
    let mut threads: Vec<u32> = held_up.into_iter().collect();
    threads.sort_unstable();
    let mut new_numbers = vec![NONE; threads.last().map_or(0, |&last| last as usize + 1)];
    for (new, &old) in threads.iter().enumerate() {
        new_numbers[old as usize] = new as u32;
    }
    let new_number = |old: u32| new_numbers.get(old as usize).copied().unwrap_or(NONE);
    rows.retain_mut(|row| {
        (row.thread, row.woken_by) = (new_number(row.thread), new_number(row.woken_by));
        row.thread != NONE
    });
    (rows, threads.len())
}

/// Adds a row for the start of each thread, from the start of the recording, or of the slice of the
/// thread's first row. Before that row it did not wait for a core: it did not exist.
fn with_beginnings(mut rows: Vec<Row>, threads: usize, slices: Slices) -> Vec<Row> {
    let mut is_first = vec![true; threads];
    let mut beginnings: Vec<Row> = Vec::with_capacity(threads);
    for row in &mut rows {
        if std::mem::replace(&mut is_first[row.thread as usize], false) {
            let end_ns = (row.start_ns - row.cpu_ns).max(0);
            row.ready_ns = 0;
            beginnings.push(Row {
                start_ns: slices.begin_ns(row.start_ns).min(end_ns),
                end_ns,
                cpu_ns: 0,
                woken_by: NONE,
                source: NONE,
                on_core: false,
                blocked_outside: false,
                ..*row
            });
        }
    }
    beginnings.sort_by_key(|row| (row.end_ns, row.thread));
    // Each is inserted before the first row that starts after it, the last one first, so that every
    // row moves once.
    let mut unmoved = rows.len();
    rows.extend_from_slice(&beginnings);
    let mut free = rows.len();
    for begin in beginnings.into_iter().rev() {
        let at = rows[..unmoved].partition_point(|row| row.start_ns < begin.end_ns);
        free -= unmoved - at + 1;
        rows.copy_within(at..unmoved, free + 1);
        rows[free] = begin;
        unmoved = at;
    }
    rows
}

/// By thread, the positions of its rows.
fn by_thread(rows: &[Row], threads: usize) -> Vec<Vec<u32>> {
    let mut order = vec![Vec::new(); threads];
    for (at, row) in rows.iter().enumerate() {
        order[row.thread as usize].push(at as u32);
    }
    order
}

/// Ties each row with a known waker to the last row that the waker had ended by then.
fn tie_to_wakers(rows: &mut [Row], order: &[Vec<u32>]) {
    // Waits end nearly in the order of their rows: the search starts at the last result.
    let mut places = vec![0usize; order.len()];
    for at in 0..rows.len() {
        let Row { blocked_outside, woken_by: waker, end_ns, .. } = rows[at];
        if !blocked_outside || waker == NONE {
            continue;
        }
        let (by_waker, place) = (&order[waker as usize], &mut places[waker as usize]);
        let ended = |place: usize| rows[by_waker[place] as usize].end_ns <= end_ns;
        while *place < by_waker.len() && ended(*place) {
            *place += 1;
        }
        while *place > 0 && !ended(*place - 1) {
            *place -= 1;
        }
        if *place > 0 {
            let (last, next) = (by_waker[*place - 1], by_waker.get(*place).copied());
            tie(rows, at, last, next);
        }
    }
}

/// Ties thread starts, and waits without a known waker, to the last row of another thread to end.
fn tie_to_latest(rows: &mut [Row], order: &[Vec<u32>], slices: Slices) {
    let mut next = vec![NONE; rows.len()];
    for of_thread in order {
        for pair in of_thread.windows(2) {
            next[pair[0] as usize] = pair[1];
        }
    }
    let mut by_end: Vec<(i64, u32)> =
        rows.iter().zip(0..).map(|(row, at)| (row.end_ns, at)).collect();
    by_end.sort_unstable();
    // For each place in `by_end`, the first place of its run of rows of the same thread.
    let mut run_begins: Vec<u32> = Vec::with_capacity(by_end.len());
    for (place, &(_, at)) in by_end.iter().enumerate() {
        let same =
            place > 0 && rows[by_end[place - 1].1 as usize].thread == rows[at as usize].thread;
        run_begins.push(if same { run_begins[place - 1] } else { place as u32 });
    }
    let mut ended = 0;
    for at in 0..rows.len() {
        let row = &rows[at];
        let ends_unseen = match row.source {
            NONE => slices.shows_beginning(row.end_ns),
            _ => row.blocked_outside && row.woken_by == NONE,
        };
        if !ends_unseen {
            continue;
        }
        while ended < by_end.len() && by_end[ended].0 <= row.end_ns {
            ended += 1;
        }
        while ended > 0 && by_end[ended - 1].0 > row.end_ns {
            ended -= 1;
        }
        let Some(mut place) = ended.checked_sub(1) else { continue };
        if rows[by_end[place].1 as usize].thread == row.thread {
            let Some(before) = (run_begins[place] as usize).checked_sub(1) else { continue };
            place = before;
        }
        // A row that ended before the wait began did not end it.
        let (end_ns, other) = by_end[place];
        if end_ns > row.start_ns {
            let following = Some(next[other as usize]).filter(|&next| next != NONE);
            tie(rows, at, other, following);
        }
    }
}

/// Lets row `at` end after row `last` of another thread; `next` is the row of that thread after it.
fn tie(rows: &mut [Row], at: usize, last: u32, next: Option<u32>) {
    let since_ns = rows[at].end_ns - rows[last as usize].end_ns;
    let most_ns = next.map_or(0, |next| rows[next as usize].cpu_ns);
    rows[at].after = last;
    rows[at].after_cpu_ns = since_ns.clamp(0, most_ns);
}
