//! The file system behind the mount: receives the kernel's requests and answers them.

use std::ffi::OsStr;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{PermissionsExt, fchown};
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite,
    Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{
    AtFlags, FallocateFlags, Mode, SeekFrom, Timestamps, fstatvfs, renameat_with, unlinkat,
};

use super::backing::{attributes, set_owner, timespec};
use super::nodes::{open_at, open_child};
use super::passthrough::{Passthrough, REQUEST_BYTES_MAX};

/// Number of requests in progress at once; each sleeps in a thread of its own.
pub(crate) const WORKERS: usize = 64;

/// How many of these the page cache and asynchronous I/O may take; the others serve the rest, such
/// as opening files.
const BACKGROUND_MAX: u16 = 56;

/// How long the kernel may cache names and attributes: all changes pass through it.
const VALID: Duration = Duration::from_secs(1);

/// Without the page cache, so that each call of a program is one request.
const DIRECT: FopenFlags =
    FopenFlags::FOPEN_DIRECT_IO.union(FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES);

/// With the page cache, which keeps the pages of a file when it is opened again.
const CACHED: FopenFlags = FopenFlags::FOPEN_KEEP_CACHE;

impl Passthrough {
    fn file_flags(&self) -> FopenFlags {
        if self.page_cache { CACHED } else { DIRECT }
    }
}

/// Replies with the value of `$work`, or with the error that ends it.
macro_rules! answer {
    ($reply:ident, $work:expr, |$value:pat_param| $done:expr) => {
        match result_of(|| $work) {
            Ok($value) => $done,
            Err(error) => $reply.error(Errno::from(error)),
        }
    };
}

fn result_of<T>(work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    work()
}

impl Filesystem for Passthrough {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Each of them is optional; an error only says what would be granted.
        let _ = config.set_max_write(REQUEST_BYTES_MAX);
        let _ = config.set_max_background(BACKGROUND_MAX);
        for wanted in [
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
        ] {
            let _ = config.add_capabilities(wanted);
        }
        if self.page_cache {
            let wanted = InitFlags::FUSE_WRITEBACK_CACHE | InitFlags::FUSE_ASYNC_READ;
            config.add_capabilities(wanted).map_err(|_| {
                io::Error::other("this kernel has no page cache with late writes for FUSE")
            })?;
        }
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        answer!(reply, self.lookup_child(parent, name), |attributes| {
            reply.entry(&VALID, &attributes, Generation(0))
        })
    }

    fn forget(&self, _: &Request, number: INodeNo, lookups: u64) {
        self.nodes.forget(number, lookups);
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        answer!(reply, attributes(number, &*self.nodes.get(number)?), |attributes| {
            reply.attr(&VALID, &attributes)
        })
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size_bytes: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let changed = || {
            let file = self.nodes.get(number)?;
            if uid.is_some() || gid.is_some() {
                fchown(&**file, uid, gid)?;
            }
            if let Some(mode) = mode {
                file.set_permissions(Permissions::from_mode(mode & 0o7777))?;
            }
            if let Some(bytes) = size_bytes {
                file.set_len(bytes)?;
            }
            if accessed.is_some() || modified.is_some() {
                let (last_access, last_modification) = (timespec(accessed), timespec(modified));
                rustix::fs::futimens(&**file, &Timestamps { last_access, last_modification })?;
            }
            attributes(number, &file)
        };
        answer!(reply, changed(), |attributes| reply.attr(&VALID, &attributes))
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        let created = || {
            let parent = self.nodes.get(parent)?;
            rustix::fs::mkdirat(&**parent, name, Mode::from_raw_mode(mode))?;
            let directory = open_child(&parent, name)?;
            set_owner(request, &directory, mode)?;
            self.attributes_of(directory)
        };
        answer!(reply, created(), |attributes| reply.entry(&VALID, &attributes, Generation(0)))
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let created = || {
            // Always O_RDWR: the kernel enforces the access mode of the program's descriptor.
            let flags = flags & (libc::O_EXCL | libc::O_TRUNC) | libc::O_RDWR | libc::O_CREAT;
            let file = open_at(&*self.nodes.get(parent)?, name, flags, mode)?;
            set_owner(request, &file, mode)?;
            self.attributes_of(file)
        };
        answer!(reply, created(), |attributes| {
            reply.created(&VALID, &attributes, Generation(0), FileHandle(0), self.file_flags())
        })
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer!(reply, Ok(unlinkat(&**self.nodes.get(parent)?, name, AtFlags::empty())?), |()| {
            reply.ok()
        })
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer!(reply, Ok(unlinkat(&**self.nodes.get(parent)?, name, AtFlags::REMOVEDIR)?), |()| {
            reply.ok()
        })
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let renamed = || {
            let (parent, new_parent) = (self.nodes.get(parent)?, self.nodes.get(new_parent)?);
            let flags = rustix::fs::RenameFlags::from_bits_retain(flags.bits());
            Ok(renameat_with(&**parent, name, &**new_parent, new_name, flags)?)
        };
        answer!(reply, renamed(), |()| reply.ok())
    }

    // The file is already open, because the kernel refers to it: a handle has no state, and release
    // and flush have nothing to do.
    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), self.file_flags());
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        bytes: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        Passthrough::read(self, number, offset, bytes, |read| {
            answer!(reply, read, |data| reply.data(data))
        })
    }

    fn write(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written = Passthrough::write(self, number, offset, data);
        answer!(reply, written, |bytes| reply.written(bytes as u32))
    }

    fn fsync(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        let synced = || {
            let file = self.nodes.get(number)?;
            if data_only { file.sync_data() } else { file.sync_all() }
        };
        answer!(reply, synced(), |()| reply.ok())
    }

    fn fallocate(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        bytes: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let mode = FallocateFlags::from_bits_retain(mode as u32);
        let allocated =
            || Ok(rustix::fs::fallocate(&**self.nodes.get(number)?, mode, offset, bytes)?);
        answer!(reply, allocated(), |()| reply.ok())
    }

    fn lseek(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        // The kernel only asks for data and holes. This moves the file position, which nothing
        // uses: all I/O here gives its offset.
        let to = match (whence, u64::try_from(offset)) {
            (libc::SEEK_DATA, Ok(offset)) => SeekFrom::Data(offset),
            (libc::SEEK_HOLE, Ok(offset)) => SeekFrom::Hole(offset),
            (_, Ok(_)) => return reply.error(Errno::EINVAL),
            (_, Err(_)) => return reply.error(Errno::ENXIO),
        };
        let position = || Ok(rustix::fs::seek(&**self.nodes.get(number)?, to)? as i64);
        answer!(reply, position(), |position| reply.offset(position))
    }

    fn opendir(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        answer!(reply, self.listings.open(&*self.nodes.get(number)?), |handle| {
            reply.opened(handle, FopenFlags::empty())
        })
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        answer!(reply, self.listings.get(handle), |entries| {
            for (entry, next) in entries.iter().skip(offset as usize).zip(offset + 1..) {
                if reply.add(entry.number, next, entry.kind, &entry.name) {
                    break;
                }
            }
            reply.ok()
        })
    }

    fn releasedir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.listings.close(handle);
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        answer!(reply, Ok(fstatvfs(&**self.nodes.get(INodeNo::ROOT)?)?), |stat| reply.statfs(
            stat.f_blocks,
            stat.f_bfree,
            stat.f_bavail,
            stat.f_files,
            stat.f_ffree,
            stat.f_bsize as u32,
            stat.f_namemax as u32,
            stat.f_frsize as u32,
        ))
    }
}
