//! Holding temp operations back after they are done, where a recorder asks for it.

use std::ffi::CString;
use std::os::fd::AsFd;

use libc::c_int;

use crate::delay_page::DelayPage;
use crate::next::{errno, set_errno};
use crate::temp_names::{lies_under, looks_like_database, named_by_engine};
use crate::{setup, thread};

/// A recorder's page, and what it takes for temp files: the rules are those of its recordings.
pub struct Perturbed {
    page: DelayPage,
    /// Where there are any, nothing else is temporary.
    named: Vec<Vec<u8>>,
    tmpdirs: Vec<Vec<u8>>,
    /// When the program began, in seconds since the epoch.
    started_s: i64,
}

impl Perturbed {
    /// From the text of the variable; None where the page is out of reach.
    pub fn parse(text: &[u8]) -> Option<Perturbed> {
        let mut parts = text.split(|&byte| byte == b':');
        let memory = setup::open_uninterposed(&CString::new(parts.next()?).ok()?)?;
        let page = DelayPage::attach(memory.as_fd()).ok()?;
        let tmpdirs: Vec<Vec<u8>> = match std::env::var("TMPDIR") {
            Ok(dir) if !dir.is_empty() => vec![dir.into_bytes()],
            _ => vec![b"/tmp".to_vec(), b"/var/tmp".to_vec()],
        };
        Some(Perturbed {
            page,
            named: parts.filter_map(setup::resolved).collect(),
            tmpdirs: tmpdirs.iter().filter_map(|dir| setup::resolved(dir)).collect(),
            started_s: unsafe { libc::time(std::ptr::null_mut()) },
        })
    }

    pub fn is_temp(&self, fd: c_int, path: &[u8], stat: &libc::stat) -> bool {
        if !self.named.is_empty() {
            return self.named.iter().any(|dir| lies_under(path, dir));
        }
        stat.st_nlink == 0
            || named_by_engine(path)
            || (self.tmpdirs.iter().any(|dir| lies_under(path, dir))
                && !looks_like_database(path)
                && born_s(fd).is_none_or(|born_s| born_s >= self.started_s))
    }
}

/// A temp operation begins: the delay that is to follow it, 0 for none.
#[inline]
pub fn turn() -> u32 {
    setup::perturbed().map_or(0, |perturbed| perturbed.page.turn(thread::monotonic_ns))
}

/// After a temp operation: sleeps for delay `number`. Keeps errno.
#[cold]
pub fn hold(number: u32) {
    let Some(page) = setup::perturbed().map(|perturbed| &perturbed.page) else {
        return;
    };
    let saved_errno = errno();
    let cpu_start_ns = thread::cpu_ns();
    let start_ns = thread::monotonic_ns();
    thread::sleep_until(start_ns.saturating_add(page.delay_ns(number)));
    let slept_ns = thread::monotonic_ns().saturating_sub(start_ns);
    let cpu_ns = thread::cpu_ns().saturating_sub(cpu_start_ns);
    page.count(number, slept_ns, cpu_ns, thread::held_before_ns(slept_ns));
    set_errno(saved_errno);
}

/// Birth of an open file in seconds since the epoch; None where the file system keeps none.
fn born_s(fd: c_int) -> Option<i64> {
    let mut stat: libc::statx = unsafe { std::mem::zeroed() };
    let (flags, mask) = (libc::AT_EMPTY_PATH, libc::STATX_BTIME);
    let status = unsafe { libc::statx(fd, c"".as_ptr(), flags, mask, &mut stat) };
    (status == 0 && stat.stx_mask & libc::STATX_BTIME != 0).then_some(stat.stx_btime.tv_sec)
}
