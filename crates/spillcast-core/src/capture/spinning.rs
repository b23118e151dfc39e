//! Detects threads that spin: that use a core only to poll whether another thread has done its I/O.
//!
//! Samples of instruction pointers are taken some 500 times per second of CPU time. Several chunks
//! of samples in a stretch of CPU time without an observed call are spinning if this holds:
//!
//! - In each chunk, a large share of samples is at instructions that synchronise threads: locked
//!   ones, exclusive loads and stores, hints such as `pause`. Compiled loops of real work, such as
//!   the probe of a hash table, also stay within few cache lines but have none of these.
//! - All samples of these chunks together fall on few cache lines of code.
//! - Meanwhile other observed threads had temp I/O in flight for a good part of the time.
//!
//! This needs no symbols and no knowledge of the engine. A loop that only loads a variable, without
//! a hint to the processor, is not detected: nothing distinguishes it from work.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;

use rustc_hash::FxHashMap;

/// Sampling frequency of a CPU, in Hz: not a divisor of the usual timer frequencies.
pub(super) const SAMPLES_PER_S: u64 = 499;
/// Samples that are judged together: some 30 ms of CPU time.
const CHUNK: u32 = 16;
/// Shorter runs of samples, some 60 ms, are not judged.
const SAMPLES_MIN: u32 = 2 * CHUNK;
/// In spinning, at least 1 of this many samples is at an instruction that synchronises threads.
const SYNC_ONE_IN: u32 = 4;
/// Limit of cache lines of a run: 4 KiB of code.
const LINES_MAX: usize = 64;
/// In spinning, other threads had temp I/O in flight for at least 1/`IO_ONE_IN` of the time.
const IO_ONE_IN: u64 = 10;
/// Limit of the lead of a thread over the others in recent temp I/O.
const LATEST_NS: u64 = 100_000_000;
const LINE_SHIFT: u32 = 6;
/// Limit of addresses whose instructions are kept, some MB.
const KNOWN_MAX: usize = 1 << 17;

/// Consecutive chunks of samples that spin, in a stretch of a thread without an observed call.
#[derive(Clone, Debug, Default)]
struct Run {
    first_ns: u64,
    last_ns: u64,
    /// Number of samples of the stretch before the run, and in the run.
    before: u32,
    samples: u32,
    lines: BTreeSet<u64>,
    /// Temp I/O of all threads up to the start and the end of the run.
    io_ns: (u64, u64),
}

/// The samples of a stretch of a thread without an observed call.
#[derive(Default)]
struct Stretch {
    samples: u32,
    chunk: Run,
    /// Samples of the chunk at instructions that synchronise threads.
    synced: u32,
    /// The run that chunks are added to, and the longest run that has ended.
    run: Option<Run>,
    longest: Option<Run>,
}

/// An interval in which a thread spun.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Spun {
    pub start_ns: u64,
    pub end_ns: u64,
    /// CPU time of the stretch before the interval, and in the interval.
    pub(crate) before_ns: u64,
    pub cpu_ns: u64,
    /// The thread with the most temp I/O recently.
    pub(crate) waits_for: i32,
}

#[derive(Default)]
pub(crate) struct Spinning {
    stretches: FxHashMap<i32, Stretch>,
    code: Code,
    /// Time of temp I/O of all threads so far.
    io_ns: u64,
    /// The thread with the most temp I/O recently, and its lead over the others.
    io_by: (i32, u64),
    /// CPU time that observed threads spent spinning.
    pub cpu_ns: u64,
}

impl Spinning {
    /// Adds a sample of a thread that was at the address `ip`.
    pub(crate) fn sample(&mut self, pid: i32, tid: i32, time_ns: u64, ip: u64) {
        let synced = self.code.synchronises(pid, ip);
        self.add(tid, time_ns, ip >> LINE_SHIFT, synced);
    }

    fn add(&mut self, tid: i32, time_ns: u64, line: u64, synced: bool) {
        let io_ns = self.io_ns;
        let stretch = self.stretches.entry(tid).or_default();
        let chunk = &mut stretch.chunk;
        if chunk.samples == 0 {
            (chunk.first_ns, chunk.io_ns.0, chunk.before) = (time_ns, io_ns, stretch.samples);
        }
        (chunk.last_ns, chunk.io_ns.1) = (time_ns, io_ns);
        chunk.lines.insert(line);
        chunk.samples += 1;
        stretch.samples += 1;
        stretch.synced += u32::from(synced);
        if chunk.samples == CHUNK {
            stretch.end_chunk();
        }
    }

