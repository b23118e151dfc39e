//! Settings from the environment: a ring to report to, a directory to delay.

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::os::fd::FromRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use spillcast_calls::ring::{RING_NAME, RING_VARIABLE, Ring};

use crate::next::{errno, set_errno};

/// `DIR:READ_NS:WRITE_NS`: I/O on files below DIR takes this many nanoseconds longer.
const DELAY_VARIABLE: &str = "SPILLCAST_DELAY";

pub struct Delay {
    /// Without a trailing slash, links resolved.
    directory: Vec<u8>,
    pub read_ns: u64,
    pub write_ns: u64,
}

impl Delay {
    /// None if the text does not have the form above.
    fn parse(text: &[u8]) -> Option<Delay> {
        let number = |digits: &[u8]| std::str::from_utf8(digits).ok()?.parse::<u64>().ok();
        // From the right: the directory's name may contain colons.
        let mut parts = text.rsplitn(3, |&byte| byte == b':');
        let write_ns = number(parts.next()?)?;
        let read_ns = number(parts.next()?)?;
        let directory = std::fs::canonicalize(OsStr::from_bytes(parts.next()?)).ok()?;
        let mut directory = directory.into_os_string().into_vec();
        if directory == b"/" {
            directory.clear();
        }
        Some(Delay { directory, read_ns, write_ns })
    }

    pub fn holds(&self, path: &[u8]) -> bool {
        path.strip_prefix(&self.directory[..]).is_some_and(|rest| rest.first() == Some(&b'/'))
    }
}

static ACTIVE: AtomicBool = AtomicBool::new(false);
static RING: OnceLock<Ring> = OnceLock::new();
static RING_PATH: OnceLock<CString> = OnceLock::new();
static DELAY: OnceLock<Delay> = OnceLock::new();

/// A reader looks every few ms. If it has not for this long, it may be gone, or waits for a CPU.
const UNREAD_NS: u64 = 1_000_000_000;
/// A reader that cannot be checked is considered gone after this time.
const UNREAD_MAX_NS: u64 = 10_000_000_000;

/// Whether there is anything to do around a call; false until the library is set up.
#[inline]
pub fn active() -> bool {
    ACTIVE.load(Ordering::Relaxed) && is_observed_or_delayed()
}

pub fn activate() {
    ACTIVE.store(true, Ordering::Relaxed);
}

fn is_observed_or_delayed() -> bool {
    ring().is_some() || delay().is_some()
}

/// The ring, while it is read.
#[inline]
pub fn ring() -> Option<&'static Ring> {
    RING.get().filter(|ring| !ring.is_closed())
}

/// Called with each report: if the ring is no longer read, nothing is timed from then on.
#[inline]
pub fn look_for_reader(ring: &Ring, now_ns: u64) {
    if ring.unread_ns(now_ns) > UNREAD_NS {
        close_if_gone(ring, now_ns);
    }
}

/// Checks at most once per `UNREAD_NS`. Keeps errno.
#[cold]
fn close_if_gone(ring: &Ring, now_ns: u64) {
    static LOOKED_NS: AtomicU64 = AtomicU64::new(0);
    let Some(path) = RING_PATH.get() else { return };
    if now_ns.saturating_sub(LOOKED_NS.load(Ordering::Relaxed)) < UNREAD_NS {
        return;
    }
    LOOKED_NS.store(now_ns, Ordering::Relaxed);
    let saved_errno = errno();
    let mut link = [0u8; 64];
    // SAFETY: the path ends in NUL, and the buffer is local and has the given length.
    let bytes = unsafe { libc::readlink(path.as_ptr(), link.as_mut_ptr().cast(), link.len()) };
    let gone = match bytes {
        // A process that has dropped its privileges may not look at the recorder, and none may look
        // at a recorder that is a zombie.
        -1 if errno() == libc::EACCES => ring.unread_ns(now_ns) > UNREAD_MAX_NS,
        -1 => true,
        // Another process may have the recorder's id.
        _ => !link.starts_with(b"/memfd:") || !link[7..].starts_with(RING_NAME.to_bytes()),
    };
    if gone {
        ring.close();
    }
    set_errno(saved_errno);
}

#[inline]
pub fn delay() -> Option<&'static Delay> {
    DELAY.get()
}

/// Reads the environment, once; returns whether it requests anything.
pub fn read_environment() -> bool {
    if let Some(ring) = std::env::var_os(RING_VARIABLE).and_then(attach) {
        let _ = RING.set(ring);
    }
    let text = std::env::var_os(DELAY_VARIABLE);
    if let Some(delay) = text.and_then(|text| Delay::parse(text.as_bytes())) {
        let _ = DELAY.set(delay);
    }
    is_observed_or_delayed()
}

/// None if the ring is out of reach: the program then runs as without the library.
fn attach(path: OsString) -> Option<Ring> {
    let path = RING_PATH.get_or_init(|| CString::new(path.into_vec()).unwrap_or_default());
    let flags = libc::O_RDWR | libc::O_CLOEXEC;
    // SAFETY: the path ends in NUL. The C library's function would be the interposed one.
    let fd = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags) };
    // SAFETY: nothing else owns a descriptor that was just opened.
    let memory = (fd >= 0).then(|| unsafe { File::from_raw_fd(fd as i32) })?;
    Ring::attach(&memory).ok()
}
