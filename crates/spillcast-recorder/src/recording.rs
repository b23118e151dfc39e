//! An existing recording: its meta.json, and its waits as a plan for a replay.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;
use spillcast_core::probe::{FromWaits, plan_of_waits};
use spillcast_core::thread_trace::{Recorded, Slices};
use spillcast_core::wait::RowNames;
use spillcast_recording::read_waits;

use spillcast_recording::failure::{Failure, Outcome, reason};

const SCHEMA: &str = "spillcast.recording/1";
const AGAIN: &str = "copy the whole folder again from where it was recorded, or record again";

/// meta.json of a recording.
pub struct Recording {
    path: PathBuf,
    meta: Value,
}

impl Recording {
    /// Fails with the reason if it is not a complete recording with I/O.
    pub fn open(path: &Path) -> Outcome<Recording> {
        let bad = |fault: &str, hint: &str| {
            Err(Failure::usage(format!("{}: {fault}", path.display()), hint))
        };
        let name = path.join("meta.json");
        let text = match fs::read_to_string(&name) {
            Ok(text) => text,
            Err(_) if !path.exists() => {
                return bad("no such recording", "make one with: spillcast-recorder record");
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return bad("another user's recording, readable only by them", "become that user");
            }
            Err(_) => {
                let hint = "traces, plans and reports are replayed by: spillcast probe --like";
                return bad("not a recording, or an incomplete one: it has no meta.json", hint);
            }
        };
        let Ok(meta) = serde_json::from_str::<Value>(&text) else {
            return bad("meta.json is not JSON", AGAIN);
        };
        if meta["schema"] != SCHEMA {
            let fault = format!("schema is {}, this recorder reads {SCHEMA:?}", meta["schema"]);
            return bad(&fault, "use the spillcast that made it, or record again");
        }
        if !meta["perturbation"].is_null() {
            return bad("its run was delayed on purpose", "record again");
        }
        if meta["capture"]["method"].as_str().is_none_or(|method| method == "none") {
            return bad("holds no I/O", "a plan in it is replayed by: spillcast probe --like");
        }
        Ok(Recording { path: path.to_owned(), meta })
    }

    pub fn name(&self) -> String {
        let absolute = self.path.canonicalize().unwrap_or_default();
        let name = self.path.file_name().or(absolute.file_name()).unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// The page cache that the engine could have used; None if the recording does not show it.
    pub fn cache_bytes(&self) -> Option<u64> {
        let (memory, machine) = (&self.meta["memory"], &self.meta["machine"]);
        let taken = memory["peak_rss_bytes"].as_u64().unwrap_or(0);
        // The bytes held by a group count shared pages once, and include its other processes.
        let held = memory["group_held_bytes"].as_u64().unwrap_or(taken);
        let room = |of: &Value, less: u64| of.as_u64().map(|bytes| bytes.saturating_sub(less));
        let rooms =
            [room(&machine["memory_available_bytes"], taken), room(&memory["limit_bytes"], held)];
        rooms.into_iter().flatten().min()
    }

    /// The parts of the run whose waits were kept; None if all were.
    fn slices_ns(&self) -> Option<Vec<(i64, i64)>> {
        let slices = self.meta["raw"]["slices_s"].as_array()?;
        let ns = |seconds: &Value| Some((seconds.as_f64()? * 1e9).round_ties_even() as i64);
        slices.iter().map(|slice| Some((ns(&slice[0])?, ns(&slice[1])?))).collect()
    }

    /// The plan of its threads' I/O on temp files, with the work in between if known.
    pub fn plan(&self) -> Outcome<FromWaits> {
        let path = self.path.join("waits.parquet");
        let bad = |fault: String| Failure::usage(format!("{}: {fault}", path.display()), AGAIN);
        let raw = &self.meta["raw"];
        let mut names = RowNames::default();
        let mut waits: Vec<Recorded> = Vec::new();
        let (mut bytes, mut ns) = (0, 0);
        let read = read_waits(&path, &mut names, |wait| {
            bytes += wait.bytes.unwrap_or(0);
            ns += wait.elapsed_ns;
            waits.push(wait.into());
        });
        read.map_err(|error| bad(reason(&error)))?;
        let sums = &self.meta["sums"];
        for (quantity, read, counted) in [
            ("waits", waits.len() as i64, &raw["rows"]),
            ("bytes", bytes, &sums["waits_bytes"]),
            ("ns of waits", ns, &sums["waits_ns"]),
        ] {
            if let Some(counted) = counted.as_i64().filter(|&counted| counted != read) {
                return Err(bad(format!(
                    "it holds {read} {quantity}, and meta.json counts {counted}"
                )));
            }
        }
        if !waits.iter().any(Recorded::moves) {
            let text = format!("{}: holds no temp I/O to replay", self.path.display());
            return Err(Failure::usage(text, "measure the directory alone: leave out --like"));
        }
        let slices_ns = self.slices_ns().unwrap_or_default();
        Ok(plan_of_waits(waits, &names.events, Slices(&slices_ns)))
    }
}
