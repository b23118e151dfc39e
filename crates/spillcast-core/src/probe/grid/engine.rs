//! Keeps the operations of a cell in flight, with io_uring or with threads and blocking calls.
//!
//! Direct I/O uses io_uring with a registered file and registered buffers. A separate system call
//! replaces each finished operation: batches would reach the storage as bursts. If io_uring is
//! refused, `depth` threads take its place.
//!
//! I/O through the page cache always uses threads. Programs that use the page cache make blocking
//! calls. io_uring serves cached reads within the submitting call, one after the other, and passes
//! writes to a kernel thread, so its latencies would be those of its own queue (`cargo run
//! --release --example probe_cell` shows both).

use std::fs::{self, File};
use std::io;

use super::cell::{BYTES_MAX, DEPTH_MAX, Slice, SliceError};
use super::psync;
use super::uring::Ring;
use crate::probe::arena::Arena;
use crate::probe::group::{Access, Running};

const DISABLED: &str = "/proc/sys/kernel/io_uring_disabled";

/// Buffers for a ring: all that may be in flight at a time.
pub(super) fn ring_memory(seed: u64) -> Arena {
    Arena::new(1, DEPTH_MAX * BYTES_MAX, seed)
}

/// Buffers for threads; each thread cycles through its part.
pub(super) fn thread_memory(seed: u64) -> Arena {
    Arena::new(DEPTH_MAX, BYTES_MAX, seed)
}

pub(super) struct Engine<'a> {
    ring: Option<Ring<'a>>,
    threads: &'a mut Arena,
    /// The reason why there is no ring.
    pub(super) refusal: Option<String>,
}

impl<'a> Engine<'a> {
    /// Uses io_uring for direct I/O on `file`, unless `psync` excludes it or the kernel refuses it.
    pub(super) fn new(
        file: &File,
        ring: &'a mut Arena,
        threads: &'a mut Arena,
        psync: bool,
    ) -> Engine<'a> {
        let made = match (psync, ring.slices(1).next()) {
            (false, Some(memory)) => Ring::new(file, memory).map_err(|error| refusal(&error)),
            _ => Err("psync was requested".to_owned()),
        };
        match made {
            Ok(ring) => Engine { ring: Some(ring), threads, refusal: None },
            Err(refusal) => Engine { ring: None, threads, refusal: Some(refusal) },
        }
    }

    pub(super) fn registered_buffers(&self) -> bool {
        self.ring.as_ref().is_some_and(Ring::registered_buffers)
    }

    pub(super) fn run(&mut self, slice: &Slice, running: &mut Running) -> Result<(), SliceError> {
        match (&mut self.ring, slice.cell.access) {
            (Some(ring), Access::Direct) => ring.run(slice, running),
            _ => psync::run(slice, self.threads, running),
        }
    }
}

/// The reason why io_uring_setup failed, in words that tell users where to look.
fn refusal(error: &io::Error) -> String {
    let disabled = fs::read_to_string(DISABLED).unwrap_or_default();
    match (error.raw_os_error(), disabled.trim()) {
        (Some(libc::ENOSYS), _) => "this kernel has no io_uring".to_owned(),
        (Some(libc::EPERM), level @ ("1" | "2")) => format!("kernel.io_uring_disabled is {level}"),
        (Some(libc::EPERM | libc::EACCES), _) => {
            format!("io_uring is refused, as by the seccomp filter of a container ({error})")
        }
        _ => format!("io_uring could not be set up: {error}"),
    }
}
