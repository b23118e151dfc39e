//! Reduces the kernel's type information (BTF) to the structures that the programs read.
//!
//! The complete BTF would double the memory of a recording.
//!
//! The program at the start of a call is typed: it reads the registers in place. The helper that
//! copies them took a tenth of the cost of an observed call. The kernel identifies the type of such
//! a program by its id, so [`of_tracepoint`] makes a second BTF that holds only that type, under
//! its id.

use std::collections::{HashMap, HashSet};

use crate::native::u32_at;

/// Declares the structures that the programs read.
const HEADER: &str = include_str!("programs/kernel.h");

/// Bytes of the header in every version.
const HEADER_BYTES: usize = 24;
/// Bytes at the start of every type: name, kind with number of members, size or type.
const TYPE_BYTES: usize = 12;
const MEMBER_BYTES: usize = 12;

const INT: u32 = 1;
const PTR: u32 = 2;
const ARRAY: u32 = 3;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const TYPEDEF: u32 = 8;
const VOLATILE: u32 = 9;
const CONST: u32 = 10;
const RESTRICT: u32 = 11;

/// Returns a BTF that holds the wanted structures and the types that they consist of.
///
/// Types that they only point to become void. None if `whole` is not BTF. See the kernel's
/// Documentation/bpf/btf.rst.
pub(crate) fn reduced(whole: &[u8]) -> Option<Vec<u8>> {
    let whole = Whole::read(whole)?;
    let wanted: HashSet<&str> = wanted().collect();
    let mut part = Part::default();
    for id in 1..=whole.at.len() as u32 {
        let (name, kind, _) = whole.of(id)?;
        if kind == STRUCT && name != 0 && wanted.contains(whole.string(name)?) {
            part.keep(&whole, id)?;
        }
    }
    Some(part.bytes())
}

/// Returns a BTF that holds the type of a tracepoint's programs under its id in `whole`, by which
/// the kernel knows the arguments of such a program. Pointers to void take the ids before it.
pub(crate) fn of_tracepoint(whole: &[u8], tracepoint: &str) -> Option<Vec<u8>> {
    let whole = Whole::read(whole)?;
    let wanted = format!("btf_trace_{tracepoint}");
    let is_it = |&id: &u32| {
        let named = whole.of(id).filter(|&(_, kind, _)| kind == TYPEDEF);
        named.and_then(|(name, ..)| whole.string(name)) == Some(&wanted)
    };
    let id = (1..=whole.at.len() as u32).find(is_it)?;
    let mut part = Part::default();
    for _ in 1..id {
        part.add([0, PTR << 24, 0]);
    }
    let name = part.name(&wanted);
    part.add([name, TYPEDEF << 24, 0]);
    Some(part.bytes())
}

/// Names of the structures in programs/kernel.h; a suffix `___` marks variants of a structure.
fn wanted() -> impl Iterator<Item = &'static str> {
    let named = |line: &'static str| line.strip_prefix("struct ")?.strip_suffix(" {");
    HEADER.lines().filter_map(named).filter_map(|name| name.split("___").next())
}

/// The BTF of the kernel.
struct Whole<'a> {
    types: &'a [u8],
    strings: &'a [u8],
    /// Offset of each type; the first type has id 1.
    at: Vec<u32>,
}

impl<'a> Whole<'a> {
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let length = u32_at(bytes, 4)? as usize;
        let part = |at: usize| -> Option<&[u8]> {
            let begin = length + u32_at(bytes, at)? as usize;
            bytes.get(begin..begin + u32_at(bytes, at + 4)? as usize)
        };
        let (types, strings) = (part(8)?, part(16)?);
        let (mut at, mut next) = (Vec::new(), 0);
        while next < types.len() {
            at.push(next as u32);
            let info = u32_at(types, next + 4)?;
            next += TYPE_BYTES + more_bytes(info >> 24 & 0x1f, info as usize & 0xffff)?;
        }
        Some(Whole { types, strings, at })
    }

    /// Name, kind and number of members of a type.
    fn of(&self, id: u32) -> Option<(u32, u32, usize)> {
        let at = *self.at.get(id as usize - 1)? as usize;
        let info = u32_at(self.types, at + 4)?;
        Some((u32_at(self.types, at)?, info >> 24 & 0x1f, info as usize & 0xffff))
    }

    fn string(&self, at: u32) -> Option<&'a str> {
        let rest = self.strings.get(at as usize..)?;
        std::str::from_utf8(rest.split(|&byte| byte == 0).next()?).ok()
    }
}

/// Bytes that follow the start of a type; None for an unknown kind.
fn more_bytes(kind: u32, members: usize) -> Option<usize> {
    Some(match kind {
        PTR | 7..=12 | 16 | 18 => 0,
        INT | 14 | 17 => 4,
        ARRAY => 12,
        STRUCT | UNION | 15 | 19 => members * MEMBER_BYTES,
        6 | 13 => members * 8,
        _ => return None,
    })
}

