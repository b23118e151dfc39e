//! The choice of a capture source: the best one that works when the recording starts.
//!
//! Whether a source works shows only when it attaches to this process with this limit of
//! descriptors. If only the preload library can observe a held command, the command is ended before
//! it has done anything, and started again with the library in its environment.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, geteuid, getrlimit};
use spillcast_core::capture::{CallKind, Capture, Open, SOURCES, Source, TempRules};

use crate::cgroups;
use crate::failure::Kind::{CaptureUnavailable, ChoiceUnknown, PermissionDenied, ProcessMissing};
use crate::failure::{Failure, Kind, Outcome, reason};

pub const AUTO: &str = "auto";
pub const PRELOAD: &str = "preload";

/// Variables that a command needs in its environment.
pub type Environment = Vec<(String, String)>;

/// The display name of a source.
pub fn title(source: &str) -> &str {
    match source {
        "bpf" => "eBPF",
        "perf" => "perf events",
        PRELOAD => "the preload library",
        other => other,
    }
}

/// Whether a source can observe a process that is already running.
pub fn attaches(source: &str) -> bool {
    source != PRELOAD
}

/// Why a source may have reached no process at all.
pub fn unconnected(source: &str) -> &'static str {
    match source {
        PRELOAD => {
            "the preload library was never loaded: the command is static or drops LD_PRELOAD"
        }
        _ => "no process was observed",
    }
}

/// The meaning of a source's own error numbers, and the remedy.
fn known_refusal(source: &str, error: &io::Error) -> Option<(&'static str, &'static str)> {
    if source != "bpf" {
        return None;
    }
    Some(match error.raw_os_error()? {
        libc::EPERM | libc::EACCES => (
            "refused by the kernel",
            "run spillcast as root, or with CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE, and in a \
             container with a seccomp profile that allows bpf",
        ),
        libc::ENOENT => (
            "the kernel has no BTF: there is no /sys/kernel/btf/vmlinux",
            "use a kernel with CONFIG_DEBUG_INFO_BTF, or --capture perf",
        ),
        libc::ENOSYS => (
            "spillcast was built without the eBPF programs",
            "build it without BPF=no, or use --capture perf",
        ),
        libc::EOPNOTSUPP => (
            "process ids are those of a container",
            "share those of the host (docker run --pid=host), or use --capture perf",
        ),
        libc::EINVAL => ("the kernel is too old for the eBPF programs", "use --capture perf"),
        libc::E2BIG => ("it has more threads than the eBPF maps hold", "use --capture perf"),
        _ => return None,
    })
}

/// The failure of an attempt by a source to observe `text`, which may be process `pid`.
pub fn refused(error: &io::Error, text: &str, pid: Option<i32>, source: &str) -> Failure {
    let code = error.raw_os_error();
    let cannot = |kind: Kind, why: &str, hint: String| {
        Failure::of(kind, format!("cannot observe {text}: {why}"), hint)
    };
    if code == Some(libc::ESRCH) {
        return Failure::of(ProcessMissing, format!("{text} has ended"), "");
    }
    if let Some((message, remedy)) = known_refusal(source, error) {
        return cannot(CaptureUnavailable, message, remedy.to_owned());
    }
    if code == Some(libc::EMFILE) {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let message = format!("too few file descriptors to observe {text}");
        let hint = format!("raise ulimit -n, which is {limit}");
        return Failure::of(CaptureUnavailable, message, hint);
    }
    if !matches!(code, Some(libc::EACCES | libc::EPERM | libc::ENOSYS | libc::ENOENT)) {
        return cannot(CaptureUnavailable, &reason(error), String::new());
    }
    let ordinary = !geteuid().is_root();
    if ordinary && pid.is_some_and(belongs_to_another) {
        let hint = "run spillcast as that user, as root, or with CAP_PERFMON and CAP_SYS_PTRACE";
        return cannot(PermissionDenied, "it belongs to another user", hint.into());
    }
    let paranoid = cgroups::text("/proc/sys/kernel/perf_event_paranoid").parse().ok();
    if let Some(paranoid) = paranoid.filter(|&paranoid: &i64| paranoid > 2 && ordinary) {
        return cannot(
            PermissionDenied,
            &format!("kernel.perf_event_paranoid is {paranoid}"),
            "as root: sysctl kernel.perf_event_paranoid=2, or give spillcast CAP_PERFMON".into(),
        );
    }
    cannot(
        CaptureUnavailable,
        &reason(error),
        "perf_event_open is refused here: give the container CAP_PERFMON and a seccomp profile \
         that allows it, or start the command with --capture preload"
            .into(),
    )
}

