//! The file system behind the mount: every request is done on the backing files, I/O is delayed.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, PermissionsExt, fchown};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite,
    Request, TimeOrNow, WriteFlags,
};

use super::backing::{attributes, check, own, read_up_to, timespec};
use super::delay::{Delay, Schedule, sleep_until};
use super::listings::Listings;
use super::nodes::{Nodes, c_name, open_at, open_child};
use super::stats::Counters;
use crate::system::now_ns;

/// How many requests are in the making at once; each sleeps in a thread of its own.
pub const WORKERS: usize = 64;

/// The largest I/O that stays one request, which is what the kernel allows by default.
const REQUEST_BYTES_MAX: u32 = 1 << 20;

/// How long the kernel may take names and attributes as unchanged: all changes pass through it.
const VALID: Duration = Duration::from_secs(1);

/// Without the page cache, so that each call of a program is one request.
const FILE_FLAGS: FopenFlags =
    FopenFlags::FOPEN_DIRECT_IO.union(FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES);

pub struct Passthrough {
    nodes: Nodes,
    schedule: Schedule,
    counters: Arc<Counters>,
    listings: Listings,
}

impl Passthrough {
    pub fn new(backing: &Path, delay: Delay, counters: Arc<Counters>) -> io::Result<Passthrough> {
        let root = File::open(backing)?;
        if !root.metadata()?.is_dir() {
            return Err(io::Error::from_raw_os_error(libc::ENOTDIR));
        }
        Ok(Passthrough {
            nodes: Nodes::new(root)?,
            schedule: Schedule::new(delay),
            counters,
            listings: Listings::default(),
        })
    }

    /// Lets the kernel refer to `file` from now on.
    fn attributes_of(&self, file: File) -> io::Result<FileAttr> {
        let (number, file) = self.nodes.insert(file)?;
        attributes(number, &file)
    }

    fn attributes_at(&self, number: INodeNo) -> io::Result<FileAttr> {
        attributes(number, &*self.nodes.get(number)?)
    }

    fn lookup_child(&self, parent: INodeNo, name: &OsStr) -> io::Result<FileAttr> {
        self.attributes_of(open_child(&*self.nodes.get(parent)?, name)?)
    }

    fn create_file(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        flags: i32,
    ) -> io::Result<FileAttr> {
        // Whatever the program may do with its descriptor: the kernel holds it to that.
        let flags = flags & (libc::O_EXCL | libc::O_TRUNC) | libc::O_RDWR | libc::O_CREAT;
        let file = open_at(&*self.nodes.get(parent)?, name, flags, mode)?;
        own(request, &file, mode)?;
        self.attributes_of(file)
    }

    fn create_directory(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
    ) -> io::Result<FileAttr> {
        let parent = self.nodes.get(parent)?;
        let c_name = c_name(name)?;
        check(unsafe { libc::mkdirat(parent.as_raw_fd(), c_name.as_ptr(), mode) })?;
        let directory = open_child(&parent, name)?;
        own(request, &directory, mode)?;
        self.attributes_of(directory)
    }

    fn remove(&self, parent: INodeNo, name: &OsStr, flags: i32) -> io::Result<()> {
        let (parent, name) = (self.nodes.get(parent)?, c_name(name)?);
        check(unsafe { libc::unlinkat(parent.as_raw_fd(), name.as_ptr(), flags) })
    }

    fn rename_child(
        &self,
        (parent, name): (INodeNo, &OsStr),
        (new_parent, new_name): (INodeNo, &OsStr),
        flags: RenameFlags,
    ) -> io::Result<()> {
        let (parent, new_parent) = (self.nodes.get(parent)?, self.nodes.get(new_parent)?);
        let (name, new_name) = (c_name(name)?, c_name(new_name)?);
        check(unsafe {
            libc::renameat2(
                parent.as_raw_fd(),
                name.as_ptr(),
                new_parent.as_raw_fd(),
                new_name.as_ptr(),
                flags.bits(),
            )
        })
    }
}

