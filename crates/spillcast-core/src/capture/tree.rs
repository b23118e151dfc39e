//! A process and all its descendants, as /proc lists them.
//!
//! A process is attached before its children are listed, and the listing repeats until no new
//! process appears. So each child is either in the list or reported by its fork.

use std::collections::HashSet;
use std::fs;
use std::io;

use super::proc::{numbers_in, process_of};
use super::source::Observer;

/// Attaches a process and its descendants; returns all of them, the process first. Of a thread that
/// is not the first of its process, only the thread.
///
/// Errors: those of [`Observer::attach`]; a descendant that ends meanwhile is skipped.
pub fn attach(observer: &dyn Observer, pid: i32) -> io::Result<Vec<i32>> {
    observer.expect(pid)?;
    observer.attach(pid)?;
    let mut attached = vec![pid];
    if process_of(pid) != pid {
        return Ok(attached);
    }
    let mut seen = HashSet::from([pid]);
    // A list of children may lack one while another ends, so the last look must find no new one.
    loop {
        let mut new = Vec::new();
        for &parent in &attached {
            new.extend(children(parent).into_iter().filter(|&child| seen.insert(child)));
        }
        if new.is_empty() {
            return Ok(attached);
        }
        for child in new {
            match observer.attach(child) {
                Ok(()) => attached.push(child),
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => (),
                Err(error) => return Err(error),
            }
        }
    }
}

/// A process and its descendants at this moment, the process first.
pub fn of(pid: i32) -> Vec<i32> {
    let mut found = vec![pid];
    let mut at = 0;
    while let Some(&parent) = found.get(at) {
        found.extend(children(parent));
        at += 1;
    }
    found
}

/// The children of a process; none where it has ended.
pub fn children(pid: i32) -> Vec<i32> {
    let task = format!("/proc/{pid}/task");
    let of_thread = |tid: &i32| fs::read_to_string(format!("{task}/{tid}/children")).ok();
    let threads = numbers_in(&task).unwrap_or_default();
    let lists: Vec<String> = threads.iter().filter_map(of_thread).collect();
    if lists.is_empty() && !threads.is_empty() {
        // A kernel without these lists.
        let all = numbers_in("/proc").unwrap_or_default();
        return all.into_iter().filter(|&other| parent(other) == Some(pid)).collect();
    }
    lists.iter().flat_map(|list| list.split_ascii_whitespace()).flat_map(str::parse).collect()
}

/// Who started a process, or adopted it.
pub fn parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold blanks; the state follows it.
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_shell_and_what_it_started_are_a_tree() {
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 60 & echo; wait"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = [0u8; 1];
        io::Read::read_exact(shell.stdout.as_mut().unwrap(), &mut line).unwrap();
        let pid = shell.id() as i32;
        let found = of(pid);
        assert_eq!((found.len(), found[0]), (2, pid));
        assert_eq!(parent(found[1]), Some(pid));
        assert_eq!(parent(pid), Some(std::process::id() as i32));
        // SAFETY: the number is of a child's child that nobody has waited for.
        unsafe { libc::kill(found[1], libc::SIGKILL) };
        shell.wait().unwrap();
        assert!(children(pid).is_empty());
    }
}
