//! The code that a process has mapped, and the unwinding of its stacks.

use std::path::PathBuf;
use std::sync::Arc;

use framehop::{
    CacheNative, MayAllocateDuringUnwind, Module, UnwindRegsNative, Unwinder, UnwinderNative,
};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::compiled::{self, Runtime};
use super::image::{Image, Symbols, open_mapped};
use crate::capture::event::StackSample;
use crate::proc::{DELETED_MARK, Mapped, read_text};

/// Limit of files and runtimes that are distinguished; the code of any others has no names.
const CODES_MAX: usize = 4096;
/// Limit of the functions that are kept of a sample.
const DEPTH_MAX: usize = 128;

/// The origin of code.
pub(crate) enum Code {
    Image(Box<Image>),
    Runtime(Runtime),
    Unknown,
}

/// A function: the index of its code, and its start; None if it has no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Function {
    pub code: u32,
    pub start: Option<u64>,
}

#[derive(Clone, Debug, Serialize)]
pub struct NamedModule {
    pub name: String,
    pub(crate) build_id: Option<String>,
    pub symbols: Symbols,
}

/// All code of the observed processes, each file once.
pub(crate) struct Codes {
    list: Vec<Code>,
    /// By path and inode of a file; by an empty path and the process of a runtime.
    by_origin: FxHashMap<(String, u64), u32>,
}

/// Code that is mapped from `start` to `end`; an address minus `base` is that in the file.
struct Mapping {
    start: u64,
    end: u64,
    base: u64,
    code: u32,
}

/// The mapped code of a process at the time of reading.
pub(crate) struct Space {
    /// Sorted by address.
    mappings: Vec<Mapping>,
    unwinder: UnwinderNative<Arc<[u8]>, MayAllocateDuringUnwind>,
}

impl Space {
    /// Reads the mappings of a process; None if it has ended or access is denied.
    pub fn read(pid: i32, codes: &mut Codes) -> Option<Space> {
        let maps = read_text(format!("/proc/{pid}/maps")).ok().filter(|maps| !maps.is_empty())?;
        let mut space = Space { mappings: Vec::new(), unwinder: UnwinderNative::new() };
        let is_code = |mapped: &Mapped| mapped.permissions.as_bytes().get(2) == Some(&b'x');
        for mapped in maps.lines().filter_map(Mapped::parse).filter(is_code) {
            let code = codes.id(pid, &mapped);
            let Mapped { start, end, offset, .. } = mapped;
            let base = match &codes.list[code as usize] {
                Code::Image(image) => start.wrapping_sub(image.address(offset).unwrap_or(offset)),
                Code::Runtime(_) | Code::Unknown => 0,
            };
            if let Code::Image(image) = &codes.list[code as usize] {
                let module = Module::new(String::new(), start..end, base, image.sections.clone());
                space.unwinder.add_module(module);
            }
            space.mappings.push(Mapping { start, end, base, code });
        }
        Some(space)
    }

    /// Whether there is code at an address.
    pub fn holds(&self, address: u64) -> bool {
        self.mapping(address).is_some()
    }

    fn mapping(&self, address: u64) -> Option<&Mapping> {
        let after = self.mappings.partition_point(|mapping| mapping.start <= address);
        self.mappings.get(after.checked_sub(1)?).filter(|mapping| address < mapping.end)
    }

    /// The functions of a sample from the innermost one to its callers, and whether these are all.
    pub(crate) fn unwind(
        &self,
        sample: &StackSample,
        cache: &mut CacheNative<MayAllocateDuringUnwind>,
        codes: &Codes,
    ) -> (Vec<Function>, bool) {
        let mut read = |address: u64| {
            let at = address.checked_sub(sample.sp).ok_or(())? as usize;
            let word = sample.stack.get(at..).and_then(|rest| rest.first_chunk()).ok_or(())?;
            Ok(u64::from_ne_bytes(*word))
        };
        let mut frames = self.unwinder.iter_frames(sample.ip, registers(sample), cache, &mut read);
        let mut functions = Vec::new();
        while functions.len() < DEPTH_MAX {
            let Ok(frame) = frames.next() else { return (functions, false) };
            let Some(frame) = frame else { return (functions, true) };
            // A return address outside of all code is invalid: the chain is broken.
            match codes.function(self, frame.address_for_lookup()) {
                Some(function) => functions.push(function),
                None if functions.is_empty() => {
                    return (vec![Function { code: Codes::UNKNOWN, start: None }], false);
                }
                None => return (functions, false),
            }
        }
        (functions, false)
    }
}

#[cfg(target_arch = "x86_64")]
fn registers(sample: &StackSample) -> UnwindRegsNative {
    UnwindRegsNative::new(sample.ip, sample.sp, sample.fp)
}

