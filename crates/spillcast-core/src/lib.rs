//! The core of spillcast without Python: the timed operation (`wait`), the histogram of times
//! (`histogram`), and the modules that produce or use them.

pub mod bins;
pub mod bursts;
pub mod cache;
pub mod capture;
pub mod cold_cache;
pub mod emulate;
pub mod histogram;
mod lock;
mod mounts;
mod native;
pub mod oracle;
pub mod packed;
pub mod probe;
pub mod proc;
mod random;
pub mod simulate;
pub mod spark;
pub mod storage;
pub mod system;
pub mod thread_trace;
pub mod unpack;
pub mod varint;
pub mod wait;
pub mod work;
