//! Parses the records of the ring. programs/records.h has the same layouts, which consist of
//! integers without padding, so that any bytes are valid.

use std::ffi::CStr;
use std::mem;
use std::ptr;

use aya::Pod;

use super::super::stacks::STACK_BYTES;

#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Header {
    type_: u32,
    pub pid: i32,
    pub tid: i32,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct Call {
    pub header: Header,
    pub kind: u16,
    pub blocked: u16,
    pub start_ns: u64,
    pub end_ns: u64,
    /// -1 if the call has none.
    pub offset: i64,
    pub ret: i64,
    pub cpu_before_ns: u64,
    /// CPU time in the call since its last wait.
    pub(crate) inside_cpu_ns: u64,
    pub fd: i32,
    unused: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct Block {
    pub start_ns: u64,
    pub end_ns: u64,
    pub cpu_before_ns: u64,
    /// 0 if no observed thread woke it.
    pub woken_by: i32,
    /// The activity during the block: IN_CALL for a block that is not the last one in its call.
    pub inside: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct CallBlocked {
    call: Call,
    block: Block,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Blocked {
    header: Header,
    unused: u32,
    block: Block,
}

/// See `enum inside` of programs/records.h.
pub(crate) const IN_CALL: u32 = 1;
pub(crate) const IN_ONE_REQUEST: u32 = 2;
pub(crate) const WRITEBACK: u32 = 3;
pub(crate) const OTHER_IO: u32 = 4;

/// The file of a descriptor or a request.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Identity {
    pub ino: u64,
    /// In the kernel's encoding: major << 20 | minor.
    pub device: u32,
    pub(crate) links: u32,
    pub mode: u32,
    unused: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct Request {
    pub header: Header,
    pub write: u32,
    pub start_ns: u64,
    pub end_ns: u64,
    pub offset: i64,
    pub cpu_before_ns: u64,
    /// CPU time of its thread's other work while the request was in flight.
    pub busy_ns: u64,
    pub file: Identity,
    pub ret: i32,
    /// Most requests and calls that its thread had in flight at once, since it had none.
    pub most: u32,
}

/// A sample of a thread's instruction pointer.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Sample {
    pub header: Header,
    unused: u32,
    pub(crate) time_ns: u64,
    pub(crate) ip: u64,
}

/// The registers of a thread and its stack.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Stack {
    pub header: Header,
    bytes: u32,
    pub(crate) time_ns: u64,
    pub(crate) ip: u64,
    pub(crate) sp: u64,
    pub(crate) fp: u64,
    pub(crate) lr: u64,
    stack: [u8; STACK_BYTES],
}

impl Stack {
    /// The part of the stack that could be read.
    pub fn bytes(&self) -> &[u8] {
        &self.stack[..(self.bytes as usize).min(STACK_BYTES)]
    }
}

const PATH_BYTES: usize = 256;

#[derive(Clone, Copy)]
#[repr(C)]
pub struct Named {
    pub call: Call,
    pub file: Identity,
    /// -1 if the descriptor does not append.
    pub(crate) append_at: i64,
    path_bytes: i64,
    path: [u8; PATH_BYTES],
}

#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Life {
    pub header: Header,
    pub child: i32,
    /// For a fork: the role of the parent.
    pub(crate) role: u32,
    /// For a thread that ends: how many threads of its process are still running.
    pub live: u32,
    pub cpu_ns: u64,
}

macro_rules! layouts {
    ($($name:ident)*) => {$(
        // SAFETY: it is `repr(C)`, holds only integers, and has no padding.
        unsafe impl Pod for $name {}
    )*};
}

layouts! { Call CallBlocked Blocked Named Life Request Sample Stack }

impl Named {
    /// The path that the call was given; None if it is too long, or could not be read.
    pub fn path(&self) -> Option<String> {
        let whole = self.path_bytes > 0 && (self.path_bytes as usize) < PATH_BYTES;
        let path = CStr::from_bytes_until_nul(&self.path).ok().filter(|_| whole)?;
        Some(path.to_string_lossy().into_owned())
    }
}

/// A report.
pub(crate) enum Record {
    Call(Call, Option<Block>),
    /// A call that was given a path.
    Named(Box<Named>),
    /// A call on a path that returned a descriptor.
    Opened(Box<Named>),
    Blocked(Header, Block),
    Fork(Life),
    Exec(Life),
    ThreadExit(Life),
    Request(Request),
    Sample(Sample),
    Stack(Box<Stack>),
}

/// Parses a report; None if it is damaged.
pub fn parse(bytes: &[u8]) -> Option<Record> {
    let type_ = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?);
    Some(match type_ {
        0 => Record::Call(read(bytes)?, None),
        1 => {
            let CallBlocked { call, block } = read(bytes)?;
            Record::Call(call, Some(block))
        }
        2 => Record::Named(Box::new(read(bytes)?)),
        3 => Record::Opened(Box::new(read(bytes)?)),
        4 => {
            let Blocked { header, block, .. } = read(bytes)?;
            Record::Blocked(header, block)
        }
        5 => Record::Fork(read(bytes)?),
        6 => Record::Exec(read(bytes)?),
        7 => Record::ThreadExit(read(bytes)?),
        8 => Record::Request(read(bytes)?),
        9 => Record::Sample(read(bytes)?),
        10 => Record::Stack(Box::new(read(bytes)?)),
        _ => return None,
    })
}

fn read<T: Pod>(bytes: &[u8]) -> Option<T> {
    // SAFETY: there are enough bytes, at any alignment, and any bytes are a valid T.
    (bytes.len() >= mem::size_of::<T>())
        .then(|| unsafe { ptr::read_unaligned(bytes.as_ptr().cast()) })
}
