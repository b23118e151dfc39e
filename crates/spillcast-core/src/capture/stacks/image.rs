//! The file of a program or library: its functions, their names, and how to unwind them.

use std::cmp::Reverse;
use std::fmt::{self, Write};
use std::fs::{File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use framehop::ExplicitModuleSectionInfo;
use object::Endianness;
use object::elf::{self, FileHeader64, ProgramHeader64, Sym64};
use object::read::ReadCache;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, SectionTable, Sym};
use serde::Serialize;

/// Larger tables of symbols or of unwind information are not read.
const TABLE_BYTES_MAX: u64 = 64 << 20;
const NAME_BYTES_MAX: usize = 16 << 10;
const NAME_LETTERS_MAX: usize = 1000;
const DEBUG_FILES: &str = "usr/lib/debug/.build-id";

type Header = FileHeader64<Endianness>;
type Cache = ReadCache<File>;
pub(crate) type Sections = ExplicitModuleSectionInfo<Arc<[u8]>>;

/// Which functions of a file have names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Symbols {
    All,
    /// Only functions that other files may call: the file is stripped.
    Exported,
    None,
}

/// A range of addresses, and the offset of its name in the table of names.
struct Function {
    start: u64,
    end: u64,
    name: u32,
}

/// A file that is mapped as code. Addresses are those in the file, before relocation.
pub(crate) struct Image {
    pub name: String,
    pub(crate) build_id: Option<String>,
    pub symbols: Symbols,
    segments: Vec<Segment>,
    functions: Vec<Function>,
    /// The file with the names, and the offset of its table of names.
    names: Option<(File, u64)>,
    /// The sections by which a stack is unwound.
    pub(crate) sections: Sections,
}

struct Segment {
    offset: u64,
    size: u64,
    address: u64,
}

impl Image {
    /// A file whose code cannot be read.
    pub(crate) fn unreadable(name: String) -> Image {
        Image {
            name,
            build_id: None,
            symbols: Symbols::None,
            segments: Vec::new(),
            functions: Vec::new(),
            names: None,
            sections: Sections::default(),
        }
    }

    /// Reads `file`; its debug file is searched below `roots`.
    pub fn read(name: String, file: File, roots: &[PathBuf]) -> Image {
        Self::parse(&name, file, roots).unwrap_or_else(|_| Self::unreadable(name))
    }

    fn parse(name: &str, file: File, roots: &[PathBuf]) -> object::Result<Image> {
        let names_file = file.try_clone().ok();
        let cache = ReadCache::new(file);
        let elf = Elf::parse(&cache)?;
        let build_id = elf.build_id();
        let table_of = |kind| Some((elf.functions(kind)?, names_file.as_ref()?.try_clone().ok()?));
        let debug = || debug_file(build_id.as_deref()?, roots);
        let (symbols, table) = match table_of(elf::SHT_SYMTAB).or_else(debug) {
            Some(table) => (Symbols::All, Some(table)),
            None => (Symbols::Exported, table_of(elf::SHT_DYNSYM)),
        };
        let section = |name| names_file.as_ref().and_then(|file| elf.section(file, name)).unzip();
        let (eh_frame_svma, eh_frame) = section(b".eh_frame");
        let (eh_frame_hdr_svma, eh_frame_hdr) = section(b".eh_frame_hdr");
        let sections = Sections {
            eh_frame_svma,
            eh_frame,
            eh_frame_hdr_svma,
            eh_frame_hdr,
            ..Sections::default()
        };
        let image = Self::unreadable(name.to_owned());
        let image = Image { segments: elf.segments()?, sections, build_id, ..image };
        Ok(match table {
            Some(((functions, names_at), file)) => {
                Image { symbols, functions, names: Some((file, names_at)), ..image }
            }
            None => image,
        })
    }

    /// Converts an offset in the file to an address; None if there is no code.
    pub(crate) fn address(&self, offset: u64) -> Option<u64> {
        // Whole pages are mapped, and two segments may share a page of the file.
        let page = |offset: u64| offset & !(rustix::param::page_size() as u64 - 1);
        let holds = |s: &&Segment| (page(s.offset)..s.offset + s.size).contains(&offset);
        let segment = self.segments.iter().find(holds)?;
        Some(segment.address.wrapping_add(offset).wrapping_sub(segment.offset))
    }

