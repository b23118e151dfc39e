//! The memory through which a recorder delays the temp I/O of the programs that it started.
//!
//! Operations are counted, and every so many make a group. Which groups are delayed is drawn by
//! chance and by their number alone: were it by the clock, the operations before a long stretch of
//! work would be met more often by some groups than by others.
//!
//! Delays hold until a time that the recorder moves on and on, so that one who dies delays nobody
//! for long. The preload library compiles this file too, so it uses nothing of this crate.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Names the memory file, `/proc/PID/fd/N`; directories of temp files may follow, after colons.
pub const DELAY_PAGE_VARIABLE: &str = "SPILLCAST_PERTURB";

/// How many delays take turns.
pub const DELAYS: usize = 2;
/// No delay is longer, whatever the page says.
pub const DELAY_NS_MAX: u64 = 50_000_000;

/// "spilldly" and the version of the layout below.
const MAGIC: u64 = 0x796c_646c_6c69_7073;

/// Operations of a group: so many that caches have settled for most of them.
pub const GROUP: u64 = 64;
/// Groups whose beginnings are kept until the recorder takes them.
const MARKS: usize = 1024;

#[repr(C, align(4096))]
struct Layout {
    magic: AtomicU64,
    /// CLOCK_MONOTONIC at which all delays end by themselves.
    until_ns: AtomicU64,
    /// How many groups hold one of each delay; 0 for no delay at all.
    block_groups: AtomicU64,
    /// How many programs have mapped the page.
    attached: AtomicU64,
    /// How many threads were held, and the longest that one was in all.
    threads: AtomicU64,
    slept_most_ns: AtomicU64,
    operations: AtomicU64,
    delays: [Counters; DELAYS],
    marks: [Mark; MARKS],
}

/// The beginning of a group.
#[repr(C)]
struct Mark {
    start_ns: AtomicU64,
    /// The group's number plus one, times 256, plus its delay; anything else is not written yet.
    tag: AtomicU64,
}

#[repr(C, align(64))]
struct Counters {
    delay_ns: AtomicU64,
    operations: AtomicU64,
    slept_ns: AtomicU64,
    cpu_ns: AtomicU64,
}

/// What a delay has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Delayed {
    pub delay_ns: u64,
    pub operations: u64,
    /// How long threads were held, with the time to fall asleep and to wake.
    pub slept_ns: u64,
    /// CPU time of falling asleep and waking.
    pub cpu_ns: u64,
}

/// One process' mapping.
pub struct DelayPage(NonNull<Layout>);

// SAFETY: everything behind the pointer is atomic, and the mapping lives as long as the page.
unsafe impl Send for DelayPage {}
unsafe impl Sync for DelayPage {}