    /// Forgets the code of a process that has ended or executes another program.
    pub fn forget(&mut self, pid: i32) {
        let known = self.code.programs.remove(&pid).map(|program| program.synchronises.len());
        self.code.known -= known.unwrap_or(0);
    }

    /// Adds the time of a temp operation that a thread has ended.
    pub(crate) fn temp_io(&mut self, tid: i32, elapsed_ns: u64) {
        self.io_ns += elapsed_ns;
        let (most, ahead_ns) = self.io_by;
        self.io_by = if tid == most || elapsed_ns > ahead_ns {
            (tid, (elapsed_ns + if tid == most { ahead_ns } else { 0 }).min(LATEST_NS))
        } else {
            (most, ahead_ns - elapsed_ns)
        };
    }

    /// Ends a stretch of a thread without an observed call, with `cpu_ns` of CPU time; returns the
    /// part of it that was spinning.
    pub(crate) fn end_of(&mut self, tid: i32, end_ns: u64, cpu_ns: u64) -> Option<Spun> {
        let mut stretch = self.stretches.remove(&tid)?;
        let samples = stretch.samples;
        let reaches_end = stretch.end_chunk() || stretch.chunk.samples > 0;
        let last_before = stretch.run.as_ref().map(|run| run.before);
        stretch.end_run();
        let run = stretch.longest?;
        let to_the_end = reaches_end && last_before == Some(run.before);
        let end_ns = if to_the_end { end_ns.max(run.last_ns) } else { run.last_ns };
        let io_ns = if to_the_end { self.io_ns } else { run.io_ns.1 } - run.io_ns.0;
        let part = |samples: u32, of: u32| cpu_ns / u64::from(of) * u64::from(samples);
        if run.samples < SAMPLES_MIN || io_ns * IO_ONE_IN < end_ns - run.first_ns {
            return None;
        }
        let spun = Spun {
            start_ns: run.first_ns,
            end_ns,
            before_ns: part(run.before, samples),
            cpu_ns: part(run.samples, samples),
            waits_for: self.io_by.0,
        };
        self.cpu_ns += spun.cpu_ns;
        Some(spun)
    }
}

impl Stretch {
    /// Adds the chunk to the run if it spins; returns whether it does. An incomplete chunk spins if
    /// all its code is in the current run.
    fn end_chunk(&mut self) -> bool {
        let chunk = std::mem::take(&mut self.chunk);
        let synced = std::mem::take(&mut self.synced);
        let known = self.run.as_ref().is_some_and(|run| chunk.lines.is_subset(&run.lines));
        let spins = chunk.samples > 0 && (synced * SYNC_ONE_IN >= chunk.samples)
            || (chunk.samples < CHUNK && known);
        if !spins {
            self.end_run();
            return false;
        }
        let run = self.run.get_or_insert_with(|| Run { samples: 0, ..chunk.clone() });
        run.samples += chunk.samples;
        (run.last_ns, run.io_ns.1) = (chunk.last_ns, chunk.io_ns.1);
        run.lines.extend(chunk.lines);
        if run.lines.len() > LINES_MAX {
            self.run = None;
            return false;
        }
        true
    }

    fn end_run(&mut self) {
        if let Some(run) = self.run.take()
            && self.longest.as_ref().is_none_or(|longest| longest.samples < run.samples)
        {
            self.longest = Some(run);
        }
    }
}

/// The sampled instructions of observed processes.
#[derive(Default)]
struct Code {
    programs: FxHashMap<i32, Program>,
    /// Number of known addresses in all programs.
    known: usize,
}

/// The program that a process runs. Once open, `memory` does not show a program executed later.
struct Program {
    memory: Option<File>,
    /// For each address, whether the instructions there synchronise threads.
    synchronises: FxHashMap<u64, bool>,
}

/// Bytes of code that are examined before and after a sampled address. The processor completes a
/// slow instruction before it takes the interrupt, so the slow instruction precedes the address.
const BEFORE: usize = 12;
const AFTER: usize = 4;

impl Code {
    /// Whether instructions at the address synchronise threads; false if they cannot be read.
    fn synchronises(&mut self, pid: i32, ip: u64) -> bool {
        if self.known >= KNOWN_MAX || self.programs.len() >= KNOWN_MAX >> 8 {
            *self = Code::default();
        }
        let program = self.programs.entry(pid).or_insert_with(|| Program {
            memory: File::open(format!("/proc/{pid}/mem")).ok(),
            synchronises: FxHashMap::default(),
        });
        *program.synchronises.entry(ip).or_insert_with(|| {
            self.known += 1;
            let mut bytes = [0; BEFORE + AFTER];
            let read = program.memory.as_ref().zip(ip.checked_sub(BEFORE as u64));
            read.is_some_and(|(memory, at)| memory.read_exact_at(&mut bytes, at).is_ok())
                && synchronises(&bytes)
        })
    }
}

