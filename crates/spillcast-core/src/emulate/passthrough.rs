//! The backing files behind the mount: looked up, and read and written at the pace of the model.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use fuser::{FileAttr, INodeNo};

use super::backing::{attributes, read_up_to};
use super::floor;
use super::listings::Listings;
use super::nodes::{Held, Nodes, open_child};
use super::pace::Pace;
use crate::lock::lock;
use crate::storage::Operation;
use crate::system::now_ns;
use crate::wait::Op;

/// The largest I/O that stays a single request: the kernel's default limit.
pub(crate) const REQUEST_BYTES_MAX: u32 = 1 << 20;

/// The page cache sends requests out of order: this far apart they still count as sequential.
const REORDERED_BYTES: u64 = 2 * REQUEST_BYTES_MAX as u64;

pub(crate) struct Passthrough {
    pub(crate) nodes: Nodes,
    pub(crate) listings: Listings,
    pub page_cache: bool,
    pace: Arc<Pace>,
    buffers: Buffers,
}

impl Passthrough {
    pub fn new(backing: &Path, pace: Arc<Pace>, page_cache: bool) -> io::Result<Passthrough> {
        let root = File::open(backing)?;
        if !root.metadata()?.is_dir() {
            return Err(io::Error::from_raw_os_error(libc::ENOTDIR));
        }
        Ok(Passthrough {
            nodes: Nodes::new(root)?,
            listings: Listings::default(),
            page_cache,
            pace,
            buffers: Buffers::default(),
        })
    }

    /// Passes the result of a read to `reply` when it is due. At the end of the file nothing is
    /// read, and the reply is immediate.
    pub fn read<R>(
        &self,
        number: INodeNo,
        offset: u64,
        bytes: u32,
        reply: impl FnOnce(io::Result<&[u8]>) -> R,
    ) -> R {
        let arrival_ns = now_ns();
        self.buffers.with(bytes as usize, |buffer| {
            let read = self.read_into(number, offset, buffer, arrival_ns);
            reply(read.map(|done| &buffer[..done]))
        })
    }

    fn read_into(
        &self,
        number: INodeNo,
        offset: u64,
        buffer: &mut [u8],
        arrival_ns: u64,
    ) -> io::Result<usize> {
        let file = self.nodes.get(number)?;
        let sequential = self.follows(&file, Op::Read, offset, buffer.len() as u64);
        let done = read_up_to(&file, buffer, offset)?;
        if done > 0 {
            self.pace.keep(arrival_ns, Operation { op: Op::Read, sequential, bytes: done as u64 });
        }
        Ok(done)
    }

    /// Writes, and returns the number of bytes when the write is due.
    pub fn write(&self, number: INodeNo, offset: u64, data: &[u8]) -> io::Result<usize> {
        let arrival_ns = now_ns();
        let file = self.nodes.get(number)?;
        let sequential = self.follows(&file, Op::Write, offset, data.len() as u64);
        let done = file.write_at(data, offset)?;
        self.pace.keep(arrival_ns, Operation { op: Op::Write, sequential, bytes: done as u64 });
        Ok(done)
    }

    fn follows(&self, file: &Held, op: Op, offset: u64, bytes: u64) -> bool {
        let tolerance_bytes = if self.page_cache { REORDERED_BYTES } else { 0 };
        file.follows(op, offset, bytes, tolerance_bytes)
    }

    /// Gives the kernel a reference to `file`; returns its attributes.
    pub(crate) fn attributes_of(&self, file: File) -> io::Result<FileAttr> {
        let (number, file) = self.nodes.insert(file)?;
        attributes(number, &file)
    }

    pub(crate) fn lookup_child(&self, parent: INodeNo, name: &OsStr) -> io::Result<FileAttr> {
        if self.pace.measures_floor() && parent == INodeNo::ROOT && name == floor::FILE_NAME {
            return self.attributes_of(floor::memory_file()?);
        }
        self.attributes_of(open_child(&*self.nodes.get(parent)?, name)?)
    }
}

/// Memory for reads: one buffer for each read in progress, the most recently used first.
#[derive(Default)]
struct Buffers {
    idle: Mutex<Vec<Vec<u8>>>,
}

impl Buffers {
    /// Passes `work` a buffer of at least `bytes`, with any content.
    fn with<R>(&self, bytes: usize, work: impl FnOnce(&mut [u8]) -> R) -> R {
        let mut buffer = lock(&self.idle).pop().unwrap_or_default();
        if buffer.len() < bytes {
            buffer.resize(bytes, 0);
        }
        let result = work(&mut buffer[..bytes]);
        lock(&self.idle).push(buffer);
        result
    }
}
