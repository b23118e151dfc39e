//! Loaded with LD_PRELOAD: times the file I/O of the program it is loaded into, and may delay it.
//!
//! `calls` holds what the dynamic linker finds in place of the C library's functions, `next` finds
//! those, `observe` is what happens around a call, `descriptors` knows which descriptors are
//! regular files, `thread` keeps what belongs to one thread, `setup` reads the environment, `start`
//! sets all up.
//!
//! The program must not notice: errno is kept, nothing is allocated and nothing waits in a call,
//! and nothing panics. Functions are `C-unwind` and hold nothing to drop, since a cancelled thread
//! unwinds through them. No lock is taken and no function that is interposed is called from within,
//! so a signal handler may come in between anywhere.
//!
//! Unseen: I/O that the C library makes by itself (stdio), of which the bytes are reported when a
//! stream is closed; mapped files, io_uring, static binaries, system calls that are made without the
//! C library, and descriptors from `descriptors::LIMIT` on.

pub mod calls;
mod descriptors;
mod next;
mod observe;
mod setup;
mod start;
mod thread;
