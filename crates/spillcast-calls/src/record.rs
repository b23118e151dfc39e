//! The content of a slot of the ring: a call, or a file or a call that is followed by its path.

use crate::call::{Call, CallKind};

/// The content of a slot beside its sequence number.
pub type Words = [u64; 7];
pub(crate) const WORDS_BYTES: usize = size_of::<Words>();

/// The file of a descriptor, without its path, and the process and number of the descriptor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FileRecord {
    pub pid: i32,
    pub fd: i32,
    pub dev: u64,
    pub ino: u64,
    pub regular: bool,
    pub unlinked: bool,
    pub position: Option<i64>,
    /// The end of the file, where the descriptor appends to it.
    pub append_at: Option<i64>,
}

/// The first slot of a record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Record {
    Call(Call),
    /// The path follows in the next slots.
    File {
        file: FileRecord,
        path_bytes: u16,
    },
    /// The path of the call follows in the next slots.
    Named {
        call: Call,
        path_bytes: u16,
    },
}

// The first word: tag, a byte specific to the tag, flags or a length, descriptor. UTF-8 never
// contains a byte of these values, so a slot of a path never looks like a record.
const TAG_NAMED: u8 = 0xfd;
const TAG_CALL: u8 = 0xfe;
const TAG_FILE: u8 = 0xff;

const HAS_OFFSET: u16 = 1;
const HAS_CPU: u16 = 2;
const HAS_BLOCKED: u16 = 4;
const BLOCKED: u16 = 8;

const REGULAR: u16 = 1;
const UNLINKED: u16 = 2;
const HAS_POSITION: u16 = 4;
const APPENDS: u16 = 8;

fn first_word(tag: u8, byte: u8, half: u16, fd: i32) -> u64 {
    u64::from(tag) | u64::from(byte) << 8 | u64::from(half) << 16 | u64::from(fd as u32) << 32
}

fn flag(on: bool, bit: u16) -> u16 {
    u16::from(on) * bit
}

/// The words of a part of a path, at most as long as a slot; padded with zeros.
pub(crate) fn words_of_path(path: &[u8]) -> Words {
    let mut words = Words::default();
    for (word, part) in words.iter_mut().zip(path.chunks(size_of::<u64>())) {
        let mut bytes = [0; size_of::<u64>()];
        bytes.iter_mut().zip(part).for_each(|(to, from)| *to = *from);
        *word = u64::from_ne_bytes(bytes);
    }
    words
}

/// The part of a path that a slot holds, padded with zeros.
pub fn path_of_words(words: Words) -> impl Iterator<Item = u8> {
    words.into_iter().flat_map(u64::to_ne_bytes)
}

/// The words of a call on a path: the length of the path takes the place of the descriptor.
pub(crate) fn words_of_named(call: &Call, path_bytes: u16) -> Words {
    let mut words = words_of_call(&Call { fd: i32::from(path_bytes), ..*call });
    words[0] = words[0] & !0xff | u64::from(TAG_NAMED);
    words
}

pub(crate) fn words_of_call(call: &Call) -> Words {
    let flags = flag(call.offset.is_some(), HAS_OFFSET)
        | flag(call.cpu_before_ns.is_some(), HAS_CPU)
        | flag(call.blocked.is_some(), HAS_BLOCKED)
        | flag(call.blocked == Some(true), BLOCKED);
    [
        first_word(TAG_CALL, call.kind as u8, flags, call.fd),
        u64::from(call.pid as u32) | u64::from(call.tid as u32) << 32,
        call.start_ns,
        call.end_ns,
        call.offset.unwrap_or(0) as u64,
        call.ret as u64,
        call.cpu_before_ns.unwrap_or(0),
    ]
}

impl FileRecord {
    pub(crate) fn words(&self, path_bytes: u16) -> Words {
        let flags = flag(self.regular, REGULAR)
            | flag(self.unlinked, UNLINKED)
            | flag(self.position.is_some(), HAS_POSITION)
            | flag(self.append_at.is_some(), APPENDS);
        [
            first_word(TAG_FILE, flags as u8, path_bytes, self.fd),
            u64::from(self.pid as u32),
            self.dev,
            self.ino,
            self.position.unwrap_or(0) as u64,
            self.append_at.unwrap_or(0) as u64,
            0,
        ]
    }
}

impl Record {
    /// None for a slot that continues a path, or is damaged.
    pub fn from_words(words: &Words) -> Option<Record> {
        let [first, ids, third, fourth, fifth, sixth, seventh] = *words;
        let (tag, byte, half, fd) =
            (first as u8, (first >> 8) as u8, (first >> 16) as u16, (first >> 32) as i32);
        let call = || {
            Some(Call {
                pid: ids as i32,
                tid: (ids >> 32) as i32,
                kind: CallKind::from_u8(byte)?,
                start_ns: third,
                end_ns: fourth,
                fd,
                offset: (half & HAS_OFFSET != 0).then_some(fifth as i64),
                ret: sixth as i64,
                cpu_before_ns: (half & HAS_CPU != 0).then_some(seventh),
                blocked: (half & HAS_BLOCKED != 0).then_some(half & BLOCKED != 0),
            })
        };
        match tag {
            TAG_CALL => Some(Record::Call(call()?)),
            TAG_NAMED => {
                Some(Record::Named { call: Call { fd: -1, ..call()? }, path_bytes: fd as u16 })
            }
            TAG_FILE => {
                let flags = u16::from(byte);
                let file = FileRecord {
                    pid: ids as i32,
                    fd,
                    dev: third,
                    ino: fourth,
                    regular: flags & REGULAR != 0,
                    unlinked: flags & UNLINKED != 0,
                    position: (flags & HAS_POSITION != 0).then_some(fifth as i64),
                    append_at: (flags & APPENDS != 0).then_some(sixth as i64),
                };
                Some(Record::File { file, path_bytes: half })
            }
            _ => None,
        }
    }

    /// Number of slots that the record takes.
    pub fn slots(&self) -> u64 {
        match self {
            Record::Call(_) => 1,
            Record::File { path_bytes, .. } | Record::Named { path_bytes, .. } => {
                1 + u64::from(*path_bytes).div_ceil(WORDS_BYTES as u64)
            }
        }
    }
}
