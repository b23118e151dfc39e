//! `emulate`: a directory with given latencies, while a command runs or until Ctrl-C.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use spillcast_core::emulate::{Emulation, OpStats};
use spillcast_core::storage::Model;

use crate::arguments::{Arguments, HELP};
use crate::record::stay;
use crate::signals;
use crate::{print_data, print_message};
use spillcast_recording::failure::{Failure, Outcome, reason};
use spillcast_recording::folder::PartialFolder;
use spillcast_recording::json::{Document, Value, json};
use spillcast_recording::target::{Target, environment};

const TICK: Duration = Duration::from_millis(100);

/// Mounts, waits, and prints the latencies achieved; returns the status of the command.
pub fn run(words: &[OsString]) -> Outcome<u8> {
    let valued = ["--read", "--write", "--servers", "--backing"];
    let arguments = Arguments::read("emulate", words, &valued, &["--page-cache"])?;
    let [mountpoint] = &arguments.words[..] else {
        return Err(Failure::usage("emulate needs one empty directory to mount at", HELP));
    };
    let (read, write) = (arguments.time("--read")?, arguments.time("--write")?);
    if read.is_none() && write.is_none() {
        let hint = "for example --read 9ms --write 4ms";
        return Err(Failure::usage("emulate needs --read or --write", hint));
    }
    let ns = |time: Option<Duration>| time.unwrap_or_default().as_nanos() as u64;
    let model =
        Model { servers: arguments.number("--servers")?, ..Model::fixed(ns(read), ns(write)) };
    signals::watch();
    let given = arguments.value("--backing").map(PathBuf::from);
    // The files are removed at the end, however it comes.
    let temporary = match given {
        Some(_) => None,
        None => Some(PartialFolder::temporary(&std::env::temp_dir().join("spillcast-recorder"))?),
    };
    let backing = given.as_deref().or(temporary.as_ref().map(|folder| folder.path.as_path()));
    let backing = backing.expect("one of them");
    let refused = |error| Failure { message: reason(&error), ..Failure::usage("", "") };
    let emulation =
        Emulation::mount(backing, Path::new(mountpoint), model, arguments.has("--page-cache"))
            .map_err(refused)?;
    print_message(format_args!("mounted at {}", mountpoint.display()));
    let status = serve(&emulation, &arguments.command)?;
    let stats = emulation.stats();
    let document = json!({
        "schema": "spillcast.recorder-emulation/1",
        "read": document_of(&stats.read),
        "write": document_of(&stats.write),
        "exit_status": if arguments.command.is_empty() { Value::Null } else { status.into() },
    });
    emulation.unmount().map_err(refused)?;
    print_data(document.text())?;
    Ok(status as u8)
}

/// Serves until the command ends, or until a signal or the unmount; returns the exit status.
fn serve(emulation: &Emulation, command: &[OsString]) -> Outcome<i32> {
    if command.is_empty() {
        while signals::take().is_none() && emulation.is_mounted().unwrap_or(false) {
            std::thread::sleep(TICK);
        }
        return Ok(0);
    }
    let mut target = Target::command(command, environment(&Vec::new()))?;
    target.release()?;
    stay(&mut target);
    let status = target.exit_status.unwrap_or(0);
    Ok(if status < 0 { 128 - status } else { status })
}

fn document_of(stats: &OpStats) -> Value {
    json!({
        "count": stats.achieved.count(),
        "bytes": stats.bytes,
        "total_ns": stats.achieved.total_ns(),
        "p50_ns": stats.achieved.quantile_ns(0.5),
        "p99_ns": stats.achieved.quantile_ns(0.99),
        "late": stats.late,
    })
}
