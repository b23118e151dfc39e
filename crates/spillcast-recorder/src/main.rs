//! Records, probes, emulates and reads traces without Python, for servers that lack it.
//!
//! It consists of the core and the writer of recordings, linked with musl into one file. spillcast
//! opens its recordings on another machine. `arguments` parses the command line, each verb is a
//! module (`record`, `probe`, `emulate`, `profile`), and a `Failure` is printed as one line and a
//! line with its remedy. Data goes to stdout, messages to stderr.
//!
//! The recorder keeps the name of a command but not its arguments, because the code that removes
//! secrets from arguments is Python. It contains the preload libraries for glibc and for musl; a
//! command loads the one for its C library from memory, through /proc.

mod arguments;
mod emulate;
mod library;
mod probe;
mod profile;
mod record;
mod recording;
mod signals;

use std::env;
use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use spillcast_recording::failure::{Failure, Outcome};
use spillcast_recording::machine;

const HELP: &str = "\
spillcast-recorder records on a server what spillcast reads elsewhere.

  record [-o run.spill] [OPTIONS] -- COMMAND...   record the temp I/O of a command
  record [-o run.spill] [OPTIONS] --pid PID       or of a process that runs; Ctrl-C ends it
      --capture auto|bpf|perf|preload   --temp DIR   --duration 5m   --slices N   --json   --force
  probe DIR --like run.spill [-o storage.json]    replay the temp I/O of a recording on a storage
  probe DIR [-o storage.json]                     measure it by op, size, depth and pattern
      --budget 60s   --psync
  emulate MOUNT [OPTIONS] [-- COMMAND...]         a directory with the given latencies
      --read 9ms   --write 4ms   --servers N   --backing DIR   --page-cache
  profile TRACE... [--by event,size,...]          where the time of extended SQL traces goes, as JSON
  --version

Data goes to stdout, messages to stderr. Status 0: done, 1: failed, 2: bad usage or input; if a
recorded command fails, its own status.";

fn main() -> ExitCode {
    let words: Vec<OsString> = env::args_os().skip(1).collect();
    match run(&words) {
        Ok(status) => ExitCode::from(status),
        Err(failure) => print_failure(&failure),
    }
}

/// Prints data to stdout; a closed pipe is not an error.
fn print_data(text: impl Display) -> Outcome<()> {
    match writeln!(io::stdout(), "{text}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::io("stdout", &error))
        }
        _ => Ok(()),
    }
}

/// Prints a message to stderr, whose terminal may be gone.
fn print_message(text: impl Display) {
    let _ = writeln!(io::stderr(), "spillcast-recorder: {text}");
}

/// Prints a failure to stderr; returns the exit code.
fn print_failure(failure: &Failure) -> ExitCode {
    // Foreign names may contain control characters, which a terminal would obey.
    let visible = |text: &str| -> String {
        text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
    };
    let hint = if failure.hint.is_empty() { "" } else { "\n  " };
    print_message(visible(&failure.message) + hint + &visible(&failure.hint));
    ExitCode::from(failure.status)
}

fn run(words: &[OsString]) -> Outcome<u8> {
    let (verb, rest) = words
        .split_first()
        .map_or(("", words), |(verb, rest)| (verb.to_str().unwrap_or_default(), rest));
    match verb {
        "record" => record::run(rest),
        "probe" => probe::run(rest),
        "emulate" => emulate::run(rest),
        "profile" => profile::run(rest),
        record::COST_VERB => cost_child(rest),
        "--version" => {
            print_data(format_args!("spillcast-recorder {}", machine::version())).map(|()| 0)
        }
        "" | "-h" | "--help" | "help" => print_data(HELP).map(|()| 0),
        other => Err(Failure::usage(format!("{other}: no such verb"), arguments::HELP)),
    }
}

/// Serves a measurement of the cost of a capture until the measuring process ends it.
fn cost_child(words: &[OsString]) -> Outcome<u8> {
    let index = words.get(1).and_then(|index| index.to_str()?.parse().ok());
    let (Some(memory), Some(index)) = (words.first(), index) else { return Ok(1) };
    Ok(match spillcast_core::capture::cost::serve(Path::new(memory), index) {
        Ok(()) => 0,
        Err(_) => 1,
    })
}
