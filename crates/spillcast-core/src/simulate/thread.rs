//! One thread of a simulation: its position in its rows, and the signals that it sends to others.

use super::rows::{Io, Row, Rows, Wait};

/// What a thread does next.
pub(crate) enum Next {
    /// Burn CPU.
    Core {
        ns: u64,
    },
    /// Wait off the core; `temp` is the same time if the wait is temp I/O.
    Wait {
        ns: u64,
        temp: Option<u64>,
    },
    /// Issue an operation, whose time is not yet known.
    Io {
        row: usize,
        io: Io,
    },
    /// Wait for another thread's signal.
    Signal,
    /// Go to the next row.
    Row,
    Ended,
}

/// The position of a thread in its row.
#[derive(Clone, Copy, Debug, PartialEq)]
enum At {
    /// In the row's CPU time, of which this many nanoseconds are burned.
    Cpu(u64),
    /// In a wait on the core, of which this many nanoseconds have passed.
    OnCore(u64),
    /// Before a wait for the storage.
    Io,
    Waiting,
    /// The row's wait is over.
    Over,
}

impl Default for At {
    fn default() -> At {
        At::Cpu(0)
    }
}

/// A signal to a row of another thread, sent after `cpu_ns` in the row at `position`.
struct Signal {
    position: usize,
    cpu_ns: u64,
    row: usize,
}

#[derive(Default)]
pub struct Thread {
    rows: Vec<u32>,
    position: usize,
    /// The row at the position; arbitrary once the thread has ended.
    row: Row,
    at: At,
    /// Length of the current stretch.
    stretch_ns: u64,
    /// Time of the row's operation.
    io_ns: u64,
    /// Signals to other threads, in order, and the number sent.
    signals: Vec<Signal>,
    signals_given: usize,
    waits_for_signal: bool,
    /// End of the current stretch, and the number of its event.
    pub due: (u64, u64),
    pub(crate) on_core: bool,
    /// Time for which the thread will have held its core at the end of the current stretch.
    pub(crate) held_ns: u64,
}

/// The threads of `rows`, by their numbers.
pub fn threads<R: Rows + ?Sized>(rows: &R) -> Vec<Thread> {
    let mut threads: Vec<Thread> = Vec::new();
    let mut signals = false;
    for index in 0..rows.count() {
        let row = rows.row(index);
        let thread = row.thread as usize;
        if threads.len() <= thread {
            threads.resize_with(thread + 1, Thread::default);
        }
        threads[thread].rows.push(u32::try_from(index).expect("fewer than 2^32 rows"));
        signals |= matches!(row.wait, Wait::Until { .. });
    }
    if signals {
        add_signals(&mut threads, rows);
    }
    for thread in &mut threads {
        thread.rows.shrink_to_fit();
        thread.signals.sort_by_key(|signal| (signal.position, signal.cpu_ns));
        thread.look(rows);
    }
    threads
}

/// Adds a signal for each row that waits for another thread.
fn add_signals<R: Rows + ?Sized>(threads: &mut [Thread], rows: &R) {
    for index in 0..rows.count() {
        if let Wait::Until { row: after, cpu_ns } = rows.row(index).wait {
            let thread = &mut threads[rows.row(after).thread as usize];
            let before = thread.rows.partition_point(|&row| (row as usize) < after);
            let position = before + 1;
            let following = thread.rows.get(position);
            let most_ns = following.map_or(0, |&next| rows.row(next as usize).cpu_ns);
            thread.signals.push(Signal { position, cpu_ns: cpu_ns.min(most_ns), row: index });
        }
    }
}

impl Thread {
    /// The rows to signal by now; returns each once.
    pub(crate) fn signals_due(&mut self) -> Vec<usize> {
        let burned_ns = match self.at {
            At::Cpu(ns) => ns,
            _ => u64::MAX,
        };
        let mut due = Vec::new();
        while let Some(signal) = self.signals.get(self.signals_given) {
            let passed = signal.position < self.position;
            let reached = signal.position == self.position && signal.cpu_ns <= burned_ns;
            if !passed && !reached {
                break;
            }
            due.push(signal.row);
            self.signals_given += 1;
        }
        due
    }

