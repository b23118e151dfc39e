//! Tracks which descriptors of this process are regular files, and reports their files.

use std::io::Write;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicI32, AtomicU8, Ordering};

use libc::c_int;
use spillcast_calls::record::FileRecord;

use crate::next::{errno, set_errno};
use crate::{setup, thread};

/// Descriptors from this number on are not observed.
pub const LIMIT: usize = 1 << 16;
pub const PATH_BYTES: usize = libc::PATH_MAX as usize;
const DELETED: &[u8] = b" (deleted)";

/// Streams of fewer bytes, such as settings, do not matter and are not examined.
const STREAMED_MIN_BYTES: i64 = 64 << 10;

/// Known properties of each descriptor, as bits; 0 if nothing is known.
static STATES: [AtomicU8; LIMIT] = [const { AtomicU8::new(0) }; LIMIT];
const KNOWN: u8 = 1;
const REGULAR: u8 = 2;
/// The file is below the delayed directory.
const DELAYED: u8 = 4;
/// A regular file that has not been used since it was opened: many programs unlink a temporary file
/// right after opening it.
const FRESH: u8 = 8;
/// Another descriptor may also move its position: it was opened elsewhere, or before a fork.
const SHARED: u8 = 16;
/// An observed call has moved bytes of it.
const MOVED: u8 = 32;

/// One past the highest descriptor that was ever known, so that forgetting all is short.
static KNOWN_END: AtomicI32 = AtomicI32::new(0);

/// A regular file behind a descriptor.
#[derive(Clone, Copy)]
pub struct RegularFile {
    pub delayed: bool,
    pub shared: bool,
    pub moved: bool,
}

/// The regular file of `fd`, reported if it was not yet; None for anything else.
#[inline]
pub fn regular(fd: c_int) -> Option<RegularFile> {
    if !setup::active() {
        return None;
    }
    let state = STATES.get(fd as usize)?;
    let mut bits = state.load(Ordering::Relaxed);
    if bits & KNOWN == 0 {
        bits = identify(fd, SHARED);
    } else if bits & FRESH != 0 {
        bits = look_again(fd, state);
    }
    let is_set = |bit| bits & bit != 0;
    let (delayed, shared, moved) = (is_set(DELAYED), is_set(SHARED), is_set(MOVED));
    is_set(REGULAR).then_some(RegularFile { delayed, shared, moved })
}

/// Notes that an observed call moves bytes of `fd`.
#[cold]
pub fn note_moved(fd: c_int) {
    if let Some(state) = STATES.get(fd as usize) {
        state.fetch_or(MOVED, Ordering::Relaxed);
    }
}

/// The descriptor of a stream; negative for a stream in memory. Keeps errno.
///
/// # Safety
/// The stream must be open.
pub unsafe fn of_stream(stream: *mut libc::FILE) -> c_int {
    let saved_errno = errno();
    // SAFETY: by the contract.
    let fd = unsafe { libc::fileno(stream) };
    set_errno(saved_errno);
    fd
}

/// The access mode of a regular file of which many bytes were moved, but none by an observed call,
/// and their number at least. None if it is appended to, as logs are, because its position includes
/// earlier bytes. Keeps errno.
pub fn streamed(fd: c_int) -> Option<(c_int, i64)> {
    setup::ring()?;
    let position = position(fd).filter(|&position| position >= STREAMED_MIN_BYTES)?;
    regular(fd).filter(|file| !file.moved)?;
    let flags = flags(fd);
    if flags & libc::O_APPEND != 0 {
        return None;
    }
    let mode = flags & libc::O_ACCMODE;
    let written = stat(fd).filter(|_| mode != libc::O_RDONLY);
    Some((mode, written.map_or(position, |stat| stat.st_size.max(position))))
}

/// Like [`regular`], but only by what is already known.
pub fn known_regular(fd: c_int) -> bool {
    setup::active()
        && STATES.get(fd as usize).is_some_and(|bits| bits.load(Ordering::Relaxed) & REGULAR != 0)
}

/// Reports `fd`, which was just opened, if it is a regular file.
pub fn opened(fd: c_int) {
    identify(fd, FRESH);
}

/// Whether `fd` is a regular file; does not report it.
pub fn is_regular(fd: c_int) -> bool {
    stat(fd).is_some_and(|stat| is_regular_mode(&stat))
}

/// Forgets `fd`, which no longer refers to the same file.
pub fn forget(fd: c_int) {
    if let Some(state) = STATES.get(fd as usize) {
        state.store(0, Ordering::Relaxed);
    }
}

/// Forgets the descriptors from `first` to `last`.
pub fn forget_range(first: c_int, last: c_int) {
    let end = KNOWN_END.load(Ordering::Relaxed).min(last.saturating_add(1));
    (first.max(0)..end).for_each(forget);
}

/// Marks all descriptors as shared: a forked child has the same open files.
pub fn share_all() {
    let known = KNOWN_END.load(Ordering::Relaxed).max(0) as usize;
    STATES.iter().take(known).for_each(|state| {
        state.fetch_or(SHARED, Ordering::Relaxed);
    });
}

/// The position of a descriptor; None if it has none. Keeps errno.
pub fn position(fd: c_int) -> Option<i64> {
    let saved_errno = errno();
    // SAFETY: no pointer is passed.
    let position = unsafe { libc::syscall(libc::SYS_lseek, fd, 0, libc::SEEK_CUR) };
    set_errno(saved_errno);
    (position >= 0).then_some(position)
}

