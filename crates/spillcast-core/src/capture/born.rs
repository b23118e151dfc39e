//! Children of a server that have just been born: the wanted ones by what they call themselves.

use std::fs;

use crate::system::now_ns;

/// How long a child may take to say what it is; one that never does is not wanted.
const NAMELESS_NS: u64 = 2_000_000_000;

/// Children of one server that have not said yet what they are.
pub struct Born {
    pub parent: i32,
    /// Command line of the server, which a child has until it sets its own.
    parent_title: Vec<u8>,
    wanted: Vec<u8>,
    nameless: Vec<(i32, u64)>,
}

impl Born {
    /// Children of `parent` are wanted whose command line holds `wanted`, not followed by a digit.
    pub fn of(parent: i32, wanted: &str) -> Born {
        let parent_title = title(parent).unwrap_or_default();
        Born { parent, parent_title, wanted: wanted.into(), nameless: Vec::new() }
    }

    /// A child was born.
    pub fn add(&mut self, pid: i32) {
        self.nameless.push((pid, now_ns()));
    }

    /// Whether any is waited for.
    pub fn waits(&self) -> bool {
        !self.nameless.is_empty()
    }

    /// Those that have said what they are since the last time, or ended: whether they are wanted.
    pub fn decide(&mut self) -> Vec<(i32, bool)> {
        let now_ns = now_ns();
        let mut decided = Vec::new();
        self.nameless.retain(|&(pid, born_ns)| {
            let wanted = match title(pid) {
                Some(title) if title == self.parent_title => {
                    if now_ns < born_ns + NAMELESS_NS {
                        return true;
                    }
                    false
                }
                Some(title) => holds(&title, &self.wanted),
                None => false,
            };
            decided.push((pid, wanted));
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
    use super::*;

    #[test]
    fn a_number_is_the_whole_number() {
        let title = b"postgres: main: parallel worker for PID 4711 \0\0";
        assert!(holds(title, b"parallel worker for PID 4711"));
        assert!(!holds(title, b"parallel worker for PID 471"));
        assert!(!holds(title, b"parallel worker for PID 47110"));
        assert!(holds(b"worker for PID 12", b"for PID 12"));
    }
}
