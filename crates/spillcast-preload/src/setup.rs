//! What the environment asks for: a ring to report to, a directory to delay.

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::os::fd::FromRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use spillcast_calls::ring::{RING_NAME, RING_VARIABLE, Ring};

use crate::next::{errno, set_errno};

/// `DIR:READ_NS:WRITE_NS`: I/O on files under DIR takes so many nanoseconds more.
const DELAY_VARIABLE: &str = "SPILLCAST_DELAY";

pub struct Delay {
    /// Without a slash at its end, links resolved.
    directory: Vec<u8>,
    pub read_ns: u64,
    pub write_ns: u64,
}

impl Delay {
    /// None where the text is not of the form above.
    fn parse(text: &[u8]) -> Option<Delay> {
        let number = |digits: &[u8]| std::str::from_utf8(digits).ok()?.parse::<u64>().ok();
        // From the right: the directory's name may hold colons.
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

/// A reader looks every few ms. One that has not for so long may be gone, or waits for a CPU.
const UNREAD_NS: u64 = 1_000_000_000;
/// One that cannot be looked for is taken for gone after so long.
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

/// The ring, while somebody reads it.
#[inline]
pub fn ring() -> Option<&'static Ring> {
    RING.get().filter(|ring| !ring.is_closed())
}

/// To be asked with each report: where nobody reads any more, nothing is timed from then on.
#[inline]
pub fn look_for_reader(ring: &Ring, now_ns: u64) {
    if ring.unread_ns(now_ns) > UNREAD_NS {
        close_if_gone(ring, now_ns);
    }
}

/// Looks once in a while. Keeps errno.
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
    // SAFETY: the path ends in NUL, and the buffer is ours and as long as said.
    let bytes = unsafe { libc::readlink(path.as_ptr(), link.as_mut_ptr().cast(), link.len()) };
    let gone = match bytes {
        // What has given up its rights may not look, and nobody may look at what has died and is
        // not forgotten yet.
        -1 if errno() == libc::EACCES => ring.unread_ns(now_ns) > UNREAD_MAX_NS,
        -1 => true,
        // Another process may have got the number.
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

/// Reads the environment, once; whether it asks for anything.
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

/// None where the ring is out of reach: the program then runs as if the library were not there.
fn attach(path: OsString) -> Option<Ring> {
    let path = RING_PATH.get_or_init(|| CString::new(path.into_vec()).unwrap_or_default());
    let flags = libc::O_RDWR | libc::O_CLOEXEC;
    // SAFETY: the path ends in NUL. The C library's function would be the one defined here.
    let fd = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags) };
    // SAFETY: a descriptor that was just opened is nobody else's.
    let memory = (fd >= 0).then(|| unsafe { File::from_raw_fd(fd as i32) })?;
    Ring::attach(&memory).ok()
}
