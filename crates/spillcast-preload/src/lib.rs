//! Loaded with LD_PRELOAD: times the file I/O of the program it is loaded into, and may delay it.
//!
//! `calls` defines the functions that replace those of the C library, `next` finds the originals,
//! `observe` does the work around a call, `descriptors` knows which descriptors are regular files,
//! `thread` keeps the state of a thread, `setup` reads the environment, `start` initialises all.
//!
//! The program must not notice the library: errno is kept, no call allocates or waits, and nothing
//! panics. Functions are `C-unwind` and hold nothing to drop, because a cancelled thread unwinds
//! through them. No lock is taken and no interposed function is called from within, so a signal
//! handler may run at any point.
//!
//! Not observed: I/O that the C library makes by itself (stdio), whose bytes are reported when a
//! stream is closed; mapped files, io_uring, static binaries, system calls that are made without
//! the C library, and descriptors from `descriptors::LIMIT` on.

pub mod calls;
mod descriptors;
mod next;
mod observe;
mod setup;
mod start;
mod thread;
