//! One thread of a simulation: where it stands in its rows, and what others wait for it to do.

use super::{Io, Row, Wait};

/// What a lane does next.
pub enum Next {
    /// Burn CPU for so long.
    Core {
        ns: u64,
    },
    /// Wait off the core; `temp` is the same time where it is temp I/O.
    Wait {
        ns: u64,
        temp: Option<u64>,
    },
    /// Wait for the storage, which has yet to say how long.
    Io {
        row: usize,
        io: Io,
    },
    /// Wait for another lane.
    Signal,
    /// The row is over; look again.
    Row,
    Ended,
}

/// Where in a row a lane stands.
#[derive(Clone, Copy, Debug, PartialEq)]
enum At {
    /// Burning the row's CPU time, so much of it done.
    Cpu(u64),
    /// On the core in the row's wait, so much of it done.
    OnCore(u64),
    /// About to wait for the storage.
    Io,
    Waiting,
    /// The row's wait is over.
    Over,
}

/// A lane is done with a row of another once it has burned `cpu_ns` in the row at `position`.
struct Signal {
    position: usize,
    cpu_ns: u64,
    row: usize,
}

pub struct Lane {
    rows: Vec<usize>,
    position: usize,
    at: At,
    /// Length of the stretch that is under way.
    stretch_ns: u64,
    /// How long the storage takes, where the row waits for it.
    io_ns: u64,
    /// What others wait for, first first.
    signals: Vec<Signal>,
    signalled: usize,
    waits_for_signal: bool,
    pub on_core: bool,
    /// Since the lane was given its core.
    pub held_ns: u64,
}

/// The lanes of `rows`, by thread.
pub fn lanes(rows: &[Row]) -> Vec<Lane> {
    let threads = rows.iter().map(|row| row.thread as usize + 1).max().unwrap_or(0);
    let mut lanes: Vec<Lane> = (0..threads).map(|_| Lane::new()).collect();
    let mut positions = Vec::with_capacity(rows.len());
    for (index, row) in rows.iter().enumerate() {
        let own = &mut lanes[row.thread as usize].rows;
        positions.push(own.len());
        own.push(index);
    }
    for (index, row) in rows.iter().enumerate() {
        if let Wait::Until { row: after, cpu_ns } = row.wait {
            let lane = &mut lanes[rows[after].thread as usize];
            let position = positions[after] + 1;
            let most_ns = lane.rows.get(position).map_or(0, |&next| rows[next].cpu_ns);
            lane.signals.push(Signal { position, cpu_ns: cpu_ns.min(most_ns), row: index });
        }
    }
    for lane in &mut lanes {
        lane.signals.sort_by_key(|signal| (signal.position, signal.cpu_ns));
    }
    lanes
}

impl Lane {
    fn new() -> Lane {
        Lane {
            rows: Vec::new(),
            position: 0,
            at: At::Cpu(0),
            stretch_ns: 0,
            io_ns: 0,
            signals: Vec::new(),
            signalled: 0,
            waits_for_signal: false,
            on_core: false,
            held_ns: 0,
        }
    }

    /// The rows that wait for what the lane has done by now, each told once.
    pub fn signals_due(&mut self) -> Vec<usize> {
        let burned_ns = match self.at {
            At::Cpu(ns) => ns,
            _ => u64::MAX,
        };
        let mut due = Vec::new();
        while let Some(signal) = self.signals.get(self.signalled) {
            let passed = signal.position < self.position;
            let here = signal.position == self.position && signal.cpu_ns <= burned_ns;
            if !passed && !here {
                break;
            }
            due.push(signal.row);
            self.signalled += 1;
        }
        due
    }

    pub fn next(&mut self, rows: &[Row], happened: &[bool]) -> Next {
        let Some(&index) = self.rows.get(self.position) else { return Next::Ended };
        let row = &rows[index];
        match (self.at, row.wait) {
            (At::Cpu(done_ns), _) if done_ns < row.cpu_ns => {
                Next::Core { ns: self.until_signal(done_ns, row.cpu_ns) }
            }
            (At::Cpu(_), Wait::OnCore(ns)) if ns > 0 => {
                self.at = At::OnCore(0);
                Next::Core { ns }
            }
            (At::OnCore(done_ns), _) if done_ns < self.on_core_ns(row) => {
                Next::Core { ns: self.on_core_ns(row) - done_ns }
            }
            (At::Cpu(_), Wait::Io(io)) => Next::Io { row: index, io },
            (At::Io, _) if self.io_ns > 0 => self.waits(self.io_ns, row),
            (At::Cpu(_), Wait::For(ns)) if ns > 0 => self.waits(ns, row),
            (At::Cpu(_), Wait::Until { .. }) if !happened[index] => {
                self.at = At::Waiting;
                self.waits_for_signal = true;
                Next::Signal
            }
            _ => {
                self.position += 1;
                self.at = At::Cpu(0);
                Next::Row
            }
        }
    }

    /// The storage has said how long the row's operation takes.
    pub fn io_begins(&mut self, ns: u64, on_core: bool) {
        self.io_ns = ns;
        self.at = if on_core { At::OnCore(0) } else { At::Io };
    }

    fn waits(&mut self, ns: u64, row: &Row) -> Next {
        self.at = At::Waiting;
        self.stretch_ns = ns;
        Next::Wait { ns, temp: row.temp.then_some(ns) }
    }

    /// CPU time within the row's wait of `ns`.
    pub fn call_ns(&self, rows: &[Row], ns: u64) -> u64 {
        self.rows.get(self.position).map_or(0, |&row| rows[row].call_ns.min(ns))
    }

    /// Of the row's wait, what is spent on the core.
    fn on_core_ns(&self, row: &Row) -> u64 {
        match row.wait {
            Wait::OnCore(ns) => ns,
            _ => self.io_ns,
        }
    }

    /// Begins a stretch on the core of at most `ns`; the whole wait where it is temp I/O that begins.
    pub fn take_stretch(&mut self, rows: &[Row], ns: u64) -> (u64, Option<u64>) {
        self.stretch_ns = ns;
        self.held_ns += ns;
        let row = &rows[self.rows[self.position]];
        let begins = row.temp && self.at == At::OnCore(0);
        (ns, begins.then(|| self.on_core_ns(row)))
    }

    /// The stretch is over; whether a temp operation ended with it.
    pub fn stretch_ended(&mut self, rows: &[Row]) -> bool {
        let Some(&index) = self.rows.get(self.position) else { return false };
        let row = &rows[index];
        match self.at {
            At::Cpu(done_ns) => self.at = At::Cpu(done_ns + self.stretch_ns),
            At::OnCore(done_ns) => {
                self.at = At::OnCore(done_ns + self.stretch_ns);
                return row.temp && done_ns + self.stretch_ns >= self.on_core_ns(row);
            }
            At::Waiting => {
                self.at = At::Over;
                return row.temp;
            }
            At::Io | At::Over => (),
        }
        false
    }

    /// The row that waits for another lane, if it does so now.
    pub fn waiting_row(&self) -> Option<usize> {
        self.waits_for_signal.then(|| self.rows[self.position])
    }

    pub fn wait_over(&mut self) {
        self.waits_for_signal = false;
        self.at = At::Over;
    }

    /// CPU time to burn before somebody is to be told, or the row's CPU time ends.
    fn until_signal(&self, done_ns: u64, whole_ns: u64) -> u64 {
        let next = self.signals.get(self.signalled);
        let at_ns = next.filter(|signal| signal.position == self.position).map(|s| s.cpu_ns);
        at_ns.map_or(whole_ns, |ns| ns.min(whole_ns)) - done_ns
    }
}
