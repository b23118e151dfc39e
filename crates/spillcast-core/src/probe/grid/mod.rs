//! A grid of cells measured without a recording: op, size, depth, pattern and access.
//!
//! All cells share one file that was written before. They take turns, so that a drift of the
//! machine or the storage affects all; each turn is a block of the cell's group.

mod cell;
mod engine;
mod knee;
mod psync;
mod single;
mod sustained;
mod uring;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

pub use super::group::Cell;
pub use cell::cells;
use serde::Serialize;
pub use single::measure_file;
pub use sustained::Sustained;

use super::arena::Slice as Memory;
use super::clock;
use super::error::ProbeError;
use super::group::{Access, Group, Running};
use super::place::{Filesystem, Place};
use super::progress::{Counters, Progress};
use super::scratch;
use crate::random;
use crate::wait::Op;
use cell::{BYTES_MAX, Offsets, Slice};
use engine::Engine;

/// Turns of each cell, if time allows.
const ROUNDS: usize = 5;
/// Shares of the time budget after which the file must be written, and the cells end.
const PREFILL_SHARE: f64 = 0.1;
const CELLS_SHARE: f64 = 0.85;
/// Maximum size of the file, which need only exceed a device's own cache.
const FILE_BYTES_MAX: u64 = 1 << 30;
const FILE_BYTES_MIN: u64 = 4 << 20;
/// Bytes written between two checks of the time, before the cells start.
const PREFILL_STRIDE_BYTES: u64 = 16 << 20;

#[derive(Clone, Debug)]
pub struct Options {
    pub dir: PathBuf,
    /// Time for the whole run. Each turn may exceed it by the operations in flight.
    pub budget: Duration,
    /// Maximum size of all files at a time; None for all free space but a reserve.
    pub budget_bytes: Option<u64>,
    /// Use threads with blocking calls for direct I/O even if the kernel has io_uring.
    pub psync: bool,
}

/// Serialised as the facts of storage.json.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// One for each measured cell, in arbitrary order.
    #[serde(skip)]
    pub groups: Vec<Group>,
    /// The reason why direct I/O did not use io_uring; None if it did.
    pub io_uring_refusal: Option<String>,
    /// Whether the kernel kept the buffers mapped, which the limit of locked memory may prevent.
    pub registered_buffers: bool,
    /// The reason why there are no direct cells; None if there are.
    pub direct_refusal: Option<String>,
    pub cells: u64,
    /// Cells omitted for lack of time.
    pub cells_without_time: u64,
    /// Cells with more bytes in flight than the file holds.
    pub cells_without_room: u64,
    pub rounds: u32,
    pub file_bytes: u64,
    /// None for lack of time or room.
    #[serde(skip)]
    pub sustained: Option<Sustained>,
    pub elapsed_ns: u64,
    #[serde(skip)]
    pub filesystem: Filesystem,
    /// The latency that would be measured for an operation that takes no time.
    pub(crate) floor_ns: u64,
}

/// A measurement of a directory. One thread runs it; others may watch and cancel it.
pub struct Grid {
    place: Place,
    options: Options,
    /// Maximum size of all files at a time.
    budget_bytes: u64,
    counters: Counters,
}

impl Grid {
    /// Checks the directory and its free space; writes nothing.
    pub fn new(options: Options) -> Result<Grid, ProbeError> {
        let place = Place::new(&options.dir)?;
        place.check_room(FILE_BYTES_MIN)?;
        let room_bytes = place.room_bytes().unwrap_or(u64::MAX);
        let budget_bytes = options.budget_bytes.unwrap_or(u64::MAX).min(room_bytes);
        if budget_bytes < FILE_BYTES_MIN {
            return Err(ProbeError::BudgetTooSmall { budget_bytes, least_bytes: FILE_BYTES_MIN });
        }
        let counters = Counters::default();
        Ok(Grid { place, options, budget_bytes, counters })
    }

