//! What the core and the preload library share: the observed system calls, and the shared-memory
//! ring through which preloaded programs report them.

mod call;
mod mapping;
pub mod record;
pub mod ring;

pub use call::{Call, CallKind, TO_END};
pub use mapping::Mapping;
