//! Loads the programs into the kernel, adapted to it, and attaches them; they end with the process.
//!
//! clang, or the one in the package ziglang, compiles the programs when spillcast is built, and the
//! core contains the object. The loader adapts the few kernel fields that they read to the running
//! kernel. Without a compiler the build fails, unless `BPF=no` leaves this source out; such a build
//! reports that the source is missing.

use std::fs;
use std::io;

use aya::maps::{HashMap, MapData, PerCpuArray, RingBuf};
use aya::programs::perf_event::{PerfEventConfig, PerfEventScope, SamplePolicy, SoftwareEvent};
use aya::programs::{BtfTracePoint, PerfEvent, RawTracePoint};
use aya::util::online_cpus;
use aya::{Btf, Ebpf, EbpfLoader, Endianness, Pod};
use spillcast_calls::CallKind;

use super::super::spinning::SAMPLES_PER_S;
use super::super::stacks::STACK_BYTES;
use super::btf;

/// Empty if it was built without the programs.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/capture.bpf.o"));

/// The programs, each with the tracepoint it is attached to.
const PROGRAMS: [(&str, &str); 6] = [
    ("thread_starts", "sched_process_fork"),
    ("program_starts", "sched_process_exec"),
    ("thread_ends", "sched_process_exit"),
    ("thread_wakes", "sched_waking"),
    ("thread_switches", "sched_switch"),
    ("call_ends", "sys_exit"),
];

/// The same for a program that knows the type of its arguments and reads them without a helper,
/// which saves a tenth of the cost of an observed call.
const TYPED_PROGRAM: (&str, &str) = ("call_begins", "sys_enter");

/// The same for programs that older kernels, or kernels without io_uring, may refuse.
const REQUEST_PROGRAMS: [(&str, &str); 2] =
    [("request_ends", "io_uring_complete"), ("request_begins", "io_uring_submit_req")];
const FAULT_PROGRAMS: [(&str, &str); 1] = [("file_faults", "mm_filemap_fault")];
/// Reclaim of memory for the whole machine, and for a memory cgroup, which a kernel may lack.
const RECLAIM_PROGRAMS: [(&str, &str); 2] = [
    ("reclaim_ends", "mm_vmscan_direct_reclaim_end"),
    ("reclaim_begins", "mm_vmscan_direct_reclaim_begin"),
];
const GROUP_RECLAIM_PROGRAMS: [(&str, &str); 2] = [
    ("group_reclaim_ends", "mm_vmscan_memcg_reclaim_end"),
    ("group_reclaim_begins", "mm_vmscan_memcg_reclaim_begin"),
];

/// The program that samples each CPU.
const SAMPLE_PROGRAM: &str = "cpu_sampled";

/// Number of system calls that the programs have room for.
const CALLS_MAX: usize = 512;

/// See `enum role` of programs/records.h.
pub const OBSERVED: u32 = 1;
pub(crate) const WATCHED: u32 = 2;

/// The kernel's state of a thread: `struct thread` of programs/records.h.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct Thread {
    pub(crate) role: u32,
    call: [u16; 2],
    pub(crate) on_cpu_since_ns: u64,
    pub cpu_ns: u64,
    rest: [u64; 20],
}

impl Thread {
    /// Adds `role` to what is observed of the thread.
    pub fn with(self, role: u32) -> Thread {
        Thread { role: self.role | role, ..self }
    }
}

// SAFETY: it is repr(C), holds only integers, and has no padding.
unsafe impl Pod for Thread {}

pub type Threads = HashMap<MapData, i32, Thread>;

/// The output of the attached programs.
pub(crate) struct Reports {
    pub ring: RingBuf<MapData>,
    pub stacks: RingBuf<MapData>,
    pub counts: PerCpuArray<MapData, u64>,
    pub every_call: bool,
    /// Whether requests of io_uring are reported, and page faults that read a file.
    pub requests: bool,
    pub file_faults: bool,
    /// Whether instruction pointers of threads are sampled.
    pub samples: bool,
}

/// Loads and attaches the programs, which observe nothing yet; they end when the first returned
/// value is dropped. Also returns the map of observed threads, and the reports.
///
/// Errors: EPERM without the privileges; ENOENT if the kernel has no BTF or lacks a tracepoint;
/// ENOSYS if this was built without the programs; EINVAL if the kernel refuses them.
pub fn load(calls: &[CallKind]) -> io::Result<(Ebpf, Threads, Reports)> {
    if OBJECT.is_empty() {
        return Err(io::Error::from_raw_os_error(libc::ENOSYS));
    }
    let (described, of_tracepoint) = {
        let whole = fs::read("/sys/kernel/btf/vmlinux")?;
        (btf::reduced(&whole), btf::of_tracepoint(&whole, TYPED_PROGRAM.1))
    };
    let described = described.ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
    let btf = Btf::parse(&described, Endianness::default()).map_err(refused)?;
    let (kinds, flags) = rules(calls);
    let cpus = online_cpus().map_or(1, |cpus| cpus.len() as u32);
    // Room for the stacks that this many CPUs sample in 80 ms.
    let stacks_bytes = 8 * cpus.min(256) * (STACK_BYTES as u32 + 64);
    let mut loaded = EbpfLoader::new()
        .btf(Some(&btf))
        .map_max_entries("stacks", stacks_bytes.next_power_of_two())
        .override_global("kind_of_call", &kinds[..], true)
        .override_global("flags_of_call", &flags[..], true)
        .load(OBJECT)
        .map_err(refused)?;
    attach(&mut loaded, &PROGRAMS)?;
    attach_typed(&mut loaded, of_tracepoint)?;
    let requests = any_call(calls) && attach(&mut loaded, &REQUEST_PROGRAMS).is_ok();
    let file_faults = attach(&mut loaded, &FAULT_PROGRAMS).is_ok();
    // Without these, waits for writeback are not distinguished.
    let _ = attach(&mut loaded, &RECLAIM_PROGRAMS);
    let _ = attach(&mut loaded, &GROUP_RECLAIM_PROGRAMS);
    let samples = attach_samples(&mut loaded).is_ok();
    let mut map = |name| loaded.take_map(name).expect("it was compiled in");
    let threads = map("threads").try_into().map_err(refused)?;
    let reports = Reports {
        ring: map("ring").try_into().map_err(refused)?,
        stacks: map("stacks").try_into().map_err(refused)?,
        counts: map("counts").try_into().map_err(refused)?,
        every_call: any_call(calls),
        requests,
        file_faults,
        samples,
    };
    Ok((loaded, threads, reports))
}