/// Whether an instruction that synchronises threads ends or begins at the address: a locked one, or
/// `pause`.
#[cfg(target_arch = "x86_64")]
fn synchronises(code: &[u8; BEFORE + AFTER]) -> bool {
    const PAUSE: [u8; 2] = [0xf3, 0x90];
    code[BEFORE - 2..BEFORE] == PAUSE
        || code[BEFORE..BEFORE + 2] == PAUSE
        || locked_bytes(&code[BEFORE..]).is_some()
        || (0..BEFORE).any(|at| locked_bytes(&code[at..]) == Some(BEFORE - at))
}

/// The length of a locked instruction; None for any other or a truncated one. A locked instruction
/// has a memory operand, which distinguishes it from other bytes that begin with the same prefix.
#[cfg(target_arch = "x86_64")]
fn locked_bytes(code: &[u8]) -> Option<usize> {
    const LOCK: u8 = 0xf0;
    let mut at = 1;
    // An operand-size prefix and REX may precede the opcode.
    at += usize::from(*code.get(at)? == 0x66);
    at += usize::from(matches!(*code.get(at)?, 0x40..=0x4f));
    let opcode = *code.get(at)?;
    let two_bytes = opcode == 0x0f;
    at += 1 + usize::from(two_bytes);
    let operand = *code.get(at)?;
    let immediate_bytes = match (opcode, code[at - 1]) {
        (0x0f, 0xba) => 1,
        (0x0f, 0xab | 0xb0 | 0xb1 | 0xb3 | 0xbb | 0xc0 | 0xc1 | 0xc7) => 0,
        (0x80 | 0x83, _) => 1,
        (0x81, _) => 4,
        (0x86 | 0x87 | 0xf6 | 0xf7 | 0xfe | 0xff, _) => 0,
        (opcode, _) if opcode < 0x34 && opcode & 7 < 2 => 0,
        _ => return None,
    };
    let (mode, register) = (operand >> 6, operand & 7);
    let scaled = register == 4;
    let displacement_bytes = match (mode, register) {
        (0, 5) => 4,
        (0, 4) if *code.get(at + 1)? & 7 == 5 => 4,
        (0, _) => 0,
        (1, _) => 1,
        (2, _) => 4,
        _ => return None,
    };
    let bytes = at + 1 + usize::from(scaled) + displacement_bytes + immediate_bytes;
    (code[0] == LOCK).then_some(bytes)
}

