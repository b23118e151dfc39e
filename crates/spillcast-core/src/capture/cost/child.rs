//! A child of a measurement: the observed process, or one that does the same unobserved.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::task_table::{Task, TaskTable};

/// Calls in a burst, and turns that two processes take in a burst: few enough that the smallest
/// ring holds all reports of them.
pub const CALLS: usize = 400;
pub(crate) const SWITCHES: usize = 200;
/// Bytes that a call reads: a block of a database.
const BYTES: usize = 8192;

/// Performs the tasks that the table in the file `memory` gives to the child `index`, until it is killed.
///
/// Errors: those of opening the table, as when the measurement has ended.
pub fn serve(memory: &Path, index: usize) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let table = TaskTable::map(&File::options().read(true).write(true).open(memory)?)?;
    let mut cpus = CpuSet::new();
    cpus.set(table.cpu() as usize);
    sched_setaffinity(None, &cpus)?;
    let file = File::from(memfd_create("spillcast-cost", MemfdFlags::CLOEXEC)?);
    file.write_all_at(&[1; BYTES], 0)?;
    loop {
        table.give(index, Task::None);
        match table.next(index) {
            Task::Calls => (0..CALLS).for_each(|_| read(&file)),
            Task::Lead => (0..SWITCHES).for_each(|_| table.hand_over()),
            _ => (0..SWITCHES).for_each(|_| table.hand_back()),
        }
    }
}

/// Calls the C library's function, which a preloaded library may replace.
fn read(file: &File) {
    let mut block = [0u8; BYTES];
    // SAFETY: the buffer has BYTES bytes.
    let read = unsafe { libc::pread64(file.as_raw_fd(), block.as_mut_ptr().cast(), BYTES, 0) };
    assert_eq!(read, BYTES as isize, "a file in memory is read whole");
}