    /// Measures; blocks until done, cancelled or failed. Nothing stays on the storage.
    pub fn run(&self) -> Result<Outcome, ProbeError> {
        self.counters.check()?;
        let seed =
            scratch::random().map_err(|e| self.place.io_error("asking for random numbers", e))?;
        let mut ring_memory = engine::ring_memory(seed as u64);
        let mut thread_memory = engine::thread_memory((seed >> 64) as u64);
        let start_ns = self.counters.start();
        let end_ns = self.deadline_ns(start_ns, 1.0);
        let mut outcome = {
            let mut threads = thread_memory.slices(1);
            let memory = threads.next().expect("one slice");
            let prefilled = self.prefill(&memory, self.deadline_ns(start_ns, PREFILL_SHARE))?;
            drop(threads);
            let engine = Engine::new(
                &prefilled.file,
                &mut ring_memory,
                &mut thread_memory,
                self.options.psync,
            );
            Rounds::new(self, &prefilled, engine, seed as u64)
                .run(self.deadline_ns(start_ns, CELLS_SHARE))?
        };
        // The file of the cells is gone, so the budget is available for another.
        let mut memory = thread_memory.slices(1);
        let memory = &mut memory.next().expect("one slice");
        if clock::now_ns() < end_ns && self.budget_bytes > BYTES_MAX as u64 {
            let (place, counters) = (&self.place, &self.counters);
            let written = sustained::measure(place, memory, self.budget_bytes, end_ns, counters)?;
            outcome.sustained = Some(written);
        }
        self.counters.check()?;
        outcome.elapsed_ns = self.counters.stop();
        Ok(outcome)
    }

    /// Progress of the run. Steps are milliseconds of the budget.
    pub fn progress(&self) -> Progress {
        let total_ms = self.options.budget.as_millis() as u64;
        let progress = self.counters.read(total_ms);
        Progress { steps_done: total_ms.min(progress.elapsed.as_millis() as u64), ..progress }
    }

    /// Ends the run; a run that starts later ends at once.
    pub fn cancel(&self) {
        self.counters.cancel();
    }

    fn deadline_ns(&self, start_ns: u64, share: f64) -> u64 {
        start_ns + self.options.budget.mul_f64(share).as_nanos() as u64
    }

    /// A file that is completely on the storage, as large as time and room allow.
    fn prefill(&self, memory: &Memory, deadline_ns: u64) -> Result<Prefilled, ProbeError> {
        let failed = |doing: &str, error| self.place.io_error(doing, error);
        let file = scratch::create(&self.place.dir).map_err(|e| failed("opening a file", e))?;
        let most_bytes =
            FILE_BYTES_MAX.min(self.budget_bytes) / BYTES_MAX as u64 * BYTES_MAX as u64;
        let start_ns = clock::now_ns();
        let mut bytes = 0;
        while bytes < most_bytes && (bytes < FILE_BYTES_MIN || clock::now_ns() < deadline_ns) {
            self.counters.check()?;
            let piece = PREFILL_STRIDE_BYTES.min(most_bytes - bytes);
            file.write_all_at(&memory.all()[..piece as usize], bytes)
                .map_err(|e| failed(&format!("writing the first {} bytes", bytes + piece), e))?;
            file.sync_data().map_err(|e| failed("fdatasync", e))?;
            bytes += piece;
            self.counters.add(piece);
        }
        let elapsed_ns = clock::now_ns() - start_ns;
        Ok(Prefilled { file, bytes, bytes_per_ns: bytes as f64 / elapsed_ns.max(1) as f64 })
    }
}

/// The file that all cells share.
struct Prefilled {
    file: File,
    bytes: u64,
    /// Rate at which the file reached the storage.
    bytes_per_ns: f64,
}

/// The cells and their measurements.
struct Rounds<'a> {
    grid: &'a Grid,
    prefilled: &'a Prefilled,
    engine: Engine<'a>,
    cells: Vec<(Cell, Running)>,
    direct_refusal: Option<String>,
    without_room: usize,
    seed: u64,
}

