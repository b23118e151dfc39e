//! The observed target: a command held until the capture is ready, or a running process.

use std::env;
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid,
};
use spillcast_core::capture::HeldCommand;

use crate::failure::Kind::{ProcessMissing, ProgramMissing};
use crate::failure::{Failure, Outcome, reason};
use crate::sources::Environment;

pub struct Target {
    pub pid: i32,
    /// Status of a command that has ended; negative for a signal.
    pub exit_status: Option<i32>,
    /// Whether the recorder started it as a command.
    pub ours: bool,
    held: Option<HeldCommand>,
    end: OwnedFd,
}

impl Target {
    /// Starts a command that does nothing until released; `environment` is its whole environment.
    pub fn command(words: &[OsString], environment: Vec<CString>) -> Outcome<Target> {
        let path = words.first().map(|word| program(word)).transpose()?;
        let path = path.ok_or_else(|| Failure::of(ProgramMissing, "there is no command", ""))?;
        let arguments = [path.into_os_string()].into_iter().chain(words[1..].iter().cloned());
        let held = HeldCommand::start(&c_strings(arguments), &environment)
            .map_err(|error| cannot_run(&error))?;
        let pid = held.pid;
        let end = open(pid).map_err(|error| cannot_run(&error.into()))?;
        Ok(Target { pid, exit_status: None, ours: true, held: Some(held), end })
    }

    /// Fails if the process does not exist.
    pub fn process(pid: i64) -> Outcome<Target> {
        let hint = "it may have ended; ps -e lists those that run";
        let gone =
            |_| Failure::of(ProcessMissing, format!("--pid {pid}: there is no such process"), hint);
        let pid = i32::try_from(pid).unwrap_or(0);
        let end = open(pid).map_err(gone)?;
        Ok(Target { pid, exit_status: None, ours: false, held: None, end })
    }

    /// Lets a held command run.
    pub fn release(&mut self) -> Outcome<()> {
        match self.held.take() {
            Some(held) => held.release().map(drop).map_err(|error| cannot_run(&error)),
            None => Ok(()),
        }
    }

    /// Ends a held command before it has done anything, and reaps one that has ended.
    pub fn abandon(&mut self) {
        if self.held.take().is_some() || self.exit_status.is_some() {
            let _ = waitid(WaitId::PidFd(self.end.as_fd()), WaitIdOptions::EXITED);
        }
    }

    /// Sends a signal; does nothing if the process has ended.
    pub fn send_signal(&self, number: i32) {
        if let Some(signal) = Signal::from_named_raw(number) {
            let _ = pidfd_send_signal(&self.end, signal);
        }
    }

    /// Sleeps until the target ends, a timeout or a signal; returns whether it has ended.
    pub fn wait(&mut self, timeout: Duration) -> bool {
        if self.exit_status.is_some() {
            return true;
        }
        let timeout = Timespec {
            tv_sec: timeout.as_secs() as i64,
            tv_nsec: i64::from(timeout.subsec_nanos()),
        };
        let mut ends = [PollFd::new(&self.end, PollFlags::IN)];
        let ended = poll(&mut ends, Some(&timeout)).is_ok_and(|count| count > 0);
        if ended && self.ours {
            // The kernel's counts of a process can be read until it is reaped.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            let status = waitid(WaitId::PidFd(self.end.as_fd()), options).ok().flatten();
            self.exit_status = status.map(|status| {
                status.exit_status().unwrap_or_else(|| -status.terminating_signal().unwrap_or(0))
            });
        }
        ended
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.abandon();
    }
}

fn open(pid: i32) -> Result<OwnedFd, Errno> {
    pidfd_open(Pid::from_raw(pid).ok_or(Errno::SRCH)?, PidfdFlags::empty())
}

fn cannot_run(error: &io::Error) -> Failure {
    Failure::of(ProgramMissing, format!("cannot run the command: {}", reason(error)), "")
}

/// The program of a command, by its path or from PATH.
pub fn program(word: &OsStr) -> Outcome<PathBuf> {
    find_program(word).ok_or_else(|| no_program(word))
}

fn find_program(word: &OsStr) -> Option<PathBuf> {
    if word.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(word)).filter(|path| runs(path));
    }
    let paths = env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    env::split_paths(&paths).map(|folder| folder.join(word)).find(|path| runs(path))
}

fn no_program(word: &OsStr) -> Failure {
    let shown = word.display();
    let text = word.to_string_lossy();
    let mut parts = text.split_whitespace();
    if let (Some(first), Some(second)) = (parts.next(), parts.next())
        && find_program(first.as_ref()).is_some()
    {
        let hint = format!("it is one word: leave out the quotes, as in -- {first} {second}");
        return Failure::of(ProgramMissing, format!("'{shown}': no such command"), hint);
    }
    if Path::new(word).is_file() {
        let hint = "give the program that runs it before it";
        return Failure::of(ProgramMissing, format!("{shown} is not a program"), hint);
    }
    Failure::of(ProgramMissing, format!("{shown}: no such command"), "give its path, or fix PATH")
}

fn runs(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// The environment of this process with further variables, for a command.
pub fn environment(more: &Environment) -> Vec<CString> {
    let is_ours = |name: &OsStr| !more.iter().any(|(other, _)| name == other.as_str());
    let ours = env::vars_os().filter(|(name, _)| is_ours(name));
    let more = more.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let pair = |(mut name, value): (OsString, OsString)| {
        name.push("=");
        name.push(value);
        name
    };
    c_strings(ours.chain(more).map(pair))
}

/// Strings for the kernel. A word of a command contains no NUL.
pub fn c_strings(words: impl IntoIterator<Item = OsString>) -> Vec<CString> {
    words.into_iter().filter_map(|word| CString::new(word.into_vec()).ok()).collect()
}
