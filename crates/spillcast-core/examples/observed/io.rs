//! Reads and writes of known sizes and offsets by several threads of several processes.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitOptions, waitpid};

use crate::account::{Account, Call, Members};
use crate::options::Options;

pub const BLOCK_BYTES: usize = 8192;
const BLOCKS: u64 = 128;
const SIZES: [usize; 6] = [1000, 4096, 8192, 49_152, 229_376, 262_144];
/// The part of the shared file that one worker of `mixed` may write.
const REGION_BYTES: u64 = 64 << 20;
/// Long enough for an observer that polls descriptors from outside.
const LINGER: Duration = Duration::from_millis(300);

/// Cached reads of 8 KiB at random offsets, `count` by each thread.
pub fn reads(options: &Options, account: &Account) -> io::Result<Members> {
    let file = create(&options.dir.join("reads.dat"))?;
    file.set_len(BLOCKS * BLOCK_BYTES as u64)?;
    let begin = Instant::now();
    in_all(options, |worker| {
        let mut random = Random::new(options.seed, worker);
        let mut pace = Pace::new(options);
        let (mut block, mut offsets) = ([0u8; BLOCK_BYTES], 0);
        for _ in 0..options.count {
            pace.wait();
            let offset = random.below(BLOCKS) * BLOCK_BYTES as u64;
            file.read_exact_at(&mut block, offset)?;
            offsets += offset;
        }
        let bytes = options.count * BLOCK_BYTES as u64;
        account.did_all(Call::Pread, [options.count, bytes, offsets]);
        Ok(())
    })?;
    Ok(vec![("loop_s", begin.elapsed().as_secs_f64().into())])
}

/// Positioned writes and reads on a shared file, then plain ones on a file of each thread: `count`
/// of each.
pub fn mixed(options: &Options, account: &Account) -> io::Result<Members> {
    let shared = create(&options.dir.join("mixed.dat"))?;
    in_all(options, |worker| {
        let mut random = Random::new(options.seed, worker);
        positioned(options.count, &shared, worker, &mut random, account)?;
        let mut file = create(&options.dir.join(format!("own-{worker}.dat")))?;
        plain(options.count, &mut file, &mut random, account)?;
        std::thread::sleep(LINGER);
        Ok(())
    })?;
    Ok(Members::new())
}

fn positioned(
    count: u64,
    file: &File,
    worker: u64,
    random: &mut Random,
    account: &Account,
) -> io::Result<()> {
    let mut block = vec![worker as u8; SIZES[SIZES.len() - 1]];
    for _ in 0..count {
        let size = random.size();
        let offset = worker * REGION_BYTES + random.below(REGION_BYTES - size as u64);
        file.write_all_at(&block[..size], offset)?;
        account.did(Call::Pwrite, size as u64, offset);
        file.read_exact_at(&mut block[..size], offset)?;
        account.did(Call::Pread, size as u64, offset);
    }
    Ok(())
}

fn plain(count: u64, file: &mut File, random: &mut Random, account: &Account) -> io::Result<()> {
    let mut block = vec![1; SIZES[SIZES.len() - 1]];
    let sizes: Vec<usize> = (0..count).map(|_| random.size()).collect();
    let mut offset = 0;
    for &size in &sizes {
        file.write_all(&block[..size])?;
        account.did(Call::Write, size as u64, offset);
        offset += size as u64;
    }
    file.rewind()?;
    offset = 0;
    for &size in &sizes {
        file.read_exact(&mut block[..size])?;
        account.did(Call::Read, size as u64, offset);
        offset += size as u64;
    }
    Ok(())
}

/// Two writes and two reads of one block each, at offsets of the worker.
pub fn a_few(file: &File, worker: u64, account: &Account) -> io::Result<()> {
    let mut block = [1u8; BLOCK_BYTES];
    for number in 0..2 {
        let offset = (worker % BLOCKS * 2 + number) * BLOCK_BYTES as u64;
        file.write_all_at(&block, offset)?;
        account.did(Call::Pwrite, BLOCK_BYTES as u64, offset);
        file.read_exact_at(&mut block, offset)?;
        account.did(Call::Pread, BLOCK_BYTES as u64, offset);
    }
    Ok(())
}

/// Creates a file, or empties an existing one.
pub fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)
}

/// Runs `work` in every thread of every process, each with its own number; this process and this
/// thread are the first.
fn in_all(options: &Options, work: impl Fn(u64) -> io::Result<()> + Sync) -> io::Result<()> {
    let mut children = Vec::new();
    for process in 1..options.processes {
        children.push(fork(|| in_threads(options, process, &work))?);
    }
    in_threads(options, 0, &work)?;
    children.into_iter().try_for_each(wait)
}

fn in_threads(
    options: &Options,
    process: u64,
    work: &(impl Fn(u64) -> io::Result<()> + Sync),
) -> io::Result<()> {
    let first = process * options.threads;
    std::thread::scope(|scope| {
        let others = first + 1..first + options.threads;
        let handles: Vec<_> = others.map(|worker| scope.spawn(move || work(worker))).collect();
        work(first)?;
        handles.into_iter().try_for_each(|handle| handle.join().expect("no worker panics"))
    })
}

/// Runs `work` in a child, which then exits; returns its process id.
pub fn fork(work: impl FnOnce() -> io::Result<()>) -> io::Result<i32> {
    // SAFETY: no other thread runs here when a child is forked, so it inherits no held lock.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let status = i32::from(work().is_err());
            // SAFETY: exits the child without flushing output buffered in the parent.
            unsafe { libc::_exit(status) }
        }
        child => Ok(child),
    }
}

/// Waits for a child, which must have succeeded.
pub fn wait(child: i32) -> io::Result<()> {
    match waitpid(Pid::from_raw(child), WaitOptions::empty())? {
        Some((_, status)) if status.exit_status() == Some(0) => Ok(()),
        _ => Err(io::Error::other("a child failed")),
    }
}

/// Pseudorandom numbers by splitmix64, reproducible by seed and worker.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64, worker: u64) -> Random {
        Random(
            seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ worker.wrapping_mul(0xd134_2543_de82_ef95),
        )
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    fn size(&mut self) -> usize {
        SIZES[self.below(SIZES.len() as u64) as usize]
    }
}

/// Delays a thread that is ahead of its rate.
pub struct Pace {
    begin: Instant,
    each: Duration,
    due: Duration,
}

impl Pace {
    /// A thread's share of the total rate.
    pub fn new(options: &Options) -> Pace {
        let share = (options.threads * options.processes) as f64;
        let each_s = options.rate_per_s.map_or(0.0, |rate_per_s| share / rate_per_s);
        Pace { begin: Instant::now(), each: Duration::from_secs_f64(each_s), due: Duration::ZERO }
    }

    /// Sleeps until the next call is due; returns at once without a rate.
    pub fn wait(&mut self) {
        if self.each.is_zero() {
            return;
        }
        let ahead = self.due.saturating_sub(self.begin.elapsed());
        self.due += self.each;
        // Shorter sleeps would overshoot.
        if ahead > Duration::from_micros(200) {
            std::thread::sleep(ahead);
        }
    }
}
