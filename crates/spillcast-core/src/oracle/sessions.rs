//! The sessions of a file; each line belongs to the current one.

use rustc_hash::FxHashMap;

use super::session::{Session, SessionId, SessionTimes};
use super::sink::Dictionary;

pub(super) struct Sessions {
    list: Vec<Known>,
    position: FxHashMap<SessionId, usize>,
    /// The session last seen of each process.
    of_process: FxHashMap<i64, usize>,
    current: usize,
}

struct Known {
    id: SessionId,
    /// Position in [`Dictionary::sessions`], once a line belongs to the session.
    name: Option<usize>,
    session: Session,
}

impl Default for Sessions {
    fn default() -> Self {
        let mut sessions = Sessions {
            list: Vec::new(),
            position: FxHashMap::default(),
            of_process: FxHashMap::default(),
            current: 0,
        };
        sessions.switch(SessionId::default());
        sessions
    }
}

impl Sessions {
    #[inline(always)]
    pub fn current(&mut self, dictionary: &mut Dictionary) -> (usize, &mut Session) {
        let known = &mut self.list[self.current];
        let name = *known.name.get_or_insert_with(|| dictionary.session(known.id));
        (name, &mut known.session)
    }

    pub fn current_id(&self) -> SessionId {
        self.list[self.current].id
    }

    pub fn switch(&mut self, id: SessionId) {
        self.current = *self.position.entry(id).or_insert_with(|| {
            self.list.push(Known { id, name: None, session: Session::default() });
            self.list.len() - 1
        });
        if let Some(pid) = id.pid {
            self.of_process.insert(pid, self.current);
        }
    }

    pub fn switch_process(&mut self, pid: i64) {
        match self.of_process.get(&pid) {
            Some(&position) => self.current = position,
            None => self.switch(SessionId { pid: Some(pid), ..SessionId::default() }),
        }
    }

    /// Forgets the state, because another file was appended.
    pub fn restart(&mut self) {
        self.list.iter_mut().for_each(|known| known.session.restart());
        self.switch(SessionId::default());
    }

    pub fn finish(mut self) -> Vec<(usize, SessionTimes)> {
        self.restart();
        let named = |known: Known| Some((known.name?, known.session.times));
        self.list.into_iter().filter_map(named).collect()
    }
}