/// Whether the instruction before or at the address synchronises threads: an exclusive or atomic
/// one, or a hint.
#[cfg(target_arch = "aarch64")]
fn synchronises(code: &[u8; BEFORE + AFTER]) -> bool {
    code[BEFORE - 4..].chunks_exact(4).any(|bytes| {
        let word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let exclusive = word & 0x3f00_0000 == 0x0800_0000;
        let atomic = word & 0x3b20_0c00 == 0x3820_0000;
        let hint = matches!(word, 0xd503_203f | 0xd503_205f | 0xd503_3fdf);
        exclusive || atomic || hint
    })
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn synchronises(_code: &[u8; BEFORE + AFTER]) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    use super::super::assemble::Assembler;
    use super::super::event::Event;
    use super::super::temp::TempRules;
    use super::*;

    const MS: u64 = 1_000_000;

    /// Adds samples every 2 ms from `begin_ms` on, on `lines` lines; every `one_in`-th is synced.
    fn samples(spinning: &mut Spinning, begin_ms: u64, count: u64, lines: u64, one_in: u64) {
        for n in 0..count {
            let synced = one_in > 0 && n % one_in == 0;
            spinning.add(1, (begin_ms + 2 * n) * MS, n % lines, synced);
            if n % 4 == 3 {
                spinning.temp_io(2, 7 * MS);
            }
        }
    }

    #[test]
    fn the_end_of_a_stretch_is_spinning_and_its_start_is_work() {
        let mut spinning = Spinning::default();
        samples(&mut spinning, 0, 160, 100, 0);
        samples(&mut spinning, 320, 100, 5, 3);
        let spun = spinning.end_of(1, 530 * MS, 520 * MS).unwrap();
        assert_eq!((spun.start_ns, spun.end_ns, spun.waits_for), (320 * MS, 530 * MS, 2));
        assert_eq!((spun.before_ns, spun.cpu_ns), (320 * MS, 200 * MS));
        assert_eq!(spinning.cpu_ns, 200 * MS);
        assert_eq!(spinning.end_of(1, 600 * MS, 70 * MS), None);
    }

    #[test]
    fn work_after_spinning_is_work() {
        let mut spinning = Spinning::default();
        samples(&mut spinning, 0, 96, 5, 3);
        samples(&mut spinning, 192, 32, 100, 0);
        let spun = spinning.end_of(1, 300 * MS, 256 * MS).unwrap();
        assert_eq!((spun.start_ns, spun.end_ns), (0, 190 * MS));
        assert_eq!((spun.before_ns, spun.cpu_ns), (0, 192 * MS));
    }

    #[test]
    fn work_on_few_lines_and_spinning_without_io_are_not_waits() {
        let mut spinning = Spinning::default();
        samples(&mut spinning, 0, 100, 5, 0);
        assert_eq!(spinning.end_of(1, 200 * MS, 200 * MS), None);
        samples(&mut spinning, 0, 100, 90, 3);
        assert_eq!(spinning.end_of(1, 200 * MS, 200 * MS), None);
        for n in 0..100 {
            spinning.add(1, 2 * n * MS, 0, true);
        }
        assert_eq!(spinning.end_of(1, 200 * MS, 200 * MS), None);
        // Too short.
        samples(&mut spinning, 0, 24, 5, 3);
        assert_eq!(spinning.end_of(1, 50 * MS, 50 * MS), None);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn code_is_read_again_after_an_exec() {
        let mut assembler = Assembler::new(0, TempRules::default());
        let mut shell = Command::new("sh");
        let shell = shell.args(["-c", "read line; exec cat"]).stdin(Stdio::piped());
        let mut child = shell.stdout(Stdio::piped()).spawn().unwrap();
        let pid = child.id() as i32;
        let sample = Event::Sample { pid, tid: pid, time_ns: 0, ip: 1 << 20 };
        assembler.take(&mut vec![sample]);
        let mut line = child.stdin.take().unwrap();
        line.write_all(b"\nstarted\n").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0; 8]).unwrap();
        assembler.take(&mut vec![Event::Exec { pid }]);
        // A `pause` somewhere in the C library.
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        let library = maps.lines().find(|line| line.contains("r-xp") && line.contains("/libc"));
        let (begin, _) = library.unwrap().split_once('-').unwrap();
        let begin = u64::from_str_radix(begin, 16).unwrap();
        let mut code = vec![0; 1 << 20];
        let memory = File::open(format!("/proc/{pid}/mem")).unwrap();
        memory.read_exact_at(&mut code, begin).unwrap();
        let pause = code[BEFORE..].windows(2).position(|two| two == [0xf3, 0x90]).unwrap();
        assert!(assembler.spinning.code.synchronises(pid, begin + (BEFORE + pause) as u64));
        drop(line);
        child.wait().unwrap();
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn locked_instructions_and_pause_synchronise() {
        let at = |before: &[u8], after: &[u8]| {
            let mut code = [0x90; BEFORE + AFTER];
            code[BEFORE - before.len()..BEFORE].copy_from_slice(before);
            code[BEFORE..BEFORE + after.len()].copy_from_slice(after);
            synchronises(&code)
        };
        // lock cmpxchg %edx,(%rdi); lock xadd %rax,(%rdi); lock decl (%rdi); pause.
        assert!(at(&[0xf0, 0x0f, 0xb1, 0x17], &[0x75, 0xfa]));
        assert!(at(&[0xf0, 0x48, 0x0f, 0xc1, 0x07], &[]));
        assert!(at(&[0xf0, 0xff, 0x0f], &[]) && at(&[], &[0xf0, 0xff, 0x0f]));
        assert!(at(&[0xf3, 0x90], &[0xeb, 0xfc]) && at(&[], &[0xf3, 0x90]));
        // lock incl 0x18(%rax,%rbx,4) and lock addl $1,0x12345678(%rip), which end at the address.
        assert!(at(&[0xf0, 0xff, 0x44, 0x98, 0x18], &[0xc3]));
        assert!(at(&[0xf0, 0x83, 0x05, 0x78, 0x56, 0x34, 0x12, 0x01], &[0xc3]));
        assert!(!at(&[0xf0, 0xff, 0x0f, 0x90], &[0xc3]));
        // xor %rsi,%r8 and xor %rdx,%r8, whose bytes look like a lock; mov, add and jne; rep movsb.
        assert!(!at(&[0x49, 0x31, 0xf0, 0x49, 0x31, 0xd0], &[0x4c, 0x89]));
        assert!(!at(&[0x48, 0x8b, 0x07, 0x48, 0x01, 0xc8], &[0x75, 0xf8]));
        assert!(!at(&[0xf3, 0xa4], &[0xc3]));
    }
}