impl<'a> Rounds<'a> {
    fn new(grid: &'a Grid, prefilled: &'a Prefilled, engine: Engine<'a>, seed: u64) -> Rounds<'a> {
        let direct_refusal = direct_refusal(&prefilled.file);
        let mut cells = cells();
        if direct_refusal.is_some() {
            cells.retain(|cell| cell.access == Access::Buffered);
        }
        let count = cells.len();
        cells.retain(|cell| u64::from(cell.bytes) * u64::from(cell.depth) <= prefilled.bytes);
        let without_room = count - cells.len();
        let cells = cells.into_iter().map(|cell| (cell, Running::default())).collect();
        Rounds { grid, prefilled, engine, cells, direct_refusal, without_room, seed }
    }

    /// Gives every cell its turns. The first round is in order of increasing depth; each later
    /// round has an order of its own, so that no cell always follows the same other.
    fn run(mut self, deadline_ns: u64) -> Result<Outcome, ProbeError> {
        let count = self.cells.len();
        let mut rounds = 0;
        for round in 0..ROUNDS {
            let order = random::Shuffle::new(count as u64, self.seed ^ round as u64);
            for position in 0..count {
                let left = (count * (ROUNDS - round) - position) as u64;
                let left_ns = deadline_ns.saturating_sub(clock::now_ns());
                if left_ns == 0 {
                    break;
                }
                rounds = round as u32 + 1;
                let at = if round == 0 { position } else { order.at(position as u64) as usize };
                self.turn(at, left_ns / left, deadline_ns)?;
            }
        }
        let budget = self.grid.options.budget;
        let outcome = self.outcome(rounds);
        if outcome.groups.is_empty() { Err(ProbeError::NoTime { budget }) } else { Ok(outcome) }
    }

    /// One turn of one cell, which takes about `share_ns` in all.
    fn turn(&mut self, at: usize, share_ns: u64, end_ns: u64) -> Result<(), ProbeError> {
        let place = &self.grid.place;
        let Prefilled { file, bytes: file_bytes, bytes_per_ns } = self.prefilled;
        let (cell, running) = &mut self.cells[at];
        let cell = *cell;
        self.seed = random::next(&mut self.seed);
        scratch::set_direct(file, cell.access == Access::Direct)
            .map_err(|e| place.io_error("setting O_DIRECT", e))?;
        // Data left in the page cache by an earlier turn would hide the storage.
        scratch::drop_cache(file);
        let offsets = Offsets::new(&cell, *file_bytes, self.seed);
        let flushed = cell.access == Access::Buffered && cell.op == Op::Write;
        // Half of the time is for flushing the writes.
        let share_ns = if flushed { share_ns / 2 } else { share_ns };
        let operations_max = match (cell.access, cell.op) {
            (Access::Direct, _) => u64::MAX,
            (Access::Buffered, Op::Write) => {
                let affordable = share_ns as f64 * bytes_per_ns / f64::from(cell.bytes);
                (affordable as u64).max(cell.least_operations())
            }
            // Data that was read once is in memory.
            (Access::Buffered, _) => offsets.count(),
        };
        let slice = Slice {
            cell,
            file,
            offsets,
            deadline_ns: clock::now_ns() + share_ns,
            end_ns,
            operations_max,
            counters: &self.grid.counters,
        };
        self.engine
            .run(&slice, running)
            .map_err(|error| place.io_error(error.doing, error.source))?;
        running.end_block();
        self.grid.counters.check()?;
        if flushed {
            file.sync_data().map_err(|e| place.io_error("fdatasync", e))?;
        }
        Ok(())
    }

    fn outcome(self, rounds: u32) -> Outcome {
        let cells = self.cells.len() + self.without_room;
        let group = |(cell, running): (Cell, Running)| running.into_group(cell);
        let measured = self.cells.len();
        let groups: Vec<Group> =
            self.cells.into_iter().map(group).filter(|group| group.histogram.count() > 0).collect();
        Outcome {
            cells: cells as u64,
            cells_without_time: (measured - groups.len()) as u64,
            cells_without_room: self.without_room as u64,
            groups,
            io_uring_refusal: self.engine.refusal.clone(),
            registered_buffers: self.engine.registered_buffers(),
            direct_refusal: self.direct_refusal,
            rounds,
            file_bytes: self.prefilled.bytes,
            sustained: None,
            elapsed_ns: 0,
            filesystem: self.grid.place.filesystem.clone(),
            floor_ns: clock::floor_ns(),
        }
    }
}

/// Why a file does not support direct I/O; some file systems report that only on use.
fn direct_refusal(file: &File) -> Option<String> {
    let tried = scratch::set_direct(file, true).and_then(|()| {
        let mut arena = super::arena::Arena::new(1, 4096, 0);
        let mut memory = arena.slices(1).next().expect("one slice");
        file.read_exact_at(memory.buffer(4096), 0)
    });
    tried.err().map(|error| error.to_string())
}
