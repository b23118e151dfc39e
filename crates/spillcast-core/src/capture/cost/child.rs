//! A child of a measurement: the process that is observed, or that does the same unobserved.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::board::{Board, Task};

/// Calls of a burst, and turns that two processes take in one: so few that the smallest ring holds
/// what a source reports of them.
pub const CALLS: usize = 400;
pub(crate) const SWITCHES: usize = 200;
/// What a call reads: a block of a database.
const BYTES: usize = 8192;

/// Does what the board of the measurement `memory` gives to `seat`, until it is killed.
///
/// Errors: where the board cannot be reached, as when the measurement has ended.
pub fn serve(memory: &Path, seat: usize) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let board = Board::map(&File::options().read(true).write(true).open(memory)?)?;
    let mut cpus = CpuSet::new();
    cpus.set(board.cpu() as usize);
    sched_setaffinity(None, &cpus)?;
    let file = File::from(memfd_create("spillcast-cost", MemfdFlags::CLOEXEC)?);
    file.write_all_at(&[1; BYTES], 0)?;
    loop {
        board.give(seat, Task::None);
        match board.next(seat) {
            Task::Calls => (0..CALLS).for_each(|_| read(&file)),
            Task::Lead => (0..SWITCHES).for_each(|_| board.hand_over()),
            _ => (0..SWITCHES).for_each(|_| board.hand_back()),
        }
    }
}

/// By the C library's function, which a library that was loaded before it may stand in for.
fn read(file: &File) {
    let mut block = [0u8; BYTES];
    // SAFETY: the buffer is as long as is said.
    let read = unsafe { libc::pread64(file.as_raw_fd(), block.as_mut_ptr().cast(), BYTES, 0) };
    assert_eq!(read, BYTES as isize, "a file in memory is read whole");
}
