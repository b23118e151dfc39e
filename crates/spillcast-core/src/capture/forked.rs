//! Newly forked children of a server, selected by the title that they give themselves.

use std::fs;

use crate::system::now_ns;

/// How long a child may take to set its title; a child that never does is not wanted.
const UNTITLED_NS: u64 = 2_000_000_000;
/// How long a title must stay unchanged to count as complete: it may be read while it is being
/// written.
const WRITTEN_NS: u64 = 50_000_000;

/// Children of a server that have not set their title yet.
pub(crate) struct ForkedChildren {
    pub parent: i32,
    /// Command line of the server, which a child shows until it sets its own.
    parent_title: Vec<u8>,
    wanted: Vec<u8>,
    untitled: Vec<Untitled>,
}

struct Untitled {
    pid: i32,
    title: Vec<u8>,
    /// When it was first seen with this title.
    since_ns: u64,
}

impl ForkedChildren {
    /// Selects children of `parent` whose command line contains `wanted`, not followed by a digit.
    pub fn of(parent: i32, wanted: &str) -> ForkedChildren {
        let parent_title = title(parent).unwrap_or_default();
        ForkedChildren { parent, parent_title, wanted: wanted.into(), untitled: Vec::new() }
    }

    /// Adds a child that was forked.
    pub fn add(&mut self, pid: i32) {
        let title = self.parent_title.clone();
        self.untitled.push(Untitled { pid, title, since_ns: now_ns() });
    }

    /// Whether any child is undecided.
    pub fn waits(&self) -> bool {
        !self.untitled.is_empty()
    }

    /// Returns the children decided since the last call, by title or end, and whether each is
    /// wanted.
    pub(crate) fn decide(&mut self) -> Vec<(i32, bool)> {
        let now_ns = now_ns();
        let mut decided = Vec::new();
        self.untitled.retain_mut(|child| {
            let wanted = match title(child.pid) {
                Some(title) if holds(&title, &self.wanted) => true,
                Some(title) => {
                    if title != child.title {
                        (child.title, child.since_ns) = (title, now_ns);
                    }
                    let has_title = child.title != self.parent_title;
                    if now_ns < child.since_ns + if has_title { WRITTEN_NS } else { UNTITLED_NS } {
                        return true;
                    }
                    false
                }
                None => false,
            };
            decided.push((child.pid, wanted));
            false
        });
        decided
    }
}

fn title(pid: i32) -> Option<Vec<u8>> {
    fs::read(format!("/proc/{pid}/cmdline")).ok()
}

fn holds(title: &[u8], wanted: &[u8]) -> bool {
    title.windows(wanted.len()).enumerate().any(|(at, part)| {
        part == wanted && !title.get(at + wanted.len()).is_some_and(u8::is_ascii_digit)
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::thread::sleep;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_title_may_be_read_while_it_is_written() {
        let wanted = "parallel worker for PID 12";
        let mut child = Command::new("bash")
            .args(["-c", "exec -a 'postgres: parallel wo' bash -c 'read; exec -a \"$TITLE\" cat'"])
            .env("TITLE", format!("postgres: {wanted} "))
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut children = ForkedChildren::of(std::process::id() as i32, wanted);
        let pid = child.id() as i32;
        children.add(pid);
        while !title(pid).unwrap().starts_with(b"postgres: parallel wo") {
            sleep(Duration::from_millis(1));
        }
        assert_eq!(children.decide(), []);
        std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"\n").unwrap();
        while !holds(&title(pid).unwrap(), wanted.as_bytes()) {
            sleep(Duration::from_millis(1));
        }
        let decided = children.decide();
        // A child that keeps another title is not wanted.
        let mut other = ForkedChildren::of(std::process::id() as i32, "parallel worker for PID 7");
        other.add(pid);
        assert_eq!(other.decide(), []);
        sleep(Duration::from_nanos(WRITTEN_NS));
        assert_eq!(other.decide(), [(pid, false)]);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(decided, [(pid, true)]);
    }

    #[test]
    fn a_process_id_in_a_title_must_match_entirely() {
        let title = b"postgres: main: parallel worker for PID 4711 \0\0";
        assert!(holds(title, b"parallel worker for PID 4711"));
        assert!(!holds(title, b"parallel worker for PID 471"));
        assert!(!holds(title, b"parallel worker for PID 47110"));
        assert!(holds(b"worker for PID 12", b"for PID 12"));
    }
}
