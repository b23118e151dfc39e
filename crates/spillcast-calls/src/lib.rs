//! What the core and the preload library share: the system calls that are observed, and the ring of
//! shared memory through which preloaded programs report them.

mod call;
mod mapping;
pub mod record;
pub mod ring;

pub use call::{Call, CallKind, TO_END};
pub use mapping::Mapping;
