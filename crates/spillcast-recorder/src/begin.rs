//! Beginning to observe: the best source that works, or in a line why none does.

use std::env;
use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::process::{Pid, WaitOptions, geteuid, waitpid};
use spillcast_core::capture::cost::{self, Cost, Program};
use spillcast_core::capture::{CallKind, Capture, HeldCommand, SOURCES, TempRules};

use crate::failure::{Failure, Outcome, reason};
use crate::library::Library;
use crate::machine;
use crate::target::{Target, c_strings, program};

pub const PRELOAD: &str = "preload";
/// The verb of the child that measures what a capture costs.
pub const COST_VERB: &str = "cost-child";

/// A capture under way.
pub struct Observed {
    pub capture: Capture,
    pub target: Target,
    pub source: &'static str,
    /// Which sources were not taken, and why; None: it is the best.
    pub notice: Option<String>,
    /// The command may load it as long as it runs.
    #[expect(dead_code, reason = "held, not read")]
    pub library: Option<Library>,
}

/// Starts a command under observation.
pub fn command(words: &[OsString], capture: &str, temp: &[PathBuf]) -> Outcome<Observed> {
    let path = program(&words[0])?;
    let mut arguments = vec![path.clone().into_os_string()];
    arguments.extend_from_slice(&words[1..]);
    let arguments = c_strings(arguments);
    let mut refusals = Refusals::default();
    for (name, open) in named(capture)? {
        let attempt = || -> io::Result<_> {
            let source = open(CallKind::ALL)?;
            let library = (name == PRELOAD).then(|| Library::fitting(&path)).transpose()?;
            let mut more: Vec<(String, String)> = source
                .environment()
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect();
            more.extend(library.as_ref().map(|one| ("LD_PRELOAD".to_owned(), one.value())));
            let held = HeldCommand::start(&arguments, &environment(more))?;
            let pid = held.pid;
            match Capture::start(source, &[pid], TempRules::new(temp.to_vec())) {
                Ok(capture) => Ok((capture, held, library)),
                Err(error) => {
                    drop(held);
                    let _ = waitpid(Pid::from_raw(pid), WaitOptions::empty());
                    Err(error)
                }
            }
        };
        match attempt() {
            Ok((capture, held, library)) => {
                let target = Target::new(held.pid, true)?;
                held.release().map_err(|error| {
                    Failure::usage(format!("cannot run the command: {}", reason(&error)), "")
                })?;
                return Ok(Observed {
                    capture,
                    target,
                    source: name,
                    notice: refusals.notice(name),
                    library,
                });
            }
            Err(error) => refusals.add(name, error),
        }
    }
    Err(refusals.failure("a command"))
}

/// Observes a process that runs.
pub fn process(pid: i32, capture: &str, temp: &[PathBuf]) -> Outcome<Observed> {
    let what = format!("process {pid}");
    let target = Target::new(pid, false)?;
    let mut refusals = Refusals::default();
    for (name, open) in named(capture)? {
        if name == PRELOAD {
            if capture == PRELOAD {
                let hint = "start it under: spillcast-recorder record --capture preload -- COMMAND";
                return Err(Failure::usage(
                    format!("--capture {PRELOAD} cannot observe {what}, which is already running"),
                    hint,
                ));
            }
            continue;
        }
        let rules = || TempRules::new(temp.to_vec());
        match open(CallKind::ALL).and_then(|source| Capture::start(source, &[pid], rules())) {
            Ok(capture) => {
                let notice = refusals.notice(name);
                return Ok(Observed { capture, target, source: name, notice, library: None });
            }
            Err(error) => refusals.add(name, error),
        }
    }
    Err(refusals.failure(&what))
}

/// What the source costs those it observes; None where it cannot be measured.
pub fn cost_of(source: &str) -> Option<Cost> {
    // A static program loads no library.
    if source == PRELOAD {
        return None;
    }
    let (_, open) = SOURCES.iter().find(|(name, _)| *name == source)?;
    let ours = env::current_exe().ok()?;
    let environment = environment(Vec::new());
    let arguments = c_strings([ours.into_os_string(), COST_VERB.into()]);
    let program = Program { arguments, observed: environment.clone(), bare: environment };
    cost::measure(|| open(CallKind::ALL), &program).ok()
}

type Known = (&'static str, spillcast_core::capture::Open);

fn named(capture: &str) -> Outcome<Vec<Known>> {
    let known = SOURCES.iter().copied();
    let found: Vec<Known> =
        known.filter(|(name, _)| capture == "auto" || *name == capture).collect();
    if found.is_empty() {
        let names: Vec<&str> = SOURCES.iter().map(|(name, _)| *name).collect();
        let hint = format!("give one of auto, {}", names.join(", "));
        return Err(Failure::usage(format!("--capture {capture}: there is no such source"), hint));
    }
    Ok(found)
}

fn environment(more: Vec<(String, String)>) -> Vec<CString> {
    let ours = env::vars_os().filter(|(name, _)| !more.iter().any(|(other, _)| name == &other[..]));
    let pair = |name: &std::ffi::OsStr, value: &std::ffi::OsStr| {
        CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).ok()
    };
    let mut pairs: Vec<CString> = ours.filter_map(|(name, value)| pair(&name, &value)).collect();
    pairs.extend(more.iter().filter_map(|(name, value)| pair(name.as_ref(), value.as_ref())));
    pairs
}

/// Sources that did not work, each with what the kernel said.
#[derive(Default)]
struct Refusals(Vec<(&'static str, io::Error)>);

impl Refusals {
    fn add(&mut self, source: &'static str, error: io::Error) {
        self.0.push((source, error));
    }

    fn notice(&self, taken: &str) -> Option<String> {
        let said: Vec<String> =
            self.0.iter().map(|(name, error)| format!("{name} ({})", why(error))).collect();
        (!said.is_empty()).then(|| format!("cannot use {}: {taken} instead", said.join(", ")))
    }

    /// What the last one was refused for, which wants the least rights.
    fn failure(&self, what: &str) -> Failure {
        let Some((source, error)) = self.0.last() else {
            return Failure::usage(format!("cannot observe {what}: no source can"), "");
        };
        let message = format!("cannot observe {what} by {source}: {}", why(error));
        Failure::usage(message, mend(source, error))
    }
}

/// Why a source did not work; only eBPF is not supported anywhere, where it cannot tell processes apart.
fn why(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EOPNOTSUPP) => "process ids are those of a container".to_owned(),
        _ => reason(error),
    }
}

fn mend(source: &str, error: &io::Error) -> String {
    let refused = matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES));
    let ordinary = !geteuid().is_root();
    match (source, machine::number("/proc/sys/kernel/perf_event_paranoid")) {
        _ if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
            "share those of the host (docker run --pid=host), or use --capture perf".to_owned()
        }
        _ if !refused => "try another --capture".to_owned(),
        ("bpf", _) if ordinary => {
            "run it as root, or with CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE".to_owned()
        }
        ("perf", Some(paranoid)) if paranoid > 2 && ordinary => {
            format!(
                "kernel.perf_event_paranoid is {paranoid}; as root: sysctl kernel.perf_event_paranoid=2"
            )
        }
        _ => "give the container CAP_PERFMON and a seccomp profile that allows it, or start the \
            command with --capture preload"
            .to_owned(),
    }
}
