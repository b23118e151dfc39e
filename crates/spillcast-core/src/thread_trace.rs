//! What the threads of a recording did, each in its order: CPU, waits, and waits for each other.
//!
//! A thread's beginning is a row of its own. It, and a wait that no observed thread is known to have
//! ended, is taken to follow the last row of another thread that had ended by then: engines look in
//! turns whether others are done. Where no other had done anything meanwhile, the wait lasts as long
//! as it did.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::wait::{NameId, Names, Op, Wait};

/// No row, thread, file or number.
pub const NONE: u32 = u32::MAX;
const UNKNOWN: i64 = -1;

/// Of a recorded wait what its thread's trace needs, in 64 bytes; UNKNOWN and NONE for no number.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub start_ns: i64,
    pub elapsed_ns: i64,
    session: i64,
    cpu_before_ns: i64,
    woken_by: i64,
    offset: i64,
    /// 0 where none moved.
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

    /// Calls on files and waits for writeback; what is neither is a thread that waits for something
    /// else.
    pub fn on_file(&self) -> bool {
        self.op != Op::Null || self.file != NONE || self.temp
    }

    /// Reads or writes a temp file.
    pub fn moves(&self) -> bool {
        self.temp && self.op != Op::Null && self.bytes > 0
    }

    /// Makes, resizes, syncs or removes a temp file, or waits for writeback.
    pub fn changes(&self) -> bool {
        self.temp && self.op == Op::Null
    }

    pub fn offset(&self) -> Option<u64> {
        u64::try_from(self.offset).ok()
    }
}

/// One row a wait, by start; each thread's rows are in its order.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub start_ns: i64,
    pub end_ns: i64,
    /// Burned by the thread until `start_ns`.
    pub cpu_ns: i64,
    /// Ready without a core, between the end of the thread's last row and `start_ns`.
    pub ready_ns: i64,
    /// What the thread of row `after` burns after that row, before this one ends.
    pub after_cpu_ns: i64,
    /// The row of another thread that has to end before; NONE for none.
    pub after: u32,
    pub thread: u32,
    woken_by: u32,
    /// Position of the wait; NONE for the beginning of a thread.
    pub source: u32,
    /// A call that kept its core.
    pub on_core: bool,
    /// Neither on a file nor a beginning.
    pub blocked_outside: bool,
}

/// Begin and end of each stretch of the run whose waits were kept; none where all were.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slices<'a>(pub &'a [(i64, i64)]);

impl Slices<'_> {
    /// The number of slices that have begun by then.
    pub fn number(self, ns: i64) -> usize {
        self.0.partition_point(|slice| slice.0 <= ns)
    }

    /// When the slice of a wait that starts then begins; 0 where all waits were kept.
    fn begin_ns(self, start_ns: i64) -> i64 {
        match self.number(start_ns) {
            0 => start_ns.min(0),
            number => self.0[number - 1].0,
        }
    }

    /// Whether a thread began to work at this time, rather than before the first slice.
    fn shows_beginning(self, begin_ns: i64) -> bool {
        self.0.first().is_none_or(|first| first.0 == 0 || begin_ns > first.1)
    }
}

/// Numbers of sessions, ascending from 0.
pub struct Threads(FxHashMap<i64, u32>);

impl Threads {
    pub fn of<'a>(waits: impl Iterator<Item = &'a Recorded>) -> Threads {
        let mut last = None;
        let changes = waits.map(|wait| wait.session).filter(|&session| {
            let other = last != Some(session);
            last = Some(session);
            other
        });
        let distinct: FxHashSet<i64> = changes.collect();
        let mut sessions: Vec<i64> = distinct.into_iter().collect();
        sessions.sort_unstable();
        Threads(sessions.into_iter().zip(0..).collect())
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }

    pub fn of_wait(&self, wait: &Recorded) -> u32 {
        self.of_session(wait.session)
    }

    fn of_session(&self, session: i64) -> u32 {
        self.0.get(&session).copied().unwrap_or(NONE)
    }
}

/// The rows of the threads, and whether their CPU time was measured; else all time between two rows is
/// taken for it.
pub struct ThreadTrace {
    pub rows: Vec<Row>,
    pub cpu_known: bool,
}

