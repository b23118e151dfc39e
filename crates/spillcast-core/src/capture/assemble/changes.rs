//! Calls that create, resize, remove, sync or look up files. Only those on temp files have rows,
//! because there may be very many others: their CPU time and blocks count for the thread.

use std::fs;
use std::path::Path;

use spillcast_calls::{Call, CallKind};

use super::{Assembler, Event, Inside};
use crate::wait::{NameId, Op, Wait};

impl Assembler {
    /// Handles a call on a descriptor.
    pub(super) fn change_by_descriptor(&mut self, call: Call, inside: Inside) {
        let file = if call.ret < 0 { None } else { self.file_of(&call) };
        let end = file.and_then(|file| self.ends.get_mut(&file.identity));
        if let (Some(end), CallKind::Ftruncate, Some(bytes)) = (end, call.kind, call.offset) {
            *end = bytes;
        }
        let temp = file.filter(|file| file.regular && self.files.is_temp(file.name));
        self.change(call, inside, temp.map(|file| file.name));
    }

    /// Handles a call on a path.
    pub(super) fn change_by_path(&mut self, call: Call, inside: Inside, path: String) {
        if call.kind.looks_up() {
            return self.look_up(call, inside, &path);
        }
        if call.ret < 0 {
            return self.change(call, inside, None);
        }
        let path = without_links(path);
        let known = self.names().files.get(&path);
        if let Some(name) = known.filter(|_| call.kind.removes_name()) {
            self.files.removed(name, &mut self.counts);
        }
        let temp = match known {
            Some(name) => self.files.is_temp(name).then_some(name),
            None if self.rules.is_temp_path(Path::new(&path)) => Some(self.names().files.id(&path)),
            None => None,
        };
        self.change(call, inside, temp);
    }

    /// Handles a call that looks up a path, whether or not a file exists there. Its row has the
    /// folder, because an engine may look up another name before each read. Programs look up so
    /// many paths on remote storage that this function accesses none of them.
    fn look_up(&mut self, call: Call, inside: Inside, path: &str) {
        let known = self.names().files.get(path);
        let path = Path::new(path);
        let temp = match known {
            Some(name) => self.files.is_temp(name),
            None => self.rules.is_temp_path(path),
        };
        let folder = path.parent().and_then(Path::to_str);
        let folder = folder.filter(|_| temp).map(|folder| self.names().files.id(folder));
        self.change(call, inside, folder);
    }

    /// Handles a call that opened a file: the source reports the file next.
    pub(super) fn file_opened(&mut self, call: Call, inside: Inside) {
        match call.ret >= 0 {
            true => drop(self.pending_opens.insert(call.tid, (call, inside))),
            false => self.change(call, inside, None),
        }
    }

    /// Adds the row of the call that opened a descriptor, once the descriptor's file is reported.
    pub(super) fn opened(&mut self, pid: i32, fd: i32) {
        let is_match = |call: &Call| call.pid == pid && call.ret == i64::from(fd);
        let opened = self.pending_opens.iter().find(|(_, (call, _))| is_match(call));
        let Some(tid) = opened.map(|(&tid, _)| tid) else { return };
        let file = self.descriptors.get(&(pid, fd)).and_then(|descriptor| descriptor.file);
        let temp = file.filter(|file| file.regular && self.files.is_temp(file.name));
        if let Some((call, inside)) = self.pending_opens.remove(&tid) {
            self.change(call, inside, temp.map(|file| file.name));
        }
    }

    /// If a thread reports its next event and the file that it opened was never reported, the open
    /// counts as that of a file that is not temp.
    pub(super) fn settle_pending_open(&mut self, event: &Event) {
        let tid = match event {
            Event::Call(call, _) | Event::Named { call, .. } => call.tid,
            Event::Blocked { tid, .. } => *tid,
            _ => return,
        };
        if let Some((call, inside)) = self.pending_opens.remove(&tid) {
            self.change(call, inside, None);
        }
    }

    /// Adds a row if the call changed the temp file `temp`.
    fn change(&mut self, call: Call, inside: Inside, temp: Option<NameId>) {
        if temp.is_none() {
            let blocks = inside.blocks.iter().map(|block| block.cpu_before_ns);
            self.other_changes_cpu_ns += blocks.sum::<u64>() + inside.cpu_ns;
            return self.add_blocks(call, inside);
        }
        if call.start_ns >= self.origin_ns {
            let row = self.row(&call, Op::Null);
            self.push(Wait { temp: true, file: temp, offset: call.offset, ..row });
        }
    }
}

/// The path with the links of its folder resolved, as the file's descriptors show it.
fn without_links(path: String) -> String {
    let named = Path::new(&path);
    let (Some(folder), Some(name)) = (named.parent(), named.file_name()) else { return path };
    match fs::canonicalize(folder) {
        Ok(folder) => folder.join(name).to_string_lossy().into_owned(),
        Err(_) => path,
    }
}