/// The BTF that is being built.
struct Part {
    types: Vec<u8>,
    strings: Vec<u8>,
    count: u32,
    /// Ids in this BTF by their ids in the kernel's.
    numbers: HashMap<u32, u32>,
}

impl Default for Part {
    fn default() -> Self {
        // The first string is the empty one.
        Part { types: Vec::new(), strings: vec![0], count: 0, numbers: HashMap::new() }
    }
}

impl Part {
    /// Copies a type and what it consists of; returns its id here, 0 if it is not needed.
    fn keep(&mut self, whole: &Whole, id: u32) -> Option<u32> {
        if id == 0 {
            return Some(0);
        }
        if let Some(&number) = self.numbers.get(&id) {
            return Some(number);
        }
        let (name, kind, members) = whole.of(id)?;
        let at = whole.at[id as usize - 1] as usize;
        let field = |offset: usize| u32_at(whole.types, at + offset);
        let mut more = Vec::new();
        let mut third = field(8)?;
        match kind {
            INT => more.push(field(12)?),
            PTR => third = 0,
            TYPEDEF | VOLATILE | CONST | RESTRICT => third = self.keep(whole, third)?,
            ARRAY => {
                let (element, index) = (field(12)?, field(16)?);
                more = vec![self.keep(whole, element)?, self.keep(whole, index)?, field(20)?];
            }
            STRUCT | UNION => {
                for member in (0..members).map(|n| TYPE_BYTES + n * MEMBER_BYTES) {
                    let name = self.name(whole.string(field(member)?)?);
                    let of = self.keep(whole, field(member + 4)?)?;
                    more.extend([name, of, field(member + 8)?]);
                }
            }
            _ => return Some(0),
        }
        let name = self.name(whole.string(name)?);
        self.add([name, field(4)?, third].into_iter().chain(more));
        self.numbers.insert(id, self.count);
        Some(self.count)
    }

    /// Adds a type, given as the words of its encoding.
    fn add(&mut self, words: impl IntoIterator<Item = u32>) {
        self.types.extend(words.into_iter().flat_map(u32::to_ne_bytes));
        self.count += 1;
    }

    fn name(&mut self, name: &str) -> u32 {
        if name.is_empty() {
            return 0;
        }
        let at = self.strings.len() as u32;
        self.strings.extend(name.bytes().chain([0]));
        at
    }

    fn bytes(&self) -> Vec<u8> {
        const MAGIC: u16 = 0xeb9f;
        let [types, strings] = [&self.types, &self.strings].map(|part| part.len() as u32);
        let mut bytes = MAGIC.to_ne_bytes().to_vec();
        bytes.extend([1, 0]);
        for word in [HEADER_BYTES as u32, 0, types, types, strings] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(&self.types);
        bytes.extend(&self.strings);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reduced_btf_keeps_the_types_in_use() {
        let Ok(whole) = std::fs::read("/sys/kernel/btf/vmlinux") else { return };
        let part = reduced(&whole).unwrap();
        assert!(part.len() < whole.len() / 20);
        let read = Whole::read(&part).unwrap();
        let names: HashSet<_> = (1..=read.at.len() as u32)
            .filter_map(|id| read.string(read.of(id).unwrap().0))
            .collect();
        assert!(["task_struct", "inode", "files_struct"].iter().all(|name| names.contains(name)));
        // Reducing the result again keeps all of it.
        assert_eq!(reduced(&part).unwrap().len(), part.len());
    }

    #[test]
    fn a_tracepoint_keeps_the_number_of_its_type() {
        let Ok(whole) = std::fs::read("/sys/kernel/btf/vmlinux") else { return };
        let alone = of_tracepoint(&whole, "sys_enter").unwrap();
        let (whole_types, types) = (Whole::read(&whole).unwrap(), Whole::read(&alone).unwrap());
        let last = types.at.len() as u32;
        for of in [&whole_types, &types] {
            let (name, kind, _) = of.of(last).unwrap();
            assert_eq!((of.string(name), kind), (Some("btf_trace_sys_enter"), TYPEDEF));
        }
        assert_eq!(of_tracepoint(&whole, "no_such_tracepoint"), None);
    }

    #[test]
    fn damaged_btf_is_none() {
        assert_eq!(reduced(b""), None);
        assert_eq!(of_tracepoint(b"", "sys_enter"), None);
        assert_eq!(reduced(&[0xff; 100]), None);
        let Ok(whole) = std::fs::read("/sys/kernel/btf/vmlinux") else { return };
        assert_eq!(reduced(&whole[..whole.len() / 2]), None);
    }
}
