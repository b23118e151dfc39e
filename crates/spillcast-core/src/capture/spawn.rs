//! A command that is started but held back until its observer is ready.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::ptr;

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, WaitOptions, waitpid};

/// A forked child that has not executed its program yet.
///
/// Dropping it without [`HeldCommand::release`] ends the child before it executes the program.
pub struct HeldCommand {
    pub pid: i32,
    go: File,
    failure: File,
}

impl HeldCommand {
    /// Forks a child that will run `arguments` (the first is the path of the program) with
    /// `environment` (`NAME=value`) once it is released.
    pub fn start(arguments: &[CString], environment: &[CString]) -> io::Result<HeldCommand> {
        let (held, go) = pipe_with(PipeFlags::CLOEXEC)?;
        let (failure, report) = pipe_with(PipeFlags::CLOEXEC)?;
        let argv = pointers(arguments);
        let envp = pointers(environment);
        // Until exec the child uses only what is prepared here: any lock may be held at the fork.
        // SAFETY: `child` makes only system calls.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => child(&argv, &envp, held.as_raw_fd(), go.as_raw_fd(), report.as_raw_fd()),
            pid => Ok(HeldCommand { pid, go: go.into(), failure: failure.into() }),
        }
    }

    /// Lets the child execute its program; the error is that of execve.
    pub fn release(mut self) -> io::Result<i32> {
        // A child that a signal has ended reads nothing; waitpid reports the signal.
        let _ = self.go.write_all(b"g");
        let mut code = [0u8; 4];
        match self.failure.read_exact(&mut code) {
            // execve has closed the pipe: the program runs.
            Err(_) => Ok(self.pid),
            Ok(()) => {
                let _ = waitpid(Pid::from_raw(self.pid), WaitOptions::empty());
                Err(io::Error::from_raw_os_error(i32::from_ne_bytes(code)))
            }
        }
    }
}

fn child(
    argv: &[*const libc::c_char],
    envp: &[*const libc::c_char],
    held: RawFd,
    go: RawFd,
    report: RawFd,
) -> ! {
    // SAFETY: only system calls, on descriptors and memory that the fork has copied; both lists end
    // with a null pointer, their strings with NUL.
    unsafe {
        libc::close(go);
        // A signal that would end the command also ends the held child.
        for number in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            if libc::signal(number, libc::SIG_DFL) == libc::SIG_IGN {
                libc::signal(number, libc::SIG_IGN);
            }
        }
        let mut byte = 0u8;
        // Until execve, signal handlers of this program may interrupt the read.
        let count = loop {
            match libc::read(held, (&raw mut byte).cast(), 1) {
                -1 if *libc::__errno_location() == libc::EINTR => (),
                count => break count,
            }
        };
        // End of file instead of a byte: the observer is gone, so the program is not run.
        if count == 1 {
            // Python ignores these; a program expects the default.
            libc::signal(libc::SIGPIPE, libc::SIG_DFL);
            libc::signal(libc::SIGXFSZ, libc::SIG_DFL);
            libc::execve(argv[0], argv.as_ptr(), envp.as_ptr());
            let code = (*libc::__errno_location()).to_ne_bytes();
            libc::write(report, code.as_ptr().cast(), code.len());
        }
        libc::_exit(127)
    }
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::{Stat, is_held};

    #[test]
    fn a_command_is_held_until_it_is_released() {
        let command = ["/bin/sleep", "60"].map(|word| CString::new(word).unwrap());
        let held = HeldCommand::start(&command, &[]).unwrap();
        let pid = held.pid;
        assert!(is_held(pid));
        held.release().unwrap();
        assert!(!is_held(pid));
        assert!(!is_held(std::process::id() as i32));
        // SAFETY: the process id is that of a child that has not been waited for.
        unsafe { libc::kill(pid, libc::SIGKILL) };
        waitpid(Pid::from_raw(pid), WaitOptions::empty()).unwrap();
    }

    #[test]
    fn a_handled_signal_does_not_end_a_held_command() {
        extern "C" fn nothing(_: libc::c_int) {}
        // SAFETY: the handler does nothing; without SA_RESTART it interrupts calls, like Python's.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
            assert_eq!(libc::sigaction(libc::SIGUSR1, &action, ptr::null_mut()), 0);
        }
        let held = HeldCommand::start(&[c"/bin/true".to_owned()], &[]).unwrap();
        let pid = held.pid;
        while Stat::of(pid).unwrap().state != b'S' {
            std::thread::yield_now();
        }
        // SAFETY: as above.
        unsafe { libc::kill(pid, libc::SIGUSR1) };
        while Stat::of(pid).unwrap().state == b'R' {
            std::thread::yield_now();
        }
        held.release().unwrap();
        let ended = waitpid(Pid::from_raw(pid), WaitOptions::empty()).unwrap().unwrap();
        assert_eq!(ended.1.exit_status(), Some(0));
    }
}
