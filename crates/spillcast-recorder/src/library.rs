//! The preload library, embedded in this executable: for glibc programs, and for musl programs.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::fs::{MemfdFlags, memfd_create};

const GNU: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/preload-gnu.so"));
const MUSL: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/preload-musl.so"));
/// The part of a program that is searched for its loader.
const HEAD_BYTES: u64 = 4096;

/// The library in memory while this value lives; programs open it through /proc.
pub struct Library {
    memory: File,
}

impl Library {
    /// The library for the C library of `program`.
    pub fn fitting(program: &Path) -> io::Result<Library> {
        let bytes = if wants_musl(program) { MUSL } else { GNU };
        if bytes.is_empty() {
            let missing = "this recorder was built without the preload library";
            return Err(io::Error::new(io::ErrorKind::Unsupported, missing));
        }
        let mut memory = File::from(memfd_create("spillcast-preload", MemfdFlags::CLOEXEC)?);
        memory.write_all(bytes)?;
        Ok(Library { memory })
    }

    /// The value of LD_PRELOAD, with libraries that are already preloaded last.
    pub fn value(&self) -> String {
        let ours = format!("/proc/{}/fd/{}", std::process::id(), self.memory.as_raw_fd());
        match std::env::var("LD_PRELOAD") {
            Ok(before) if !before.is_empty() => format!("{ours}:{before}"),
            _ => ours,
        }
    }
}

/// Whether musl's loader loads a program, or its interpreter if it is a script.
fn wants_musl(program: &Path) -> bool {
    let Some(head) = head(program) else { return false };
    match interpreter(&head) {
        Some(runs) => head_names_musl(&self::head(&runs).unwrap_or_default()),
        None => head_names_musl(&head),
    }
}

fn head_names_musl(head: &[u8]) -> bool {
    head.windows(8).any(|bytes| bytes == b"/ld-musl")
}

fn interpreter(head: &[u8]) -> Option<PathBuf> {
    let line = head.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let words = String::from_utf8_lossy(line);
    let mut words = words.split_whitespace();
    let first = PathBuf::from(words.next()?);
    if first.ends_with("env") {
        return spillcast_recording::target::program(words.next()?.as_ref()).ok();
    }
    Some(first)
}

fn head(program: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(program).ok()?.take(HEAD_BYTES).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}
