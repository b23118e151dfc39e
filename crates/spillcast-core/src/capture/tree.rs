//! A process and all its descendants, as /proc lists them.
//!
//! A process is attached before its children are listed, and the listing repeats until no new
//! process appears. So each child is either in the list or reported by its fork.

use std::collections::HashSet;
use std::io;

use super::source::Observer;
use crate::proc::{children, process_of};

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
