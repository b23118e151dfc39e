//! One access to one cache line, and where accesses come from.

use std::io;
use std::ops::ControlFlow;

/// The class of an access; a cache treats classes differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Class {
    /// A read of a table or an index in large pieces, in order.
    Scan,
    /// A read of single blocks, or of unknown kind.
    Read,
    /// A write of anything but temp data.
    Write,
    TempRead,
    TempWrite,
}

impl Class {
    pub const ALL: [Class; 5] =
        [Class::Scan, Class::Read, Class::Write, Class::TempRead, Class::TempWrite];

    pub fn name(self) -> &'static str {
        match self {
            Class::Scan => "scan",
            Class::Read => "read",
            Class::Write => "write",
            Class::TempRead => "temp read",
            Class::TempWrite => "temp write",
        }
    }

    pub fn is_write(self) -> bool {
        matches!(self, Class::Write | Class::TempWrite)
    }
}

/// An access to one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Which line: equal keys are the same line.
    pub key: u64,
    /// Seconds, on any clock that does not run backwards.
    pub time_s: u32,
    /// Bytes of the line that are moved.
    pub bytes: u32,
    /// Position of the object in a list of names.
    pub object: u32,
    /// Position of the query in a list.
    pub query: u32,
    pub class: Class,
    /// The last access of its query, which then drops its temp data.
    pub ends_query: bool,
}

/// Whether the consumer wants more requests.
pub type Flow = ControlFlow<()>;

/// Requests that can be gone through from the beginning any number of times.
pub trait Source {
    /// Hands on all requests in their order, in chunks.
    fn each(&self, take: &mut dyn FnMut(&[Request]) -> Flow) -> io::Result<()>;
}

/// Requests in memory.
impl Source for [Request] {
    fn each(&self, take: &mut dyn FnMut(&[Request]) -> Flow) -> io::Result<()> {
        let _ = take(self);
        Ok(())
    }
}

/// Requests are handed on in chunks of so many: they fit a core's own cache.
pub(super) const CHUNK: usize = 4096;
