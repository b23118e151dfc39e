//! Carries out requests on the backing files; reads and writes at the pace of the model.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt, fchown};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use fuser::{FileAttr, INodeNo, RenameFlags, Request, TimeOrNow};
use rustix::fs::{AtFlags, FallocateFlags, Mode, SeekFrom, StatVfs, Timestamps};

use super::backing::{attributes, read_up_to, set_owner, timespec};
use super::floor;
use super::listings::Listings;
use super::nodes::{Held, Nodes, open_at, open_child};
use super::pace::Pace;
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

/// The attributes that setattr(2) and similar calls change.
pub(crate) struct Changes {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) size_bytes: Option<u64>,
    pub(crate) accessed: Option<TimeOrNow>,
    pub(crate) modified: Option<TimeOrNow>,
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
    fn attributes_of(&self, file: File) -> io::Result<FileAttr> {
        let (number, file) = self.nodes.insert(file)?;
        attributes(number, &file)
    }

    pub(crate) fn attributes_at(&self, number: INodeNo) -> io::Result<FileAttr> {
        attributes(number, &*self.nodes.get(number)?)
    }

    pub(crate) fn lookup_child(&self, parent: INodeNo, name: &OsStr) -> io::Result<FileAttr> {
        if self.pace.measures_floor() && parent == INodeNo::ROOT && name == floor::FILE_NAME {
            return self.attributes_of(floor::memory_file()?);
        }
        self.attributes_of(open_child(&*self.nodes.get(parent)?, name)?)
    }

    pub(crate) fn create_file(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        flags: i32,
    ) -> io::Result<FileAttr> {
        // Always O_RDWR: the kernel enforces the access mode of the program's descriptor.
        let flags = flags & (libc::O_EXCL | libc::O_TRUNC) | libc::O_RDWR | libc::O_CREAT;
        let file = open_at(&*self.nodes.get(parent)?, name, flags, mode)?;
        set_owner(request, &file, mode)?;
        self.attributes_of(file)
    }

    pub(crate) fn create_directory(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
    ) -> io::Result<FileAttr> {
        let parent = self.nodes.get(parent)?;
        rustix::fs::mkdirat(&**parent, name, Mode::from_raw_mode(mode))?;
        let directory = open_child(&parent, name)?;
        set_owner(request, &directory, mode)?;
        self.attributes_of(directory)
    }

    pub fn remove(&self, parent: INodeNo, name: &OsStr, flags: AtFlags) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&**self.nodes.get(parent)?, name, flags)?)
    }

    pub(crate) fn rename_child(
        &self,
        (parent, name): (INodeNo, &OsStr),
        (new_parent, new_name): (INodeNo, &OsStr),
        flags: RenameFlags,
    ) -> io::Result<()> {
        let (parent, new_parent) = (self.nodes.get(parent)?, self.nodes.get(new_parent)?);
        let flags = rustix::fs::RenameFlags::from_bits_retain(flags.bits());
        Ok(rustix::fs::renameat_with(&**parent, name, &**new_parent, new_name, flags)?)
    }

    pub fn change(&self, number: INodeNo, changes: Changes) -> io::Result<FileAttr> {
        let file = self.nodes.get(number)?;
        if changes.uid.is_some() || changes.gid.is_some() {
            fchown(&**file, changes.uid, changes.gid)?;
        }
        if let Some(mode) = changes.mode {
            file.set_permissions(fs::Permissions::from_mode(mode & 0o7777))?;
        }
        if let Some(bytes) = changes.size_bytes {
            file.set_len(bytes)?;
        }
        if changes.accessed.is_some() || changes.modified.is_some() {
            let last_access = timespec(changes.accessed);
            let times = Timestamps { last_access, last_modification: timespec(changes.modified) };
            rustix::fs::futimens(&**file, &times)?;
        }
        attributes(number, &file)
    }

    pub fn sync(&self, number: INodeNo, data_only: bool) -> io::Result<()> {
        let file = self.nodes.get(number)?;
        if data_only { file.sync_data() } else { file.sync_all() }
    }

    pub(crate) fn allocate(
        &self,
        number: INodeNo,
        offset: u64,
        bytes: u64,
        mode: i32,
    ) -> io::Result<()> {
        let mode = FallocateFlags::from_bits_retain(mode as u32);
        Ok(rustix::fs::fallocate(&**self.nodes.get(number)?, mode, offset, bytes)?)
    }

    /// The offset at which data or a hole begins. This moves the file position, which nothing uses:
    /// all I/O here gives its offset.
    pub(crate) fn seek(&self, number: INodeNo, offset: i64, whence: i32) -> io::Result<i64> {
        let to = match (whence, u64::try_from(offset)) {
            (libc::SEEK_DATA, Ok(offset)) => SeekFrom::Data(offset),
            (libc::SEEK_HOLE, Ok(offset)) => SeekFrom::Hole(offset),
            (_, Ok(_)) => return Err(io::Error::from_raw_os_error(libc::EINVAL)),
            (_, Err(_)) => return Err(io::Error::from_raw_os_error(libc::ENXIO)),
        };
        Ok(rustix::fs::seek(&**self.nodes.get(number)?, to)? as i64)
    }

    pub fn space(&self) -> io::Result<StatVfs> {
        Ok(rustix::fs::fstatvfs(&**self.nodes.get(INodeNo::ROOT)?)?)
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
        let mut buffer = self.lock().pop().unwrap_or_default();
        if buffer.len() < bytes {
            buffer.resize(bytes, 0);
        }
        let result = work(&mut buffer[..bytes]);
        self.lock().push(buffer);
        result
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.idle.lock().expect("nothing panics with the lock held")
    }
}
