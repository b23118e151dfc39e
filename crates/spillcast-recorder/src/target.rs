//! What is observed: a command held back until the capture is ready, or a process that runs.

use std::ffi::{CString, OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, WaitOptions, pidfd_open, waitpid};

use crate::failure::{Failure, Outcome};

/// A process under observation.
pub struct Target {
    pub pid: i32,
    /// Whether it is a command of ours, whose end we must wait for.
    pub ours: bool,
    /// As a shell tells it, 128 and more for a signal; negative in recordings.
    pub exit_status: Option<i32>,
    end: OwnedFd,
}

impl Target {
    /// A process that is there.
    pub fn new(pid: i32, ours: bool) -> Outcome<Target> {
        let gone = || Failure::usage(format!("--pid {pid}: there is no such process"), "");
        let end = Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        Ok(Target { pid, ours, exit_status: None, end: end.ok_or_else(gone)? })
    }

    /// Sleeps until it has ended or the time is over; whether it has ended.
    pub fn wait(&mut self, timeout: Duration) -> bool {
        if self.exit_status.is_some() {
            return true;
        }
        let timeout = Timespec {
            tv_sec: timeout.as_secs() as i64,
            tv_nsec: i64::from(timeout.subsec_nanos()),
        };
        let mut ends = [PollFd::new(&self.end, PollFlags::IN)];
        // A signal ends the sleep early, and is looked for by the caller.
        let ended = poll(&mut ends, Some(&timeout)).is_ok_and(|count| count > 0);
        if ended && self.ours {
            let status = waitpid(Pid::from_raw(self.pid), WaitOptions::empty()).ok().flatten();
            self.exit_status = status.map(|(_, status)| {
                status.exit_status().unwrap_or_else(|| -status.terminating_signal().unwrap_or(0))
            });
        }
        ended
    }
}

/// The program of a command: by its path, or found on PATH.
pub fn program(word: &OsStr) -> Outcome<PathBuf> {
    if word.as_bytes().contains(&b'/') {
        let path = PathBuf::from(word);
        return if runs(&path) { Ok(path) } else { Err(none(word)) };
    }
    let paths = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    let found =
        std::env::split_paths(&paths).map(|folder| folder.join(word)).find(|path| runs(path));
    found.ok_or_else(|| none(word))
}

fn none(word: &OsStr) -> Failure {
    Failure::usage(format!("{}: no such command", word.display()), "give its path, or fix PATH")
}

fn runs(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Texts for the kernel. A word of a command holds no NUL.
pub fn c_strings(words: impl IntoIterator<Item = OsString>) -> Vec<CString> {
    words.into_iter().filter_map(|word| CString::new(word.into_vec()).ok()).collect()
}
