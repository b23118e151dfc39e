//! Follows the use of each file, which decides whether it is temporary.
//!
//! If the run created a file, the file's use decides. It is temporary if it lies in a directory for
//! temporary files and is removed or read back, or if it is read back and removed anywhere. A file
//! that is written and still exists at the end is output, and so is a renamed file.
//!
//! Every call on a file is a row with the file's name, and temp is a label of that row. Most labels
//! are known only at the end, so rows and seconds carry the name until they become Parquet. Counts
//! during the run use the labels known so far. Calls that open, resize, sync, remove or look up
//! files are rows for temp files only, because a program may open 100,000 others.

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

/// Number of directory entries that are searched for a renamed file.
const ENTRIES_MAX: usize = 100_000;

/// The state of files by name. The first classification of a name holds for its later files, too.
pub struct Files {
    by_name: FxHashMap<NameId, State>,
    /// Start of the recording, nanoseconds since the epoch.
    start_ns: i128,
}

enum State {
    Temp,
    Other,
    Made(Box<Made>),
}

/// A file that the run created.
#[derive(Default)]
struct Made {
    in_temp_dir: bool,
    identity: Identity,
    /// Whether its path leads to the same file in this process.
    same_mounts: bool,
    /// It may have been written before the recording began.
    early: bool,
    /// The process that used it last.
    pid: i32,
    /// Its name was removed.
    removed: bool,
    /// It was used without a name.
    nameless: bool,
    /// It was open without a name when its process was attached.
    held: bool,
    written_bytes: u64,
    /// Bytes read after the file was first written.
    read_back_bytes: u64,
    /// Whether it counts as temporary at present.
    temp: bool,
    io: Io,
}

impl Files {
    /// Creates the state of a recording that begins now.
    pub fn new() -> Files {
        Files { by_name: FxHashMap::default(), start_ns: epoch_ns() }
    }

    /// Notes a file seen under a name; `joined`: it was open when its process was attached.
    pub fn seen(
        &mut self,
        name: NameId,
        file: &FileIdentity,
        joined: bool,
        kind: impl FnOnce() -> Kind,
    ) {
        let start_ns = self.start_ns;
        let state = self.by_name.entry(name).or_insert_with(|| match kind() {
            Kind::Temp => State::Temp,
            Kind::Other => State::Other,
            Kind::Made { in_temp_dir, identity, same_mounts } => State::Made(Box::new(Made {
                in_temp_dir,
                identity,
                same_mounts,
                early: identity.born_ns.is_none_or(|ns| ns < start_ns),
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

    /// Whether a file counts as temporary at present.
    pub(crate) fn is_temp(&self, name: NameId) -> bool {
        match self.by_name.get(&name) {
            Some(State::Temp) => true,
            Some(State::Made(made)) => made.temp,
            Some(State::Other) | None => false,
        }
    }

    /// Whether a file was written and does not count as temporary at present.
    pub(crate) fn is_output(&self, name: NameId) -> bool {
        match self.by_name.get(&name) {
            Some(State::Made(made)) => made.written_bytes > 0 && !made.temp,
            _ => false,
        }
    }

    /// Whether [`Files::is_temp`] may still change.
    pub(crate) fn is_undecided(&self, name: NameId) -> bool {
        matches!(self.by_name.get(&name), Some(State::Made(_)))
    }

    /// Counts a read or write of a file through a descriptor; returns whether it counts as temp I/O
    /// at present. If the file's label changes, its earlier I/O is counted anew.
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
            // A program does not choose the folder of its standard output.
            made.in_temp_dir &= fd != libc::STDOUT_FILENO && fd != libc::STDERR_FILENO;
        } else if made.written_bytes > 0 {
            made.read_back_bytes += bytes;
        }
        made.label(made.is_temp(true), counts);
        made.io.add(io);
        made.temp
    }

    /// Notes that a file's name was removed.
    pub fn removed(&mut self, name: NameId, counts: &mut Counts) {
        if let Some(State::Made(made)) = self.by_name.get_mut(&name) {
            made.removed = true;
            made.label(made.is_temp(true), counts);
        }
    }

    /// Decides at the end on all undecided files; the processes in `running` have not ended.
    pub(crate) fn settle(
        &mut self,
        names: &Names,
        running: &[i32],
        counts: &mut Counts,
    ) -> FxHashMap<NameId, bool> {
        let mut folders = HashMap::new();
        let mut decided = FxHashMap::default();
        for (&name, state) in &mut self.by_name {
            let State::Made(made) = state else { continue };
            let renamed = made.look_up(Path::new(&names.list()[name as usize]), &mut folders);
            let temp = !renamed && made.is_temp(running.contains(&made.pid));
            made.label(temp, counts);
            decided.insert(name, temp);
        }
        decided
    }
}

impl Made {
    /// Decides by the use so far; `in_use`: its process may still use it.
    fn is_temp(&self, in_use: bool) -> bool {
        let read_back = self.is_read_back();
        match (self.in_temp_dir, self.written_bytes) {
            _ if self.nameless => self.held || self.written_bytes > 0,
            (true, 0) => self.removed || (self.early && in_use),
            (true, _) => self.removed || read_back || in_use,
            (false, _) => self.removed && read_back,
        }
    }

    /// Whether at least half of the written bytes were read back.
    fn is_read_back(&self) -> bool {
        2 * self.read_back_bytes >= self.written_bytes.max(1)
    }

    /// Looks up at the end whether the file was removed; returns whether it has another name, as
    /// after a rename or a link.
    fn look_up(&mut self, path: &Path, folders: &mut Folders) -> bool {
        let exists = || fs::symlink_metadata(path).is_ok();
        // The inode of a removed file may have been reused, which only the birth time shows.
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
        // A file that was gone before its inode was looked up may have been renamed, unless it was
        // read back, as spills are.
        let gone = self.same_mounts && (self.identity.ino != 0 || self.is_read_back());
        self.removed = !renamed && (self.removed || gone);
        renamed
    }

    /// Labels the file, and all I/O counted for it, as temp or not.
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
