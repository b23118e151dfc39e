//! Calls that make, resize, remove, sync or look up files: rows where the file is temp. Of other
//! files they are not told, for there may be very many: what they burned and waited for stays with
//! the thread.

use std::fs;
use std::path::Path;

use spillcast_calls::Call;

use super::super::temp::Kind;
use super::{Assembler, Event, FileIdentity, Inside};
use crate::wait::{NameId, Op, Wait};

impl Assembler {
    /// A call on a descriptor.
    pub(super) fn change_by_descriptor(&mut self, call: Call, inside: Inside) {
        let file = if call.ret < 0 { None } else { self.file_of(&call) };
        let temp = file.filter(|file| file.regular && self.files.is_temp(file.name));
        self.change(call, inside, temp.map(|file| file.name));
    }

    /// A call that was given a path.
    pub(super) fn change_by_path(&mut self, call: Call, inside: Inside, path: String) {
        let path = without_links(path);
        let identity = FileIdentity::named(path, false);
        if call.kind.looks_up() {
            return self.look_up(call, inside, identity);
        }
        if call.ret < 0 {
            return self.change(call, inside, None);
        }
        let known = self.names().files.get(&identity.path);
        if let Some(name) = known.filter(|_| call.kind.removes_name()) {
            self.files.removed(name, &mut self.counts);
        }
        let temp = match known {
            Some(name) => self.files.is_temp(name).then_some(name),
            None if self.rules.kind(call.pid, &identity) == Kind::Temp => {
                Some(self.names().files.id(&identity.path))
            }
            None => None,
        };
        self.change(call, inside, temp);
    }

    /// A call that asked for a file by its path, whether there is one or not. Its row has the folder:
    /// an engine may ask for a name of its own before each read.
    fn look_up(&mut self, call: Call, inside: Inside, identity: FileIdentity) {
        let known = self.names().files.get(&identity.path);
        let temp = match known {
            Some(name) => self.files.is_temp(name),
            None => self.rules.kind(call.pid, &identity) == Kind::Temp,
        };
        let folder = Path::new(&identity.path).parent().and_then(Path::to_str);
        let folder = folder.filter(|_| temp).map(|folder| self.names().files.id(folder));
        self.change(call, inside, folder);
    }

    /// A call that opened a file, which a source looks at next.
    pub(super) fn open_ended(&mut self, call: Call, inside: Inside) {
        match call.ret >= 0 {
            true => drop(self.just_opened.insert(call.tid, (call, inside))),
            false => self.change(call, inside, None),
        }
    }

    /// It is known now what a descriptor stands for, and so what a thread has just opened.
    pub(super) fn opened(&mut self, pid: i32, fd: i32) {
        let is_it = |call: &Call| call.pid == pid && call.ret == i64::from(fd);
        let opened = self.just_opened.iter().find(|(_, (call, _))| is_it(call));
        let Some(tid) = opened.map(|(&tid, _)| tid) else { return };
        let file = self.descriptors.get(&(pid, fd)).and_then(|descriptor| descriptor.file);
        let temp = file.filter(|file| file.regular && self.files.is_temp(file.name));
        if let Some((call, inside)) = self.just_opened.remove(&tid) {
            self.change(call, inside, temp.map(|file| file.name));
        }
    }

    /// A thread goes on: what it opened before was not looked at, and cannot be told any more.
    pub(super) fn open_was_of_no_temp_file(&mut self, event: &Event) {
        let tid = match event {
            Event::Call(call, _) | Event::Named { call, .. } => call.tid,
            Event::Blocked { tid, .. } => *tid,
            _ => return,
        };
        if let Some((call, inside)) = self.just_opened.remove(&tid) {
            self.change(call, inside, None);
        }
    }

    /// A row where it was of a temp file, `temp`.
    fn change(&mut self, call: Call, inside: Inside, temp: Option<NameId>) {
        if temp.is_none() {
            let blocks = inside.blocks.iter().map(|block| block.cpu_before_ns);
            self.other_changes_cpu_ns += blocks.sum::<u64>() + inside.cpu_ns;
            return self.no_row(call, inside);
        }
        if call.start_ns >= self.origin_ns {
            let row = self.row(&call, Op::Null);
            self.push(Wait { temp: true, file: temp, offset: call.offset, ..row });
        }
    }
}

/// The same file by the name that its descriptors have: the links of its folder followed.
fn without_links(path: String) -> String {
    let named = Path::new(&path);
    let (Some(folder), Some(name)) = (named.parent(), named.file_name()) else { return path };
    match fs::canonicalize(folder) {
        Ok(folder) => folder.join(name).to_string_lossy().into_owned(),
        Err(_) => path,
    }
}