fn attach(loaded: &mut Ebpf, programs: &[(&str, &str)]) -> io::Result<()> {
    for (name, tracepoint) in programs {
        let program = loaded.program_mut(name).expect("it was compiled in");
        let program: &mut RawTracePoint = program.try_into().expect("all are of this kind");
        program.load().and_then(|()| program.attach(tracepoint)).map_err(refused)?;
    }
    Ok(())
}

/// Attaches the program that samples to each CPU.
fn attach_samples(loaded: &mut Ebpf) -> io::Result<()> {
    let program = loaded.program_mut(SAMPLE_PROGRAM).expect("it was compiled in");
    let program: &mut PerfEvent = program.try_into().expect("it is of this kind");
    program.load().map_err(refused)?;
    for cpu in online_cpus().map_err(|(_, error)| error)? {
        let config = PerfEventConfig::Software(SoftwareEvent::CpuClock);
        let scope = PerfEventScope::AllProcessesOneCpu { cpu };
        let policy = SamplePolicy::Frequency(SAMPLES_PER_S);
        program.attach(config, scope, policy, false).map_err(refused)?;
    }
    Ok(())
}

/// Attaches the typed program, with the BTF of its tracepoint.
fn attach_typed(loaded: &mut Ebpf, described: Option<Vec<u8>>) -> io::Result<()> {
    let (name, tracepoint) = TYPED_PROGRAM;
    let described = described.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))?;
    let btf = Btf::parse(&described, Endianness::default()).map_err(refused)?;
    let program = loaded.program_mut(name).expect("it was compiled in");
    let program: &mut BtfTracePoint = program.try_into().expect("it is of this kind");
    program.load(tracepoint, &btf).and_then(|()| program.attach()).map_err(refused)?;
    Ok(())
}

/// For each system call by its number: its kind + 1, and its `call_flags`.
fn rules(calls: &[CallKind]) -> ([u16; CALLS_MAX], [u16; CALLS_MAX]) {
    let (mut kinds, mut flags) = ([0; CALLS_MAX], [0; CALLS_MAX]);
    for &kind in calls {
        let Some(number) = kind.number().map(|number| number as usize) else { continue };
        kinds[number] = kind as u16 + 1;
        flags[number] = call_flags(kind);
    }
    if any_call(calls) {
        // Any kind will do: the call is not reported.
        const RING: u16 = 128;
        let ring = libc::SYS_io_uring_enter as usize;
        (kinds[ring], flags[ring]) = (1, RING);
    }
    (kinds, flags)
}

/// Whether all calls for file I/O are observed. An engine for which only certain calls are observed
/// does no relevant I/O through io_uring.
fn any_call(calls: &[CallKind]) -> bool {
    calls.len() == CallKind::ALL.len()
}

/// See `enum call_flags` of programs/records.h.
fn call_flags(kind: CallKind) -> u16 {
    const TIMED: u16 = 1;
    const PATH_FIRST: u16 = 2;
    const PATH_SECOND: u16 = 4;
    const OPENS: u16 = 8;
    const AT_ENTRY: u16 = 16;
    const FCNTL: u16 = 32;
    const UNLINKAT: u16 = 64;
    const LOOKUP: u16 = 256;
    const RANGE: u16 = 512;
    const MAY_APPEND: u16 = 1024;
    const OFFSET_SHIFT: u32 = 11;
    use CallKind::*;
    let of_kind = match kind {
        Open | Creat => OPENS | PATH_FIRST,
        Openat | Openat2 => OPENS | PATH_SECOND,
        Unlink | Truncate => PATH_FIRST,
        Unlinkat => PATH_SECOND | UNLINKAT,
        Stat | Access => PATH_FIRST | LOOKUP,
        Newfstatat | Statx | Faccessat => PATH_SECOND | LOOKUP,
        Close => AT_ENTRY,
        CloseRange => AT_ENTRY | RANGE,
        Fcntl => FCNTL,
        Pwritev2 => MAY_APPEND,
        _ => 0,
    };
    let timed = if kind.is_timed() { TIMED } else { 0 };
    of_kind | timed | (kind.offset_argument().unwrap_or(0) as u16) << OFFSET_SHIFT
}

/// The kernel's error number, from anywhere in a chain of causes.
fn refused(error: impl std::error::Error + 'static) -> io::Error {
    let mut reason: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(error) = reason {
        if let Some(code) = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error) {
            return io::Error::from_raw_os_error(code);
        }
        reason = error.source();
    }
    io::Error::other(error.to_string())
}