impl DelayPage {
    /// Lays out a page that delays nothing in an empty memory file.
    pub fn create(memory: BorrowedFd) -> io::Result<DelayPage> {
        if unsafe { libc::ftruncate(memory.as_raw_fd(), size_of::<Layout>() as i64) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let page = DelayPage::map(memory)?;
        page.layout().magic.store(MAGIC, Ordering::Release);
        Ok(page)
    }

    /// Maps a page that [`DelayPage::create`] laid out.
    pub fn attach(memory: BorrowedFd) -> io::Result<DelayPage> {
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        if unsafe { libc::fstat(memory.as_raw_fd(), &mut stat) } != 0 {
            return Err(io::Error::last_os_error());
        }
        if stat.st_size as usize != size_of::<Layout>() {
            return Err(io::Error::from_raw_os_error(libc::EPROTO));
        }
        let page = DelayPage::map(memory)?;
        if page.layout().magic.load(Ordering::Acquire) != MAGIC {
            return Err(io::Error::from_raw_os_error(libc::EPROTO));
        }
        page.layout().attached.fetch_add(1, Ordering::Relaxed);
        Ok(page)
    }

    pub fn attached(&self) -> u64 {
        self.layout().attached.load(Ordering::Relaxed)
    }

    /// The lengths of the delays. Before the first of them.
    pub fn set_delays(&self, delays_ns: [u64; DELAYS]) {
        for (counters, ns) in self.layout().delays.iter().zip(delays_ns) {
            counters.delay_ns.store(ns, Ordering::Relaxed);
        }
    }

    /// Until a time of CLOCK_MONOTONIC, one in so many groups has each delay.
    pub fn hold(&self, block_groups: u64, until_ns: u64) {
        self.layout().until_ns.store(until_ns, Ordering::Relaxed);
        self.layout().block_groups.store(block_groups, Ordering::Release);
    }

    pub fn end(&self) {
        self.layout().block_groups.store(0, Ordering::Release);
    }

    /// A temp operation begins: the delay that it is to have, from 1; 0 for none.
    #[inline]
    pub fn turn(&self, now_ns: impl FnOnce() -> u64) -> u32 {
        let layout = self.layout();
        let block_groups = layout.block_groups.load(Ordering::Acquire);
        if block_groups == 0 {
            return 0;
        }
        let now_ns = now_ns();
        if now_ns >= layout.until_ns.load(Ordering::Relaxed) {
            return 0;
        }
        let operation = layout.operations.fetch_add(1, Ordering::Relaxed);
        let group = operation / GROUP;
        // A group keeps the delay that it began with, whatever is asked for meanwhile.
        if let Some((_, number)) = self.mark(group) {
            return number;
        }
        let number = delay_of(group, block_groups);
        if operation.is_multiple_of(GROUP)
            && let Some(mark) = layout.marks.get(group as usize % MARKS)
        {
            mark.start_ns.store(now_ns, Ordering::Relaxed);
            mark.tag.store(((group + 1) << 8) | u64::from(number), Ordering::Release);
        }
        number
    }

    /// How long delay `number` is.
    pub fn delay_ns(&self, number: u32) -> u64 {
        let counters = self.layout().delays.get((number as usize).wrapping_sub(1));
        counters.map_or(0, |counters| counters.delay_ns.load(Ordering::Relaxed).min(DELAY_NS_MAX))
    }

    /// When `group` began, and its delay; None while it has not.
    pub fn mark(&self, group: u64) -> Option<(u64, u32)> {
        let mark = self.layout().marks.get(group as usize % MARKS)?;
        let tag = mark.tag.load(Ordering::Acquire);
        let start_ns = mark.start_ns.load(Ordering::Relaxed);
        (tag >> 8 == group + 1).then_some((start_ns, tag as u8 as u32))
    }

    /// The first group that may not have begun, and may still be written.
    pub fn groups(&self) -> u64 {
        self.layout().operations.load(Ordering::Relaxed) / GROUP
    }

    /// An operation was held by delay `number`; its thread was before for `before_ns` in all.
    pub fn count(&self, number: u32, slept_ns: u64, cpu_ns: u64, before_ns: u64) {
        self.layout().threads.fetch_add(u64::from(before_ns == 0), Ordering::Relaxed);
        self.layout().slept_most_ns.fetch_max(before_ns + slept_ns, Ordering::Relaxed);
        if let Some(counters) = self.layout().delays.get((number as usize).wrapping_sub(1)) {
            counters.operations.fetch_add(1, Ordering::Relaxed);
            counters.slept_ns.fetch_add(slept_ns, Ordering::Relaxed);
            counters.cpu_ns.fetch_add(cpu_ns, Ordering::Relaxed);
        }
    }

    pub fn delayed(&self) -> [Delayed; DELAYS] {
        self.layout().delays.each_ref().map(|counters| Delayed {
            delay_ns: counters.delay_ns.load(Ordering::Relaxed),
            operations: counters.operations.load(Ordering::Relaxed),
            slept_ns: counters.slept_ns.load(Ordering::Relaxed),
            cpu_ns: counters.cpu_ns.load(Ordering::Relaxed),
        })
    }

    /// How many threads were held.
    pub fn threads(&self) -> u64 {
        self.layout().threads.load(Ordering::Relaxed)
    }

    /// How long the thread that was held longest was held.
    pub fn slept_most_ns(&self) -> u64 {
        self.layout().slept_most_ns.load(Ordering::Relaxed)
    }

    fn layout(&self) -> &Layout {
        // SAFETY: mapped, aligned to a page, valid for any content.
        unsafe { self.0.as_ref() }
    }

    fn map(memory: BorrowedFd) -> io::Result<DelayPage> {
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<Layout>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                memory.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(DelayPage(NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?))
    }
}

impl Drop for DelayPage {
    fn drop(&mut self) {
        unsafe { libc::munmap(self.0.as_ptr().cast(), size_of::<Layout>()) };
    }
}

/// The delay of a group, from 1; 0 for none. One group in a block has each, at places by chance.
fn delay_of(group: u64, block_groups: u64) -> u32 {
    let (block, place) = (group / block_groups, group % block_groups);
    let first = mixed(2 * block) % block_groups;
    let second = (first + 1 + mixed(2 * block + 1) % (block_groups - 1).max(1)) % block_groups;
    u32::from(place == first) + 2 * u32::from(place == second)
}

/// SplitMix64: numbers in order become numbers by chance.
fn mixed(number: u64) -> u64 {
    let mut word = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}
