//! `probe`: how a directory serves a recording's I/O, or any, as a storage.json.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use rustix::fs::statvfs;
use spillcast_core::probe::ProbeError;
use spillcast_core::probe::grid::{Grid, Options};

use crate::arguments::{Arguments, help};
use crate::like;
use crate::storage;
use spillcast_recording::Measured;
use spillcast_recording::failure::{Failure, Outcome};
use spillcast_recording::json::{Document, Value};

const TIME: Duration = Duration::from_secs(60);
/// Of what is free on a storage, files may take one part in so many.
const FREE_PARTS: u64 = 10;

/// What a probe may take: time, and bytes that its files hold at one moment.
pub struct Budget {
    pub time: Duration,
    pub bytes: Option<u64>,
}

impl Budget {
    fn of(directory: &Path, time: Duration) -> Budget {
        // A file system without limits says that it has no blocks.
        let disk = statvfs(directory).ok().filter(|disk| disk.f_blocks > 0);
        let bytes = disk.map(|disk| disk.f_bavail * disk.f_frsize / FREE_PARTS);
        Budget { time, bytes }
    }
}

/// Measures, and writes the document to `-o` or to stdout.
pub fn run(words: &[OsString]) -> Outcome<u8> {
    let valued = ["--output", "--budget", "--like"];
    let arguments = Arguments::read("probe", words, &valued, &["--psync", "--grid"])?;
    let [directory] = &arguments.words[..] else {
        return Err(Failure::usage("probe needs one directory to measure", help()));
    };
    let like = arguments.value("--like").map(Path::new);
    if like.is_some() && (arguments.has("--grid") || arguments.has("--psync")) {
        let text = "--like replays the calls that were recorded: leave out --grid and --psync";
        return Err(Failure::usage(text, help()));
    }
    let directory = Path::new(directory);
    if !directory.is_dir() {
        let text = format!("{}: there is no such directory", directory.display());
        return Err(Failure::usage(text, "create it on the storage you mean"));
    }
    let budget = Budget::of(directory, arguments.time("--budget")?.unwrap_or(TIME));
    let document = match like {
        Some(like) => like::document(directory, like, &budget)?,
        None => grid(directory, &budget, arguments.has("--psync"))?,
    };
    let text = document.text(1);
    match arguments.value("--output") {
        Some(path) => std::fs::write(path, format!("{text}\n"))
            .map_err(|error| Failure::io(path.display(), &error))?,
        None => println!("{text}"),
    }
    Ok(0)
}

/// The failure of a probe in a directory.
pub fn failure_in(directory: &Path, error: ProbeError) -> Failure {
    let failed = |text: String, hint| Failure { status: 1, ..Failure::usage(text, hint) };
    match error {
        ProbeError::Io { source, .. } if source.raw_os_error() == Some(libc::ENOSPC) => {
            let text = format!("{}: filled up during the probe", directory.display());
            failed(text, "free some space, or name a larger directory")
        }
        ProbeError::Io { .. } | ProbeError::Cancelled => failed(error.to_string(), ""),
        other => Failure::usage(other.to_string(), ""),
    }
}

/// Op by size, depth, pattern and access, without a recording.
fn grid(directory: &Path, budget: &Budget, psync: bool) -> Outcome<Value> {
    let dir = directory.to_owned();
    let options = Options { dir, budget: budget.time, budget_bytes: budget.bytes, psync };
    let outcome = Grid::new(options).and_then(|grid| grid.run());
    let outcome = outcome.map_err(|error| failure_in(directory, error))?;
    let mut measured = Measured::from(&outcome);
    measured.facts = measured
        .facts
        .with("budget_s", budget.time.as_secs_f64())
        .with("budget_bytes", budget.bytes)
        .with("directory", directory.to_string_lossy());
    Ok(storage::document(directory, "grid", measured))
}
