//! Parses the bytes of a perf record: a call began or ended, a thread was scheduled out or in.

use perf_event_open_sys::bindings as sys;

use spillcast_calls::{CallKind, TO_END};

use super::super::event::StackSample;
use super::open::UNWIND_REGISTERS;
use super::open_path::OpenPath;
use super::tracepoints::{Edge, Tracepoints};
use crate::native::{u32_at, u64_at};

/// A record of a ring, as far as a capture needs it.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) time_ns: u64,
    pub pid: i32,
    pub tid: i32,
    pub(crate) payload: Payload,
}

#[derive(Clone, Debug)]
pub(crate) enum Payload {
    Enter {
        kind: CallKind,
        fd: i32,
        offset: Option<i64>,
        /// The path of an open.
        path: Option<OpenPath>,
    },
    Exit {
        kind: CallKind,
        ret: i64,
    },
    /// The thread was scheduled out: preempted, or because it had to wait.
    SwitchOut {
        preempted: bool,
    },
    SwitchIn,
    /// The thread of the record, or an interrupt that came while it ran, woke another thread.
    Waking {
        woken: i32,
        interrupt: bool,
    },
    /// The thread was at this address of its code.
    Sampled {
        ip: u64,
    },
    /// The registers and the stack of the thread.
    Stack {
        sample: Box<StackSample>,
    },
    Fork {
        parent: i32,
    },
    Exec,
    /// The thread changes its name.
    Renaming {
        name: [u8; NAME_BYTES],
    },
    ThreadExit,
    Lost {
        count: u64,
    },
}

/// Size of a thread's name in the kernel, with the terminating NUL.
pub(crate) const NAME_BYTES: usize = 16;
const HEADER: usize = 8;
/// Size of pid, tid and time at the end of a record that is not a sample.
const TRAILER: usize = 16;
/// Offset of the flags in every tracepoint's raw data, and the flags of a hard or soft interrupt:
/// see struct trace_entry and enum trace_flag_type of the kernel.
const RAW_FLAGS: usize = 2;
const INTERRUPT: u8 = 0x08 | 0x10;
/// Offset of the first argument, or the return value, in a syscall tracepoint's raw data.
const RAW_ARGS: usize = 16;
/// Size of the register ABI and one register, which is all that a sample of an address has.
const IP_BYTES: usize = 16;

/// Parses a record; None for kinds that a capture does not need.
pub fn parse(bytes: &[u8], tracepoints: &Tracepoints) -> Option<Record> {
    let kind = u32_at(bytes, 0)?;
    let misc = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?) as u32;
    match kind {
        sys::PERF_RECORD_SAMPLE => sample(bytes, tracepoints),
        // In system-wide records, too, the trailer names the thread that is scheduled out or in.
        sys::PERF_RECORD_SWITCH | sys::PERF_RECORD_SWITCH_CPU_WIDE => {
            let payload = if misc & sys::PERF_RECORD_MISC_SWITCH_OUT == 0 {
                Payload::SwitchIn
            } else {
                let preempted = misc & sys::PERF_RECORD_MISC_SWITCH_OUT_PREEMPT != 0;
                Payload::SwitchOut { preempted }
            };
            // Process 0 is an idle CPU.
            trailed(bytes, payload).filter(|record| record.pid > 0)
        }
        sys::PERF_RECORD_COMM if misc & sys::PERF_RECORD_MISC_COMM_EXEC != 0 => {
            trailed(bytes, Payload::Exec)
        }
        sys::PERF_RECORD_FORK | sys::PERF_RECORD_EXIT => task(bytes, kind),
        sys::PERF_RECORD_LOST => {
            trailed(bytes, Payload::Lost { count: u64_at(bytes, HEADER + 8)? })
        }
        _ => None,
    }
}

fn sample(bytes: &[u8], tracepoints: &Tracepoints) -> Option<Record> {
    let (pid, tid) = (u32_at(bytes, HEADER)? as i32, u32_at(bytes, HEADER + 4)? as i32);
    let time_ns = u64_at(bytes, HEADER + 8)?;
    let raw_bytes = u32_at(bytes, HEADER + 16)? as usize;
    let (raw, stack) = bytes.get(HEADER + 20..)?.split_at_checked(raw_bytes)?;
    Some(Record { time_ns, pid, tid, payload: sampled(raw, stack, tracepoints)? })
}

/// Parses a sample by its raw data, which begins with the number of the tracepoint.
fn sampled(raw: &[u8], stack: &[u8], tracepoints: &Tracepoints) -> Option<Payload> {
    let id = u16::from_ne_bytes(*raw.first_chunk()?);
    // A clock sample has no raw data: its registers follow the placeholder for them.
    if id == 0 {
        return Some(match stack.len() {
            IP_BYTES => Payload::Sampled { ip: u64_at(stack, 8)? },
            _ => Payload::Stack { sample: Box::new(stack_sample(stack)?) },
        });
    }
    if let Some(waking) = tracepoints.waking.filter(|waking| waking.id == id) {
        let woken = u32_at(raw, waking.at)? as i32;
        return Some(Payload::Waking { woken, interrupt: raw[RAW_FLAGS] & INTERRUPT != 0 });
    }
    if let Some(renaming) = tracepoints.renaming.filter(|renaming| renaming.id == id) {
        let name = raw.get(renaming.at..renaming.at + NAME_BYTES)?.try_into().ok()?;
        return Some(Payload::Renaming { name });
    }
    match tracepoints.of(id)? {
        (kind, Edge::Exit) => Some(Payload::Exit { kind, ret: u64_at(raw, RAW_ARGS)? as i64 }),
        (kind, Edge::Enter) => entered(kind, raw, stack),
    }
}