    /// The start of the function that contains an address.
    pub(crate) fn function_at(&self, address: u64) -> Option<u64> {
        self.function(address).map(|function| function.start)
    }

    fn function(&self, address: u64) -> Option<&Function> {
        let after = self.functions.partition_point(|function| function.start <= address);
        let function = self.functions.get(after.checked_sub(1)?)?;
        (address < function.end).then_some(function)
    }

    /// The demangled name of the function that contains an address.
    pub(crate) fn name_at(&self, address: u64) -> Option<String> {
        let (file, names_at) = self.names.as_ref()?;
        let at = names_at + u64::from(self.function(address)?.name);
        let mut bytes = vec![0; NAME_BYTES_MAX];
        let read = file.read_at(&mut bytes, at).ok()?;
        let name = bytes[..read].split(|&byte| byte == 0).next()?;
        (!name.is_empty()).then(|| demangled(&String::from_utf8_lossy(name)))
    }
}

/// The headers of a 64-bit ELF file.
struct Elf<'a> {
    cache: &'a Cache,
    header: &'a Header,
    endian: Endianness,
    sections: SectionTable<'a, Header, &'a Cache>,
}

impl<'a> Elf<'a> {
    fn parse(cache: &'a Cache) -> object::Result<Elf<'a>> {
        let header = Header::parse(cache)?;
        let endian = header.endian()?;
        Ok(Elf { cache, header, endian, sections: header.sections(endian, cache)? })
    }

    /// The segments of code that are loaded.
    fn segments(&self) -> object::Result<Vec<Segment>> {
        let headers = self.header.program_headers(self.endian, self.cache)?;
        let loaded = headers.iter().filter(|segment| {
            let is_code = segment.p_flags(self.endian) & elf::PF_X != 0;
            is_code && segment.p_type(self.endian) == elf::PT_LOAD
        });
        let segment = |segment: &ProgramHeader64<Endianness>| Segment {
            offset: segment.p_offset(self.endian),
            size: segment.p_filesz(self.endian),
            address: segment.p_vaddr(self.endian),
        };
        Ok(loaded.map(segment).collect())
    }

    /// The addresses of a section, and its bytes.
    fn section(&self, file: &File, name: &[u8]) -> Option<(Range<u64>, Arc<[u8]>)> {
        let (_, section) = self.sections.section_by_name(self.endian, name)?;
        let (offset, size) = section.file_range(self.endian).filter(|r| r.1 <= TABLE_BYTES_MAX)?;
        // Read without a copy: tables may have some MB.
        let mut bytes: Arc<[u8]> = std::iter::repeat_n(0, size as usize).collect();
        file.read_exact_at(Arc::get_mut(&mut bytes)?, offset).ok()?;
        let address = section.sh_addr(self.endian);
        Some((address..address + size, bytes))
    }

    fn build_id(&self) -> Option<String> {
        for section in self.sections.iter() {
            let Ok(Some(mut notes)) = section.notes(self.endian, self.cache) else { continue };
            while let Ok(Some(note)) = notes.next() {
                let kind = (note.name(), note.n_type(self.endian));
                if kind == (elf::ELF_NOTE_GNU, elf::NT_GNU_BUILD_ID) {
                    return Some(note.desc().iter().map(|byte| format!("{byte:02x}")).collect());
                }
            }
        }
        None
    }

    /// The functions of a symbol table by address, and the offset of its names; None if there are
    /// none.
    fn functions(&self, kind: u32) -> Option<(Vec<Function>, u64)> {
        let endian = self.endian;
        let table = self.sections.iter().find(|section| section.sh_type(endian) == kind)?;
        if table.sh_size(endian) > TABLE_BYTES_MAX {
            return None;
        }
        let symbols = self.sections.symbols(endian, self.cache, kind).ok()?;
        let names = self.sections.section(symbols.string_section()).ok()?;
        let function = |symbol: &Sym64<Endianness>| {
            let code = [elf::STT_FUNC, elf::STT_GNU_IFUNC].contains(&symbol.st_type());
            let start = Some(symbol.st_value(endian)).filter(|&start| code && start != 0)?;
            let end = start.checked_add(symbol.st_size(endian))?;
            let local = symbol.st_bind() != elf::STB_GLOBAL;
            Some((local, Function { start, end, name: symbol.st_name(endian) }))
        };
        let mut functions: Vec<_> = symbols.iter().filter_map(function).collect();
        // Of several names of a function, prefers one that other files may use.
        functions.sort_by_key(|(local, f)| (f.start, Reverse(f.end), *local));
        functions.dedup_by_key(|(_, f)| f.start);
        let mut functions: Vec<Function> = functions.into_iter().map(|(_, f)| f).collect();
        // Functions written in assembler may have no size: they extend to the next one.
        for at in 1..functions.len() {
            let next = functions[at].start;
            if functions[at - 1].start == functions[at - 1].end {
                functions[at - 1].end = next;
            }
        }
        (!functions.is_empty()).then(|| (functions, names.sh_offset(endian)))
    }
}

/// The functions of a debug file, and the file itself.
fn debug_file(build_id: &str, roots: &[PathBuf]) -> Option<((Vec<Function>, u64), File)> {
    let (folder, rest) = build_id.split_at_checked(2)?;
    let path = Path::new(DEBUG_FILES).join(folder).join(format!("{rest}.debug"));
    let file = roots.iter().find_map(|root| open_regular(root.join(&path)))?;
    let names_file = file.try_clone().ok()?;
    let table = Elf::parse(&ReadCache::new(file)).ok()?.functions(elf::SHT_SYMTAB)?;
    Some((table, names_file))
}

/// The demangled name of a function, without its parameters.
fn demangled(name: &str) -> String {
    let mut written = Bounded(String::new());
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        let _ = write!(written, "{rust:#}");
        return written.0;
    }
    // Without the symbol version.
    let plain = name.split('@').next().unwrap_or(name);
    let options = cpp_demangle::DemangleOptions::new().no_params().no_return_type();
    match cpp_demangle::Symbol::new(plain) {
        // A name that is too long is truncated.
        Ok(symbol) => drop(symbol.structured_demangle(&mut written, &options)),
        Err(_) => drop(written.write_str(plain)),
    }
    written.0
}