/// Replies with what `$result` holds, or with its error.
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
        // Each of them is best had and can be done without; the error says what would be granted.
        let _ = config.set_max_write(REQUEST_BYTES_MAX);
        let _ = config.set_max_background(WORKERS as u16);
        for wanted in [
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
        ] {
            let _ = config.add_capabilities(wanted);
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
        let set = || -> io::Result<FileAttr> {
            let file = self.nodes.get(number)?;
            if uid.is_some() || gid.is_some() {
                fchown(&*file, uid, gid)?;
            }
            if let Some(mode) = mode {
                file.set_permissions(fs::Permissions::from_mode(mode & 0o7777))?;
            }
            if let Some(bytes) = size_bytes {
                file.set_len(bytes)?;
            }
            if accessed.is_some() || modified.is_some() {
                let times = [timespec(accessed), timespec(modified)];
                check(unsafe { libc::futimens(file.as_raw_fd(), times.as_ptr()) })?;
            }
            attributes(number, &file)
        };
        answer!(reply, set(), |attributes| reply.attr(&VALID, &attributes))
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
            reply.created(&VALID, &attributes, Generation(0), FileHandle(0), FILE_FLAGS)
        })
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer!(reply, self.remove(parent, name, 0), |()| reply.ok())
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer!(reply, self.remove(parent, name, libc::AT_REMOVEDIR), |()| reply.ok())
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

    // The file is open already, since the kernel knows of it: there is nothing to keep by handle,
    // and nothing to do at release or flush.
    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FILE_FLAGS);
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
        // Kept by the thread: fresh memory would cost a page fault for every 4 KiB.
        thread_local!(static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) });
        let arrival_ns = now_ns();
        let bytes = bytes as usize;
        let deadline_ns = self.schedule.read_deadline_ns(arrival_ns, bytes);
        BUFFER.with_borrow_mut(|buffer| {
            if buffer.len() < bytes {
                buffer.resize(bytes, 0);
            }
            let buffer = &mut buffer[..bytes];
            let done = self.nodes.get(number).and_then(|file| read_up_to(&file, buffer, offset));
            sleep_until(deadline_ns);
            answer!(reply, done, |done| {
                self.counters.count_read(done);
                reply.data(&buffer[..done])
            })
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
        let deadline_ns = self.schedule.write_deadline_ns(now_ns(), data.len());
        let done = self.nodes.get(number).and_then(|file| file.write_at(data, offset));
        sleep_until(deadline_ns);
        answer!(reply, done, |done| {
            self.counters.count_write(done);
            reply.written(done as u32)
        })
    }

    fn fsync(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        let synced = self.nodes.get(number).and_then(|file| match data_only {
            true => file.sync_data(),
            false => file.sync_all(),
        });
        answer!(reply, synced, |()| reply.ok())
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
        let allocated = self.nodes.get(number).and_then(|file| {
            let (offset, bytes) = (offset as libc::off_t, bytes as libc::off_t);
            check(unsafe { libc::fallocate(file.as_raw_fd(), mode, offset, bytes) })
        });
        answer!(reply, allocated, |()| reply.ok())
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
        // The kernel asks for data and holes alone. All I/O here names its offset, so the position
        // that this moves is nobody's.
        let found = self.nodes.get(number).and_then(|file| {
            let found = unsafe { libc::lseek(file.as_raw_fd(), offset, whence) };
            if found < 0 { Err(io::Error::last_os_error()) } else { Ok(found) }
        });
        answer!(reply, found, |found| reply.offset(found))
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
        let stat = self.nodes.get(INodeNo::ROOT).and_then(|root| {
            let mut stat: libc::statvfs = unsafe { std::mem::zeroed() };
            check(unsafe { libc::fstatvfs(root.as_raw_fd(), &mut stat) })?;
            Ok(stat)
        });
        answer!(reply, stat, |stat| reply.statfs(
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