/// Compares the owner of the /proc folder, which is visible even if the process's files are hidden.
fn belongs_to_another(pid: i32) -> bool {
    use std::os::unix::fs::MetadataExt;
    let folder = Path::new("/proc").join(pid.to_string()).metadata();
    folder.is_ok_and(|folder| folder.uid() != geteuid().as_raw())
}

/// The result of starting a capture.
pub enum Begun {
    Capture(Capture),
    /// The command must be started again with these variables.
    StartAgain(Environment),
}

/// The requested sources, tried in order until one works.
pub struct Choice {
    label: String,
    pid: Option<i32>,
    calls: Vec<CallKind>,
    preload: Outcome<String>,
    is_auto: bool,
    left: VecDeque<(&'static str, Open)>,
    /// Sources that failed, each with its error.
    refusals: Vec<(&'static str, io::Error)>,
    /// The best source that is ready; None while a capture uses it.
    ready: Option<Box<dyn Source>>,
    pub name: &'static str,
}

/// What to observe, and how.
pub struct Wanted<'a> {
    /// A source, or `auto`.
    pub capture: &'a str,
    /// A process that is already running.
    pub pid: Option<i32>,
    /// Its name in errors.
    pub label: Option<&'a str>,
    pub calls: Vec<CallKind>,
    /// The value of LD_PRELOAD for the preload library, or the reason why there is none.
    pub preload: Outcome<String>,
    /// The name of the recording program.
    pub program: &'a str,
}

impl Choice {
    /// Fails for an unknown source, one that cannot attach, or with the last refusal.
    pub fn new(wanted: Wanted) -> Outcome<Choice> {
        Choice::of(wanted, SOURCES)
    }