/// Forgets all descriptors: a forked child reports its own. Whether bytes were moved before the
/// fork stays known.
pub fn forget_all() {
    let known = KNOWN_END.load(Ordering::Relaxed).max(0) as usize;
    STATES.iter().take(known).for_each(|state| {
        state.fetch_and(MOVED, Ordering::Relaxed);
    });
}

/// Looks up the file of `fd`, reports it, and returns its new state. Keeps errno.
#[cold]
fn identify(fd: c_int, more: u8) -> u8 {
    let Some(state) = STATES.get(fd as usize) else {
        return 0;
    };
    let saved_errno = errno();
    let bits = match stat(fd) {
        None => 0,
        Some(stat) if is_regular_mode(&stat) => {
            let moved = state.load(Ordering::Relaxed) & MOVED;
            KNOWN | REGULAR | more | moved | report(fd, &stat)
        }
        Some(_) => KNOWN,
    };
    state.store(bits, Ordering::Relaxed);
    KNOWN_END.fetch_max(fd.saturating_add(1), Ordering::Relaxed);
    set_errno(saved_errno);
    bits
}

/// At the first use after the open, reports the file again if it was unlinked since.
#[cold]
fn look_again(fd: c_int, state: &AtomicU8) -> u8 {
    let mut bits = state.fetch_and(!FRESH, Ordering::Relaxed) & !FRESH;
    let saved_errno = errno();
    if let Some(stat) = stat(fd).filter(|stat| stat.st_nlink == 0) {
        // Another thread may have changed other bits meanwhile, or closed it.
        let delayed = report(fd, &stat);
        bits |= delayed | state.fetch_or(delayed, Ordering::Relaxed);
    }
    set_errno(saved_errno);
    bits
}

/// Sends the file's identity to the ring; returns DELAYED if its I/O is delayed.
fn report(fd: c_int, stat: &libc::stat) -> u8 {
    let mut buffer = [0u8; PATH_BYTES];
    let path = path_of(fd, &mut buffer);
    if let Some(ring) = setup::ring() {
        let appends = flags(fd) & libc::O_APPEND != 0;
        let file = FileRecord {
            pid: thread::ids().0,
            fd,
            dev: stat.st_dev,
            ino: stat.st_ino,
            regular: true,
            unlinked: stat.st_nlink == 0,
            position: position(fd),
            append_at: appends.then_some(stat.st_size),
        };
        ring.push_file(&file, path);
    }
    let delayed = setup::delay().is_some_and(|delay| delay.holds(path));
    u8::from(delayed) * DELAYED
}

/// The flags of its open; 0 if it is closed.
fn flags(fd: c_int) -> c_int {
    // SAFETY: no pointer is passed.
    unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_GETFL).max(0) as c_int }
}

fn stat(fd: c_int) -> Option<libc::stat> {
    let mut stat = MaybeUninit::uninit();
    // SAFETY: the structure is local, and read only if the call has filled it.
    unsafe { (libc::fstat(fd, stat.as_mut_ptr()) == 0).then(|| stat.assume_init()) }
}

fn is_regular_mode(stat: &libc::stat) -> bool {
    stat.st_mode & libc::S_IFMT == libc::S_IFREG
}

/// The path that /proc shows for `fd`, without the mark of a deleted file; empty if it shows none.
fn path_of(fd: c_int, buffer: &mut [u8; PATH_BYTES]) -> &[u8] {
    let link = proc_link(fd);
    // SAFETY: the link ends in NUL, and the buffer has the given length.
    let bytes =
        unsafe { libc::readlink(link.as_ptr().cast(), buffer.as_mut_ptr().cast(), buffer.len()) };
    let path = buffer.get(..bytes.max(0) as usize).unwrap_or_default();
    path.strip_suffix(DELETED).unwrap_or(path)
}

/// A path, preceded by the directory that it is relative to, which a descriptor or AT_FDCWD gives;
/// cut to the buffer.
pub fn absolute<'a>(directory: c_int, path: &[u8], buffer: &'a mut [u8; PATH_BYTES]) -> &'a [u8] {
    let mut length = 0;
    if path.first() != Some(&b'/') {
        let working_dir = b"/proc/self/cwd\0";
        let (link, to) = (proc_link(directory), buffer.as_mut_ptr().cast());
        let link = if directory == libc::AT_FDCWD { working_dir.as_ptr() } else { link.as_ptr() };
        // SAFETY: the link ends in NUL, and the buffer has the given length.
        length = unsafe { libc::readlink(link.cast(), to, PATH_BYTES - 1) }.max(0) as usize;
        buffer[length] = b'/';
        length += 1;
    }
    let room = PATH_BYTES - length;
    for (to, from) in buffer[length..].iter_mut().zip(path) {
        *to = *from;
    }
    &buffer[..length + path.len().min(room)]
}

/// `/proc/thread-self/fd/N` with a terminating NUL: a thread may have descriptors of its own.
/// Formatting into existing memory does not allocate.
fn proc_link(fd: c_int) -> [u8; 32] {
    let mut link = [0u8; 32];
    let _ = write!(&mut link[..], "/proc/thread-self/fd/{fd}");
    link
}
