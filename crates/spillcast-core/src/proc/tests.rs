//! Real processes as /proc shows them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::process::{Pid, WaitId, WaitIdOptions, geteuid, waitid};

use super::*;

#[test]
fn an_unusual_process_name_is_parsed() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join(OsStr::from_bytes(b"a) Z \xff"));
    symlink("/bin/sleep", &program).unwrap();
    let mut child = Command::new(&program).arg0("sleep").arg("60").spawn().unwrap();
    let pid = child.id() as i32;
    assert!(!ended(pid));
    assert_eq!(parent(pid), Some(std::process::id() as i32));
    assert_eq!(owner(pid), Some(geteuid().as_raw()));
    assert!(age_s(pid, "a) Z").is_some_and(|age_s| age_s < 60.0));
    child.kill().unwrap();
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(Pid::from_raw(pid).unwrap()), options).unwrap();
    assert!(ended(pid));
    child.wait().unwrap();
}

#[test]
fn children_of_a_shell_are_listed_as_a_tree() {
    let mut shell = Command::new("sh")
        .args(["-c", "sleep 60 & echo; wait"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = [0u8; 1];
    io::Read::read_exact(shell.stdout.as_mut().unwrap(), &mut line).unwrap();
    let pid = shell.id() as i32;
    let pids = family(pid);
    assert_eq!((pids.len(), pids[0]), (2, pid));
    assert_eq!(parent(pids[1]), Some(pid));
    assert_eq!(parent(pid), Some(std::process::id() as i32));
    // SAFETY: the process id is that of a grandchild that has not been waited for.
    unsafe { libc::kill(pids[1], libc::SIGKILL) };
    shell.wait().unwrap();
    assert!(children(pid).is_empty());
}

#[test]
fn an_id_that_replaces_another_between_two_lists_is_visited() {
    // Thread 3 ends while thread 4 begins: the lists are equally long.
    let mut lists = [vec![1, 2, 3], vec![1, 2, 4], vec![1, 2, 4]].into_iter();
    let list = |known: &[i32]| {
        assert!(known.len() < 4 || known == [1, 2, 3, 4]);
        Ok(lists.next().unwrap())
    };
    assert_eq!(visit_all(list, |_| Ok(())).unwrap(), [1, 2, 3, 4]);
    let error = || io::Error::from_raw_os_error(libc::EPERM);
    assert!(visit_all(|_| Ok(vec![1]), |_| Err(error())).is_err());
}
