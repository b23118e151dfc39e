//! One cell on an existing file: the measurement that a benchmark compares with others.

use std::fs::File;
use std::io;
use std::time::Duration;

use super::cell::{Offsets, Slice};
use super::engine::{self, Engine};
use crate::probe::clock;
use crate::probe::group::{Access, Cell, Group, Running};
use crate::probe::progress::Counters;
use crate::probe::scratch;

/// Keeps the operations of a cell in flight on a file without holes for `duration`. Returns them,
/// and the reason if io_uring was not used. A cell of writes overwrites the file.
pub fn measure_file(
    file: &File,
    cell: Cell,
    duration: Duration,
    psync: bool,
) -> io::Result<(Group, Option<String>)> {
    let file_bytes = file.metadata()?.len();
    if file_bytes < u64::from(cell.bytes) {
        return Err(io::Error::other("the file is smaller than one operation"));
    }
    scratch::set_direct(file, cell.access == Access::Direct)?;
    let (mut ring, mut threads) = (engine::ring_memory(1), engine::thread_memory(2));
    let mut engine = Engine::new(file, &mut ring, &mut threads, psync);
    let now_ns = clock::now_ns();
    let deadline_ns = now_ns + duration.as_nanos() as u64;
    let slice = Slice {
        cell,
        file,
        offsets: Offsets::new(&cell, file_bytes, now_ns),
        deadline_ns,
        end_ns: u64::MAX,
        operations_max: u64::MAX,
        counters: &Counters::default(),
    };
    let mut running = Running::default();
    engine.run(&slice, &mut running).map_err(|error| error.source)?;
    running.end_block();
    Ok((running.into_group(cell), engine.refusal))
}
