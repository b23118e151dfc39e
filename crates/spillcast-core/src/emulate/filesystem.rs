//! The file system behind the mount: receives the kernel's requests and answers them.

use std::ffi::OsStr;
use std::io;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite,
    Request, TimeOrNow, WriteFlags,
};
use rustix::fs::AtFlags;

use super::passthrough::{Changes, Passthrough, REQUEST_BYTES_MAX};

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

/// Replies with the value of `$result`, or with its error.
macro_rules! answer {
    ($reply:ident, $result:expr, |$value:pat_param| $done:expr) => {
        match $result {
            Ok($value) => $done,
            Err(error) => $reply.error(Errno::from(error)),
        }
    };
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
        answer!(reply, self.attributes_at(number), |attributes| reply.attr(&VALID, &attributes))
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
        let changes = Changes { mode, uid, gid, size_bytes, accessed, modified };
        answer!(reply, self.change(number, changes), |attributes| reply.attr(&VALID, &attributes))
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
        answer!(reply, self.create_directory(request, parent, name, mode), |attributes| {
            reply.entry(&VALID, &attributes, Generation(0))
        })
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
        answer!(reply, self.create_file(request, parent, name, mode, flags), |attributes| {
            reply.created(&VALID, &attributes, Generation(0), FileHandle(0), self.file_flags())
        })
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer!(reply, self.remove(parent, name, AtFlags::empty()), |()| reply.ok())
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer!(reply, self.remove(parent, name, AtFlags::REMOVEDIR), |()| reply.ok())
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
        let renamed = self.rename_child((parent, name), (new_parent, new_name), flags);
        answer!(reply, renamed, |()| reply.ok())
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
        answer!(reply, self.sync(number, data_only), |()| reply.ok())
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
        answer!(reply, self.allocate(number, offset, bytes, mode), |()| reply.ok())
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
        // The kernel only asks for data and holes.
        answer!(reply, self.seek(number, offset, whence), |position| reply.offset(position))
    }

    fn opendir(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let opened = self.nodes.get(number).and_then(|directory| self.listings.open(&directory));
        answer!(reply, opened, |handle| reply.opened(handle, FopenFlags::empty()))
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
        answer!(reply, self.space(), |stat| reply.statfs(
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
