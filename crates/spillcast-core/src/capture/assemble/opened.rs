//! Open file descriptions: which descriptors share one, and where in it a call read or wrote.

use std::sync::{Arc, Mutex, MutexGuard};

use spillcast_calls::{Call, CallKind, TO_END};

use super::super::descriptor;
use super::super::event::FileIdentity;
use super::{Assembler, File};

/// How many descriptors of a file another is compared with: all pairs of 10,000 take minutes.
const COMPARED_MAX: usize = 64;

#[derive(Clone, Debug, Default)]
pub(super) struct Descriptor {
    pub(super) file: Option<File>,
    /// A look-up comes too late: by now this number of this process may be another file's.
    pub(super) unidentified: bool,
    pub(super) opened: Arc<Mutex<Opened>>,
}

/// An open file description, which duplicated and inherited descriptors share.
#[derive(Debug, Default)]
pub(super) struct Opened {
    /// The offset of the next read or write that gives none, if known.
    pub(super) position: Option<i64>,
    /// When the position was looked up: calls that ended before have already moved it.
    pub(super) looked_ns: u64,
    /// Writes go to the end of the file (O_APPEND).
    pub(super) appends: bool,
}

impl Descriptor {
    pub(super) fn opened(&self) -> MutexGuard<'_, Opened> {
        self.opened.lock().expect("no holder panics")
    }

    /// The same under another number or in another process, where a look-up may be in time.
    pub(super) fn copied(&self) -> Descriptor {
        Descriptor { unidentified: false, ..self.clone() }
    }
}

impl Assembler {
    pub(super) fn descriptor_call(&mut self, call: Call) {
        if call.ret < 0 {
            return;
        }
        let (given, returned) = ((call.pid, call.fd), (call.pid, call.ret as i32));
        match call.kind {
            kind if kind.opens() => {
                let opened = Opened { position: Some(0), ..Opened::default() };
                let opened = Arc::new(Mutex::new(opened));
                self.descriptors.insert(returned, Descriptor { opened, ..Descriptor::default() });
            }
            kind if kind.duplicates() && given != returned => {
                match self.descriptors.get(&given).map(Descriptor::copied) {
                    Some(descriptor) => self.descriptors.insert(returned, descriptor),
                    None => self.descriptors.remove(&returned),
                };
            }
            CallKind::Close => drop(self.descriptors.remove(&given)),
            CallKind::CloseRange => {
                let closed = descriptor::closed_range(call.fd, call.offset);
                self.descriptors
                    .retain(|key, _| key.0 != call.pid || !closed.contains(&(key.1 as u32)));
            }
            CallKind::Lseek => {
                if !self.descriptors.contains_key(&given) {
                    self.file_of(&call);
                }
                let mut opened = self.descriptors.entry(given).or_default().opened();
                if call.end_ns > opened.looked_ns {
                    opened.position = Some(call.ret);
                }
            }
            _ => (),
        }
    }

    /// Handles a descriptor that was neither opened nor duplicated, such as one received over a
    /// socket: it may share the open file description of another.
    pub(super) fn received(&mut self, key: (i32, i32), file: &FileIdentity) {
        let identity = (file.dev, file.ino);
        if self.descriptors.contains_key(&key) || !self.by_identity.contains_key(&identity) {
            return;
        }
        let of_file = |(_, known): &(_, &Descriptor)| {
            known.file.is_some_and(|file| file.identity == identity)
        };
        let mut others = self.descriptors.iter().filter(of_file).take(COMPARED_MAX);
        let same = others.find(|&(&other, _)| descriptor::is_same_open_file(key, other));
        if let Some(known) = same.map(|(_, known)| known.clone()) {
            self.descriptors.insert(key, known);
        }
    }

    /// Returns where in its file a call read or wrote; advances the position if the call uses it.
    pub(super) fn offset_of(&mut self, call: &Call, file: Option<File>) -> Option<i64> {
        // preadv2 and pwritev2 take -1 for "at the file position".
        let given = call.offset.filter(|&offset| offset >= 0);
        let to_end = given == Some(TO_END);
        let moves = given.is_none() || call.kind.offset_argument().is_none();
        let descriptor = self.descriptors.get(&(call.pid, call.fd))?;
        let mut opened = descriptor.opened();
        if call.end_ns <= opened.looked_ns {
            return given.filter(|_| !opened.appends && !to_end);
        }
        let end = file.and_then(|file| self.ends.get_mut(&file.identity));
        let end = end.filter(|_| !call.kind.reads());
        // With O_APPEND a given offset is ignored.
        let appends_at = end.as_deref().copied().filter(|_| opened.appends || to_end);
        let start = match appends_at {
            None if to_end => return None,
            known => known.or(given).or(opened.position)?,
        };
        if moves {
            opened.position = Some(start + call.ret);
        }
        if let Some(end) = end {
            *end = (*end).max(start + call.ret);
        }
        Some(start)
    }
}