    /// What the thread does next; `signalled` tells by row whether its wait is over.
    pub fn next<R: Rows + ?Sized>(&mut self, rows: &R, signalled: &[bool]) -> Next {
        let Some(&index) = self.rows.get(self.position) else { return Next::Ended };
        let (index, row) = (index as usize, self.row);
        match (self.at, row.wait) {
            (At::Cpu(done_ns), _) if done_ns < row.cpu_ns => {
                Next::Core { ns: self.until_signal(done_ns, row.cpu_ns) }
            }
            (At::Cpu(_), Wait::OnCore(ns)) if ns > 0 => {
                self.at = At::OnCore(0);
                Next::Core { ns }
            }
            (At::OnCore(done_ns), _) if done_ns < self.on_core_ns() => {
                Next::Core { ns: self.on_core_ns() - done_ns }
            }
            (At::Cpu(_), Wait::Io(io)) => Next::Io { row: index, io },
            (At::Io, _) if self.io_ns > 0 => self.waits(self.io_ns),
            (At::Cpu(_), Wait::For(ns)) if ns > 0 => self.waits(ns),
            (At::Cpu(_), Wait::Until { .. }) if !signalled[index] => {
                self.at = At::Waiting;
                self.waits_for_signal = true;
                Next::Signal
            }
            _ => {
                self.position += 1;
                self.at = At::Cpu(0);
                self.look(rows);
                Next::Row
            }
        }
    }

    /// Starts the row's operation, which takes `ns`.
    pub(crate) fn io_begins(&mut self, ns: u64, on_core: bool) {
        self.io_ns = ns;
        self.at = if on_core { At::OnCore(0) } else { At::Io };
    }

    fn waits(&mut self, ns: u64) -> Next {
        self.at = At::Waiting;
        self.stretch_ns = ns;
        Next::Wait { ns, temp: self.row.temp.then_some(ns) }
    }

    /// Loads the row at the position.
    fn look<R: Rows + ?Sized>(&mut self, rows: &R) {
        if let Some(&index) = self.rows.get(self.position) {
            self.row = rows.row(index as usize);
        }
    }

    /// CPU time within the row's wait, which lasts `ns`.
    pub(crate) fn call_ns(&self, ns: u64) -> u64 {
        self.row.call_ns.min(ns)
    }

    /// Time of the row's wait on the core.
    fn on_core_ns(&self) -> u64 {
        match self.row.wait {
            Wait::OnCore(ns) => ns,
            _ => self.io_ns,
        }
    }

    /// Starts a stretch of `ns` on the core; returns `ns`, and the whole wait if temp I/O starts.
    pub(crate) fn take_stretch(&mut self, ns: u64) -> (u64, Option<u64>) {
        self.stretch_ns = ns;
        self.held_ns += ns;
        let begins = self.row.temp && self.at == At::OnCore(0);
        (ns, begins.then(|| self.on_core_ns()))
    }

    pub(crate) fn stretch_ns(&self) -> u64 {
        self.stretch_ns
    }

    /// Shortens the current stretch on the core to `ns`.
    pub(crate) fn shorten_stretch(&mut self, ns: u64) {
        self.held_ns -= self.stretch_ns - ns;
        self.stretch_ns = ns;
    }

    /// CPU time burned in the row, or time on the core in its wait.
    pub(crate) fn done_ns(&self) -> u64 {
        match self.at {
            At::Cpu(done_ns) | At::OnCore(done_ns) => done_ns,
            At::Io | At::Waiting | At::Over => 0,
        }
    }

    /// CPU time left until the thread does something else.
    pub(crate) fn left_ns(&self) -> u64 {
        match self.at {
            At::Cpu(done_ns) => self.until_signal(done_ns, self.row.cpu_ns),
            At::OnCore(done_ns) => self.on_core_ns() - done_ns,
            At::Io | At::Waiting | At::Over => 0,
        }
    }

    /// Burns `ns` of CPU time at once.
    pub(crate) fn burn(&mut self, ns: u64) {
        if let At::Cpu(done_ns) | At::OnCore(done_ns) = &mut self.at {
            *done_ns += ns;
        }
    }

    /// Ends the current stretch; returns true if a temp operation ended with it.
    pub(crate) fn stretch_ended(&mut self) -> bool {
        if self.position >= self.rows.len() {
            return false;
        }
        match self.at {
            At::Cpu(done_ns) => self.at = At::Cpu(done_ns + self.stretch_ns),
            At::OnCore(done_ns) => {
                self.at = At::OnCore(done_ns + self.stretch_ns);
                return self.row.temp && done_ns + self.stretch_ns >= self.on_core_ns();
            }
            At::Waiting => {
                self.at = At::Over;
                return self.row.temp;
            }
            At::Io | At::Over => (),
        }
        false
    }

    /// The row in which the thread waits for another thread, if any.
    pub(crate) fn waiting_row(&self) -> Option<usize> {
        self.waits_for_signal.then(|| self.rows[self.position] as usize)
    }

    pub(crate) fn wait_over(&mut self) {
        self.waits_for_signal = false;
        self.at = At::Over;
    }

    /// CPU time left until the next signal of this row, or until the end of the row's CPU time.
    fn until_signal(&self, done_ns: u64, whole_ns: u64) -> u64 {
        let next = self.signals.get(self.signals_given);
        let at_ns = next.filter(|signal| signal.position == self.position).map(|s| s.cpu_ns);
        at_ns.map_or(whole_ns, |ns| ns.min(whole_ns)) - done_ns
    }
}
