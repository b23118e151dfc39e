//! What the environment asks for: a ring to report to, a directory to delay.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::shared_ring::{RING_VARIABLE, Ring};
use crate::{descriptors, thread};

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
        Some(Delay { directory: resolved(parts.next()?)?, read_ns, write_ns })
    }

    pub fn holds(&self, path: &[u8]) -> bool {
        path.strip_prefix(self.directory.as_slice()).is_some_and(|rest| rest.first() == Some(&b'/'))
    }
}

/// A directory without a slash at its end, links resolved; None where there is none.
fn resolved(directory: &[u8]) -> Option<Vec<u8>> {
    let directory = std::fs::canonicalize(OsStr::from_bytes(directory)).ok()?;
    let mut directory = directory.into_os_string().into_vec();
    if directory == b"/" {
        directory.clear();
    }
    Some(directory)
}

static ACTIVE: AtomicBool = AtomicBool::new(false);
static RING: OnceLock<Ring> = OnceLock::new();
static DELAY: OnceLock<Delay> = OnceLock::new();

/// Whether there is anything to do around a call; false until the library is set up.
#[inline]
pub fn active() -> bool {
    ACTIVE.load(Ordering::Relaxed) && (ring().is_some() || delay().is_some())
}

/// The ring, while somebody reads it.
#[inline]
pub fn ring() -> Option<&'static Ring> {
    RING.get().filter(|ring| !ring.is_closed())
}

#[inline]
pub fn delay() -> Option<&'static Delay> {
    DELAY.get()
}

extern "C" fn initialise() {
    if let Some(ring) = std::env::var_os(RING_VARIABLE).and_then(attach) {
        let _ = RING.set(ring);
    }
    let asked = std::env::var_os(DELAY_VARIABLE);
    if let Some(delay) = asked.and_then(|text| Delay::parse(text.as_bytes())) {
        let _ = DELAY.set(delay);
    }
    if ring().is_some() || delay().is_some() {
        unsafe { libc::pthread_atfork(None, None, Some(child_after_fork)) };
        ACTIVE.store(true, Ordering::Relaxed);
    }
}

extern "C" fn child_after_fork() {
    thread::forget();
    descriptors::forget_all();
}

/// None where the ring is out of reach: the program then runs as if the library were not there.
fn attach(path: OsString) -> Option<Ring> {
    let path = path.into_vec();
    let path = CString::new(path).ok()?;
    open_uninterposed(&path).and_then(|memory| Ring::attach(memory.as_fd()).ok())
}

fn open_uninterposed(path: &CStr) -> Option<OwnedFd> {
    let flags = libc::O_RDWR | libc::O_CLOEXEC;
    let fd = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags) };
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// The dynamic linker calls it before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static INITIALISE: extern "C" fn() = initialise;