#[cfg(target_arch = "aarch64")]
fn registers(sample: &StackSample) -> UnwindRegsNative {
    UnwindRegsNative::new(sample.lr, sample.sp, sample.fp)
}

impl Default for Codes {
    fn default() -> Codes {
        Codes { list: vec![Code::Unknown], by_origin: FxHashMap::default() }
    }
}

impl Codes {
    /// Code of unknown origin.
    pub(crate) const UNKNOWN: u32 = 0;

    pub fn list(&self) -> &[Code] {
        &self.list
    }

    fn id(&mut self, pid: i32, mapped: &Mapped) -> u32 {
        let next = self.list.len() as u32;
        let path = file_of(mapped);
        let origin = match path {
            Some(path) => (format!("{} {path}", mapped.device), mapped.inode),
            None => (String::new(), pid as u64),
        };
        *self.by_origin.entry(origin).or_insert_with(|| {
            if next as usize >= CODES_MAX {
                return Self::UNKNOWN;
            }
            self.list.push(match path {
                Some(path) => Code::Image(Box::new(image_of(pid, mapped, path))),
                None => Code::Runtime(Runtime::of(pid)),
            });
            next
        })
    }

    /// The function at an address of a process; None if there is no code.
    fn function(&self, space: &Space, address: u64) -> Option<Function> {
        let Mapping { base, code, .. } = *space.mapping(address)?;
        let start = match &self.list[code as usize] {
            Code::Image(image) => image.function_at(address.wrapping_sub(base)),
            Code::Runtime(_) => Some(address),
            Code::Unknown => None,
        };
        Some(Function { code, start })
    }

    /// The names of functions, as far as they are known by now.
    pub fn names(&self) -> FunctionNames<'_> {
        let functions = |code: &Code| match code {
            Code::Runtime(runtime) => Some(runtime.functions()),
            _ => None,
        };
        FunctionNames { codes: self, compiled: self.list.iter().map(functions).collect() }
    }
}

impl Code {
    pub(crate) fn described(&self) -> NamedModule {
        let (name, build_id, symbols) = match self {
            Code::Image(image) => (image.name.clone(), image.build_id.clone(), image.symbols),
            Code::Runtime(_) => ("compiled at run time".to_owned(), None, Symbols::None),
            Code::Unknown => ("unknown".to_owned(), None, Symbols::None),
        };
        NamedModule { name, build_id, symbols }
    }
}

pub(crate) struct FunctionNames<'a> {
    codes: &'a Codes,
    /// The functions of runtimes, by index of the code.
    compiled: Vec<Option<compiled::Functions>>,
}

impl FunctionNames<'_> {
    pub fn of(&self, function: &Function) -> Option<String> {
        let (code, start) = (function.code as usize, function.start?);
        match &self.codes.list[code] {
            Code::Image(image) => image.name_at(start),
            Code::Runtime(_) => self.compiled[code].as_ref()?.name_at(start).map(str::to_owned),
            Code::Unknown => None,
        }
    }
}

fn image_of(pid: i32, mapped: &Mapped, path: &str) -> Image {
    let name = path.rsplit('/').next().unwrap_or(path).to_owned();
    let range = format!("{:x}-{:x}", mapped.start, mapped.end);
    let roots = [format!("/proc/{pid}/root/"), "/".to_owned()].map(PathBuf::from);
    match open_mapped(pid, &range, path, mapped.inode) {
        Some(file) => Image::read(name, file, &roots),
        None => Image::unreadable(name),
    }
}

/// The file that code is mapped from; None for code that was generated at run time.
fn file_of<'a>(mapped: &Mapped<'a>) -> Option<&'a str> {
    let path = mapped.name.strip_suffix(DELETED_MARK).unwrap_or(mapped.name);
    let memory = path.is_empty() || path.starts_with("[anon") || path.starts_with("/memfd:");
    (!memory && !path.starts_with("/dev/zero") && path != "[heap]").then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_distinguished_from_code_generated_at_run_time() {
        let line =
            "7f00-7f80 r-xp 00001000 fe:00 1234                       /usr/lib/a b.so (deleted)";
        let mapped = Mapped::parse(line).unwrap();
        assert_eq!((mapped.start, mapped.end, mapped.offset), (0x7f00, 0x7f80, 0x1000));
        assert_eq!((mapped.inode, file_of(&mapped)), (1234, Some("/usr/lib/a b.so")));
        let made = Mapped::parse("7f00-7f80 rwxp 00000000 00:00 0 ").unwrap();
        assert_eq!(file_of(&made), None);
    }
}