/// A text of limited length: names of nested templates can grow exponentially.
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let room = NAME_LETTERS_MAX.saturating_sub(self.0.len());
        self.0.extend(more.chars().take(room));
        if more.len() > room { Err(fmt::Error) } else { Ok(()) }
    }
}

/// Opens the file that process `pid` has mapped as `path` at `range` of its addresses, even in a
/// container.
pub(crate) fn open_mapped(pid: i32, range: &str, path: &str, inode: u64) -> Option<File> {
    let by_path = || {
        let file = open_regular(format!("/proc/{pid}/root{path}"))?;
        (file.metadata().ok()?.ino() == inode).then_some(file)
    };
    open_regular(format!("/proc/{pid}/map_files/{range}")).or_else(by_path)
}

/// Opens a file of another user, which might be a pipe, on which an open could block forever.
pub(crate) fn open_regular(path: impl AsRef<Path>) -> Option<File> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).ok()?;
    file.metadata().ok()?.is_file().then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_demangled_and_limited_in_length() {
        assert_eq!(demangled("tuplesort_performsort"), "tuplesort_performsort");
        assert_eq!(demangled("memcpy@@GLIBC_2.14"), "memcpy");
        assert_eq!(demangled("_ZN4duck4sortIiEEvT_i"), "duck::sort<int>");
        assert_eq!(demangled("_ZN4core3fmt5write17h0123456789abcdefE"), "core::fmt::write");
        // A pair of a pair of a pair ...
        let mut name = "S_".to_owned();
        (0..30).for_each(|at| name = format!("St4pairI{name}S{at}_E"));
        assert!(demangled(&format!("_Z1fISt4pairIiiE{name}E")).len() <= NAME_LETTERS_MAX);
    }
}