/// Parses the entry of a call; None for a fcntl that does not duplicate a descriptor, and for a
/// close_range that closes nothing yet.
fn entered(kind: CallKind, raw: &[u8], stack: &[u8]) -> Option<Payload> {
    let argument = |number: usize| u64_at(raw, RAW_ARGS + 8 * number);
    let fd = if kind.opens() { -1 } else { argument(0)? as i32 };
    let command = argument(1).unwrap_or_default() as i32;
    let duplicates = [libc::F_DUPFD, libc::F_DUPFD_CLOEXEC].contains(&command);
    if kind == CallKind::Fcntl && !duplicates {
        return None;
    }
    let closes_later =
        || argument(2).is_some_and(|flags| flags as u32 & libc::CLOSE_RANGE_CLOEXEC != 0);
    if kind == CallKind::CloseRange && closes_later() {
        return None;
    }
    let offset = match kind.offset_argument() {
        Some(number) => Some(argument(number)? as i64),
        None => None,
    };
    let appends = || argument(5).is_some_and(|flags| flags as i32 & libc::RWF_APPEND != 0);
    let offset = match kind {
        CallKind::Pwritev2 if appends() => Some(TO_END),
        // preadv2 and pwritev2 take -1 for "at the file position".
        _ => offset.filter(|&offset| offset >= 0),
    };
    let given = |folder, address| OpenPath::new(folder, address, on_stack(stack, address));
    let path = match kind {
        CallKind::Open | CallKind::Creat => Some(given(libc::AT_FDCWD, argument(0)?)),
        kind if kind.opens() => Some(given(argument(0)? as i32, argument(1)?)),
        _ => None,
    };
    Some(Payload::Enter { kind, fd, offset, path })
}

/// The registers of a sample and the stack after them; None if the thread was not in user mode.
fn stack_sample(bytes: &[u8]) -> Option<StackSample> {
    if u64_at(bytes, 0)? == sys::PERF_SAMPLE_REGS_ABI_NONE as u64 {
        return None;
    }
    let count = UNWIND_REGISTERS.len();
    let register = |at: usize| u64_at(bytes, 8 * (1 + at));
    let (size_at, stack_at) = (8 * (1 + count), 8 * (2 + count));
    let size = u64_at(bytes, size_at)? as usize;
    let sampled = u64_at(bytes, stack_at.checked_add(size)?).map_or(0, |sampled| sampled as usize);
    Some(StackSample {
        ip: register(count - 1)?,
        sp: register(count - 2)?,
        fp: register(0)?,
        lr: if count == 4 { register(1)? } else { 0 },
        stack: bytes.get(stack_at..stack_at + sampled.min(size))?.to_vec(),
    })
}

/// The bytes at an address of the caller's stack. What follows the raw data is the register ABI (0
/// for none), the stack pointer, a size, that many bytes, and the number of valid ones.
fn on_stack(bytes: &[u8], address: u64) -> Option<&[u8]> {
    if u64_at(bytes, 0)? == sys::PERF_SAMPLE_REGS_ABI_NONE as u64 {
        return None;
    }
    let (lowest, size) = (u64_at(bytes, 8)?, u64_at(bytes, 16)? as usize);
    let sampled = u64_at(bytes, size.checked_add(24)?)? as usize;
    let stack = bytes.get(24..24 + sampled.min(size))?;
    stack.get(address.checked_sub(lowest)? as usize..)
}

fn task(bytes: &[u8], kind: u32) -> Option<Record> {
    let (pid, parent) = (u32_at(bytes, HEADER)? as i32, u32_at(bytes, HEADER + 4)? as i32);
    let (tid, time_ns) = (u32_at(bytes, HEADER + 8)? as i32, u64_at(bytes, HEADER + 16)?);
    let payload = match kind {
        sys::PERF_RECORD_EXIT => Payload::ThreadExit,
        _ => Payload::Fork { parent },
    };
    Some(Record { time_ns, pid, tid, payload })
}

fn trailed(bytes: &[u8], payload: Payload) -> Option<Record> {
    let at = bytes.len().checked_sub(TRAILER)?;
    let (pid, tid) = (u32_at(bytes, at)? as i32, u32_at(bytes, at + 4)? as i32);
    Some(Record { time_ns: u64_at(bytes, at + 8)?, pid, tid, payload })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_on_the_stack_is_read_relative_to_the_stack_pointer() {
        let sampled = |kind: u64, bytes: &[u8], held: u64| {
            let size = bytes.len() as u64;
            let words = [kind, 0x7000, size].map(u64::to_ne_bytes).concat();
            [&words, bytes, &held.to_ne_bytes()].concat()
        };
        let stack = sampled(2, b"........a/path\0.", 16);
        assert_eq!(on_stack(&stack, 0x7008).unwrap(), b"a/path\0.");
        // Below or beyond the sampled bytes, and without a stack.
        assert_eq!(on_stack(&stack, 0x6fff), None);
        assert_eq!(on_stack(&stack, 0x7011), None);
        assert_eq!(on_stack(&sampled(2, b"........a/path\0.", 4), 0x7008), None);
        assert_eq!(on_stack(&sampled(0, b"", 0), 0x7008), None);
        assert_eq!(on_stack(b"", 0x7008), None);
    }
}