    fn of(wanted: Wanted, known: &[(&'static str, Open)]) -> Outcome<Choice> {
        let Wanted { capture, pid, label, calls, preload, program } = wanted;
        let is_auto = capture == AUTO;
        let label = label.map(str::to_owned).unwrap_or_else(|| match pid {
            Some(pid) => format!("process {pid}"),
            None => "a command".to_owned(),
        });
        let named = || known.iter().copied().filter(|(name, _)| is_auto || *name == capture);
        if named().next().is_none() {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            let hint = format!("give one of {AUTO}, {}", names.join(", "));
            let message = format!("--capture {capture}: there is no such source");
            return Err(Failure::of(ChoiceUnknown, message, hint));
        }
        if pid.is_some() && !is_auto && !attaches(capture) {
            let hint = format!("start it under: {program} record --capture {capture} -- COMMAND");
            return Err(cannot_attach(capture, &label, hint));
        }
        let left = named().filter(|(name, _)| pid.is_none() || attaches(name)).collect();
        let mut choice = Choice {
            label,
            pid,
            calls,
            preload,
            is_auto,
            left,
            refusals: Vec::new(),
            ready: None,
            name: "",
        };
        choice.make_ready()?;
        Ok(choice)
    }

    fn make_ready(&mut self) -> Outcome<()> {
        while let Some((name, open)) = self.left.pop_front() {
            self.name = name;
            match open(&self.calls) {
                Ok(source) => {
                    self.ready = Some(source);
                    return Ok(());
                }
                Err(error) => self.refusals.push((name, error)),
            }
        }
        // The last source needs the fewest privileges.
        let (source, error) = self.refusals.last().expect("a source was requested");
        Err(refused(error, &self.label, self.pid, source))
    }

    /// The variables that a command needs in its environment to be observed.
    pub fn environment(&self) -> Outcome<Environment> {
        let source = self.ready.iter().filter_map(|source| source.environment());
        let mut environment: Environment =
            source.map(|(name, value)| (name.to_owned(), value)).collect();
        if self.name == PRELOAD {
            environment.push(("LD_PRELOAD".to_owned(), self.preload.clone()?));
        }
        Ok(environment)
    }

    /// Observes a process with the best source that can.
    pub fn begin(&mut self, pid: i32, temp_dirs: &[PathBuf]) -> Outcome<Begun> {
        loop {
            let source = self.ready.take().expect("a source begins once");
            match Capture::start(source, &[pid], TempRules::new(temp_dirs.to_vec())) {
                Ok(capture) => return Ok(Begun::Capture(capture)),
                Err(error) => {
                    let gone = error.raw_os_error() == Some(libc::ESRCH);
                    if gone || self.left.is_empty() {
                        let text = format!("process {pid}");
                        return Err(refused(&error, &text, Some(pid), self.name));
                    }
                    self.refusals.push((self.name, error));
                }
            }
            self.make_ready()?;
            let environment = self.environment()?;
            if !environment.is_empty() {
                return Ok(Begun::StartAgain(environment));
            }
        }
    }

    /// Which source observes, and why no better one does; None if it was requested by name.
    pub fn notice(&self) -> Option<String> {
        if !self.is_auto {
            return None;
        }
        let title = title(self.name);
        if self.refusals.is_empty() {
            return Some(format!("the capture source is {title}, the best one"));
        }
        let refusals = self.refusals.iter().map(|(name, error)| {
            let known = known_refusal(name, error).map(|(message, _)| message.to_owned());
            format!("{} ({})", self::title(name), known.unwrap_or_else(|| reason(error)))
        });
        let reasons: Vec<String> = refusals.collect();
        Some(format!("cannot use {}: {title} instead", reasons.join(", ")))
    }
}

pub fn cannot_attach(capture: &str, label: &str, hint: impl Into<String>) -> Failure {
    let message = format!("--capture {capture} cannot observe {label}, which is already running");
    Failure::of(CaptureUnavailable, message, hint)
}

#[cfg(test)]
mod tests {
    use spillcast_core::capture::{Event, Observed};

    use super::*;

    /// A source that works and needs an environment variable.
    struct Paper;

    impl Source for Paper {
        fn environment(&self) -> Option<(&'static str, String)> {
            Some(("PAPER", "1".to_owned()))
        }
        fn wait(&self) {}
        fn drain(&mut self, _events: &mut Vec<Event>, _last: bool) {}
        fn observed(&self) -> Observed {
            Observed::default()
        }
    }

    fn paper(_calls: &[CallKind]) -> io::Result<Box<dyn Source>> {
        Ok(Box::new(Paper))
    }

    fn missing(_calls: &[CallKind]) -> io::Result<Box<dyn Source>> {
        Err(io::Error::from_raw_os_error(libc::ENOSYS))
    }

    fn wanted(capture: &str, pid: Option<i32>) -> Wanted<'_> {
        let preload = Ok("/lib/preload.so".to_owned());
        Wanted { capture, pid, label: None, calls: Vec::new(), preload, program: "spillcast" }
    }

    const KNOWN: &[(&str, Open)] = &[("bpf", missing), ("paper", paper), (PRELOAD, paper)];

    #[test]
    fn auto_takes_the_best_working_source_and_names_the_reason() {
        let choice = Choice::of(wanted(AUTO, None), KNOWN).unwrap();
        assert_eq!(choice.name, "paper");
        let notice = choice.notice().unwrap();
        assert!(notice.contains("eBPF") && notice.contains("paper instead"), "{notice}");
        assert_eq!(choice.environment().unwrap(), [("PAPER".to_owned(), "1".to_owned())]);
    }

    #[test]
    fn a_source_requested_by_name_is_not_replaced() {
        let failure = |capture, pid| Choice::of(wanted(capture, pid), KNOWN).err().unwrap();
        assert!(failure("bpf", None).message.contains("cannot observe a command"));
        assert!(failure("magic", None).hint.contains("auto, bpf, paper, preload"));
        assert!(failure(PRELOAD, Some(7)).message.contains("process 7, which is already running"));
        assert!(Choice::of(wanted("paper", None), KNOWN).unwrap().notice().is_none());
    }

    #[test]
    fn the_preload_library_is_in_the_environment_of_its_command() {
        let choice = Choice::of(wanted(PRELOAD, None), KNOWN).unwrap();
        let environment = choice.environment().unwrap();
        assert!(environment.contains(&("LD_PRELOAD".to_owned(), "/lib/preload.so".to_owned())));
    }
}
