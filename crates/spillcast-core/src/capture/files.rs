//! What becomes of each file, and so whether it is temporary: the same for every source.
//!
//! The use of a file decides, if the run made it. It is temporary if it lies in a directory for
//! temporary files and is removed or read back, or if it is read back and removed anywhere. A file
//! that is written and still exists at the end is output, and so is a renamed file.
//!
//! Every call on a file is a row with the file's name, and temp is a label of that row. Most labels
//! are known only at the end, so rows and seconds carry the name until they become Parquet. Counts
//! during the run cover what is known so far. Calls that open, resize, sync or remove files are rows
//! for temp files only, because a program may open 100,000 others.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::DirEntryExt;
use std::path::Path;

use rustc_hash::FxHashMap;

use super::counts::{Counts, Io};
use super::event::FileIdentity;
use super::temp::{Identity, Kind};
use crate::system::epoch_ns;
use crate::wait::{NameId, Names, Op};

/// Entries of a directory that are looked at for a file that got another name.
const ENTRIES_MAX: usize = 100_000;

/// Files by their names: what was first known of a name holds for all files that have it.
pub struct Files {
    by_name: FxHashMap<NameId, State>,
    /// Start of the recording, nanoseconds since the epoch.
    begun_ns: i128,
}

enum State {
    Temp,
    Other,
    Made(Box<Made>),
}

/// A file that the run made.
#[derive(Default)]
struct Made {
    in_temp_dir: bool,
    identity: Identity,
    /// Whether its name is one here, too.
    same_mounts: bool,
    /// It may have been written before the recording began.
    early: bool,
    /// The process that used it last.
    pid: i32,
    /// It has no name any more.
    removed: bool,
    /// It was used without one.
    nameless: bool,
    /// It was open without a name when its process was joined.
    held: bool,
    written_bytes: u64,
    /// Read since it was first written.
    read_back_bytes: u64,
    /// Whether it is temporary, as far as is known.
    temp: bool,
    io: Io,
}

impl Files {
    /// For a recording that begins now.
    pub fn new() -> Files {
        Files { by_name: FxHashMap::default(), begun_ns: epoch_ns() }
    }

    /// A file was seen under a name, by its process being `joined` or since.
    pub fn seen(
        &mut self,
        name: NameId,
        file: &FileIdentity,
        joined: bool,
        kind: impl FnOnce() -> Kind,
    ) {
        let begun_ns = self.begun_ns;
        let state = self.by_name.entry(name).or_insert_with(|| match kind() {
            Kind::Temp => State::Temp,
            Kind::Other => State::Other,
            Kind::Made { in_temp_dir, identity, same_mounts } => State::Made(Box::new(Made {
                in_temp_dir,
                identity,
                same_mounts,
                early: identity.born_ns.is_none_or(|ns| ns < begun_ns),
                held: joined && file.unlinked,
                temp: in_temp_dir || file.unlinked,
                ..Made::default()
            })),
        });
        if let State::Made(made) = state {
            made.removed = file.unlinked;
            made.nameless |= file.unlinked;
        }
    }

    /// Whether a file is temporary, as far as is known.
    pub fn is_temp(&self, name: NameId) -> bool {
        match self.by_name.get(&name) {
            Some(State::Temp) => true,
            Some(State::Made(made)) => made.temp,
            Some(State::Other) | None => false,
        }
    }

    /// Whether that may change until the end.
    pub fn is_undecided(&self, name: NameId) -> bool {
        matches!(self.by_name.get(&name), Some(State::Made(_)))
    }

    /// A process reads or writes a file by a descriptor: whether that is temp I/O, as far as is
    /// known. Earlier I/O on the file is counted as what it turns out to be.
    pub fn used(
        &mut self,
        name: NameId,
        op: Op,
        io: Io,
        (pid, fd): (i32, i32),
        counts: &mut Counts,
    ) -> bool {
        let Some(State::Made(made)) = self.by_name.get_mut(&name) else {
            return self.is_temp(name);
        };
        made.pid = pid;
        made.nameless |= made.removed;
        let bytes = io.bytes + io.copied_bytes;
        if op == Op::Write {
            made.written_bytes += bytes;
            // The place of what a program prints is not its choice.
            made.in_temp_dir &= fd != libc::STDOUT_FILENO && fd != libc::STDERR_FILENO;
        } else if made.written_bytes > 0 {
            made.read_back_bytes += bytes;
        }
        made.label(made.is_temp(true), counts);
        made.io.add(io);
        made.temp
    }

    /// A name was taken from a file.
    pub fn removed(&mut self, name: NameId, counts: &mut Counts) {
        if let Some(State::Made(made)) = self.by_name.get_mut(&name) {
            made.removed = true;
            made.label(made.is_temp(true), counts);
        }
    }

    /// Decides at the end, when the processes `running` go on, of all files that were undecided.
    pub fn settle(
        &mut self,
        names: &Names,
        running: &[i32],
        counts: &mut Counts,
    ) -> FxHashMap<NameId, bool> {
        let mut folders = HashMap::new();
        let mut decided = FxHashMap::default();
        for (&name, state) in &mut self.by_name {
            let State::Made(made) = state else { continue };
            let renamed = made.look(Path::new(&names.list()[name as usize]), &mut folders);
            let temp = !renamed && made.is_temp(running.contains(&made.pid));
            made.label(temp, counts);
            decided.insert(name, temp);
        }
        decided
    }
}

impl Made {
    /// By its use until now; `in_use` where its process may go on with it.
    fn is_temp(&self, in_use: bool) -> bool {
        let read_back = self.is_read_back();
        match (self.in_temp_dir, self.written_bytes) {
            _ if self.nameless => self.held || self.written_bytes > 0,
            (true, 0) => self.removed || (self.early && in_use),
            (true, _) => self.removed || read_back || in_use,
            (false, _) => self.removed && read_back,
        }
    }

    /// Half of it or more.
    fn is_read_back(&self) -> bool {
        2 * self.read_back_bytes >= self.written_bytes.max(1)
    }

    /// Looks at the end whether it is gone; whether it has another name, as after a rename or a
    /// link.
    fn look(&mut self, path: &Path, folders: &mut Folders) -> bool {
        let exists = || fs::symlink_metadata(path).is_ok();
        // An inode may have been used again, which the birth alone tells.
        let known = self.identity.born_ns.is_some() || !self.removed;
        let Some(folder) = path.parent().filter(|_| known && self.written_bytes > 0 && !exists())
        else {
            return false;
        };
        let files = folders.entry(folder.into()).or_insert_with(|| by_inode(folder));
        let identity = files.get(&self.identity.ino).and_then(|name| Identity::of(name));
        let born_ns = self.identity.born_ns;
        let renamed =
            identity.is_some_and(|identity| born_ns.is_none_or(|_| identity.born_ns == born_ns));
        // One that was gone before anybody looked may have been renamed; a spill is read back.
        let gone = self.same_mounts && (self.identity.ino != 0 || self.is_read_back());
        self.removed = !renamed && (self.removed || gone);
        renamed
    }

    /// Makes it temp or not, with all that was counted of it.
    fn label(&mut self, temp: bool, counts: &mut Counts) {
        if self.temp != temp {
            self.temp = temp;
            counts.relabel(self.io, temp);
        }
    }
}

type Folders = HashMap<Box<Path>, HashMap<u64, Box<Path>>>;

fn by_inode(folder: &Path) -> HashMap<u64, Box<Path>> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(ENTRIES_MAX);
    entries.map(|entry| (entry.ino(), entry.path().into())).collect()
}