/// The trace of waits by start, whose events are `names`.
///
/// Threads that neither do temp I/O nor wait, at one remove or more, for one that does are left out:
/// they sleep, or serve others.
pub fn thread_trace(waits: &[Recorded], names: &Names, slices: Slices) -> ThreadTrace {
    let requests: Vec<bool> =
        names.list().iter().map(|name| name.starts_with("io_uring_")).collect();
    let (rows, cpu_known) = rows_of_waits(waits, &requests, slices);
    let (rows, threads) = concerned(rows, waits);
    let mut rows = with_beginnings(rows, threads, slices);
    let order = by_thread(&rows, threads);
    tie_to_wakers(&mut rows, &order);
    if threads > 1 {
        tie_to_latest(&mut rows, &order, slices);
    }
    ThreadTrace { rows, cpu_known }
}

/// A row for each wait but requests that their thread had under way beside others, whose rows show how
/// it waited for them; and whether CPU time is known.
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
            // What is before a row's slice is not known, but for its own CPU time.
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

/// The rows of threads that temp I/O can hold up, numbered anew, and how many threads these are.
fn concerned(mut rows: Vec<Row>, waits: &[Recorded]) -> (Vec<Row>, usize) {
    let mut held_up = FxHashSet::default();
    let mut wakings = FxHashSet::default();
    for row in &rows {
        if waits[row.source as usize].temp {
            held_up.insert(row.thread);
        }
        if row.woken_by != NONE {
            wakings.insert((row.thread, row.woken_by));
        }
    }
    let mut before = 0;
    while held_up.len() > before {
        before = held_up.len();
        for (waiter, waker) in &wakings {
            if held_up.contains(waker) {
                held_up.insert(*waiter);
            }
        }
    }
    let mut threads: Vec<u32> = held_up.into_iter().collect();
    threads.sort_unstable();
    let all = rows.iter().map(|row| row.thread as usize + 1).max().unwrap_or(0);
    let mut number =
        vec![NONE; all.max(wakings.iter().map(|pair| pair.1 as usize + 1).max().unwrap_or(0))];
    for (new, &old) in threads.iter().enumerate() {
        number[old as usize] = new as u32;
    }
    rows.retain_mut(|row| {
        row.thread = number[row.thread as usize];
        row.woken_by = number.get(row.woken_by as usize).copied().unwrap_or(NONE);
        row.thread != NONE
    });
    (rows, threads.len())
}

/// With a row where each thread began to work. It lasts from the start of the recording, or of the
/// slice that its thread's first row is in. Before that the thread was not ready, but not there.
fn with_beginnings(mut rows: Vec<Row>, threads: usize, slices: Slices) -> Vec<Row> {
    let mut first = vec![true; threads];
    let mut beginnings: Vec<Row> = Vec::with_capacity(threads);
    for row in &mut rows {
        if std::mem::replace(&mut first[row.thread as usize], false) {
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
    // Each goes before the first row that starts after it. From the last on, so that no row moves twice.
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

/// The rows of each thread.
fn by_thread(rows: &[Row], threads: usize) -> Vec<Vec<u32>> {
    let mut order = vec![Vec::new(); threads];
    for (at, row) in rows.iter().enumerate() {
        order[row.thread as usize].push(at as u32);
    }
    order
}

/// Rows that their waker ended: it had ended a row of its own, and worked since.
fn tie_to_wakers(rows: &mut [Row], order: &[Vec<u32>]) {
    // Waits end by and by, so that the place of the last one is near.
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

/// Beginnings, and waits of which no waker is known: by the row of another thread that ended last.
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
    // Where the rows of one thread begin that ended one after the other.
    let mut begins: Vec<u32> = Vec::with_capacity(by_end.len());
    for (place, &(_, at)) in by_end.iter().enumerate() {
        let same =
            place > 0 && rows[by_end[place - 1].1 as usize].thread == rows[at as usize].thread;
        begins.push(if same { begins[place - 1] } else { place as u32 });
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
            let Some(before) = (begins[place] as usize).checked_sub(1) else { continue };
            place = before;
        }
        // What had ended before the wait began ended no wait.
        let (end_ns, other) = by_end[place];
        if end_ns > row.start_ns {
            let following = Some(next[other as usize]).filter(|&next| next != NONE);
            tie(rows, at, other, following);
        }
    }
}

/// Row `at` ends after row `last` of another thread, whose row after that is `next`.
fn tie(rows: &mut [Row], at: usize, last: u32, next: Option<u32>) {
    let since_ns = rows[at].end_ns - rows[last as usize].end_ns;
    let most_ns = next.map_or(0, |next| rows[next as usize].cpu_ns);
    rows[at].after = last;
    rows[at].after_cpu_ns = since_ns.clamp(0, most_ns);
}
