//! A recording while it is written: its folder, its rows, and meta.json at the end.

use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use spillcast_core::capture::{Batch, NamedStacks, STACKS_PER_S};

use crate::failure::{Failure, Outcome};
use crate::file_sizes::{SizedFile, inputs_of, temp_of};
use crate::folder::{META, RecordingFolder, STACKS, cannot_write};
use crate::json::Document;
use crate::meta::KeptWaits;
use crate::parts::Bounds;
use crate::temp_places::temp_places;
use crate::writer::{Kept, Writer};

/// Writes one recording; removes everything if it is dropped before [`Output::publish`].
pub struct Output {
    folder: RecordingFolder,
    /// Writes its rows; None once they are finished.
    pub writer: Option<Writer>,
    zero_ns: i64,
    pub kept: Kept,
}

impl Output {
    /// Fails if no recording can be written at `path`.
    pub fn new(path: &Path, bounds: Bounds, share: bool, force: bool) -> Outcome<Output> {
        let folder = RecordingFolder::new(path, share, force)?;
        let writer = Writer::new(folder.path().to_owned(), bounds)
            .map_err(|error| cannot_write(path, &error))?;
        Ok(Output { folder, writer: Some(writer), zero_ns: 0, kept: Kept::default() })
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Adds the rows of a capture, unless the rows are finished.
    pub fn add_batch(&mut self, batch: &Batch) {
        self.writer.iter_mut().for_each(|writer| writer.add_batch(batch));
    }

    /// Writes a JSON document beside the rows.
    pub fn add_document(&self, name: &str, document: &Value) -> Outcome<()> {
        let path = self.folder().join(name);
        let write = || {
            fs::create_dir_all(self.folder())?;
            let mut file = fs::File::create(&path)?;
            file.write_all(document.text().as_bytes())?;
            file.write_all(b"\n")
        };
        write().map_err(|error| Failure::io(path.display(), &error))
    }

    /// Writes the sampled functions beside the rows, if there is room for them.
    pub fn add_stacks(&self, stacks: &NamedStacks) {
        let path = self.folder().join(STACKS);
        let write = || {
            let mut file = BufWriter::new(fs::File::create(&path)?);
            let schema = "spillcast.stacks/1";
            let document = StacksDocument { schema, samples_per_s: STACKS_PER_S, stacks };
            serde_json::to_writer(&mut file, &document)?;
            file.flush()
        };
        if write().is_err() {
            let _ = fs::remove_file(&path);
        }
    }

    /// Writes the Parquet files; times are relative to `zero_ns` after the start of the recording.
    pub fn finish_rows(&mut self, zero_ns: i64) -> Outcome<()> {
        if let Some(writer) = self.writer.take() {
            self.zero_ns = zero_ns;
            let failed = |error| Failure::io(self.folder.path().display(), &error);
            self.kept = writer.finish(zero_ns).map_err(failed)?;
        }
        Ok(())
    }

    /// Writes meta.json with the rows that were kept, and gives the recording its name.
    ///
    /// Returns the path and meta.json. `raw` of the given document describes rows that were thinned
    /// out earlier; `because` tells what else could not be kept.
    pub fn publish(
        mut self,
        mut meta: Map<String, Value>,
        because: Option<String>,
    ) -> Outcome<(PathBuf, Value)> {
        self.finish_rows(0)?;
        let kept = &self.kept;
        let raw = kept_waits(kept, self.zero_ns, meta.get("raw"), because);
        let before = meta.get("temp_before").and_then(|files| Vec::deserialize(files).ok());
        let before: Vec<SizedFile> = before.unwrap_or_default();
        let read = kept.other_files.iter().map(|(name, sums)| (name, sums.read_bytes));
        for (key, value) in [
            (
                "temp_before",
                json!(temp_of(before, |folder| kept.temp_folders.contains_key(folder))),
            ),
            ("inputs", json!(inputs_of(read))),
            ("temp_places", json!(temp_places(&kept.temp_folders))),
            ("temp_kinds", json!(kept.temp_kinds)),
            ("raw", json!(raw)),
            ("sums", json!(kept.sums)),
        ] {
            meta.insert(key.to_owned(), value);
        }
        let meta = Value::Object(meta);
        self.add_document(META, &meta)?;
        Ok((self.folder.publish()?, meta))
    }
}

fn kept_waits(
    kept: &Kept,
    zero_ns: i64,
    before: Option<&Value>,
    because: Option<String>,
) -> KeptWaits {
    let before = before.and_then(|raw| KeptWaits::deserialize(raw).ok()).unwrap_or_default();
    let seconds = |ns: i64| ns as f64 / 1e9;
    let slices_s = kept.slices_ns.as_ref().map(|slices| {
        // A slice that began before the run is cut to its part within the run.
        let of_run = slices.iter().filter(|(_, end)| *end > zero_ns);
        of_run
            .map(|(begin, end)| (seconds((begin - zero_ns).max(0)), seconds(end - zero_ns)))
            .collect()
    });
    KeptWaits {
        rows: kept.waits,
        rows_seen: kept.waits_seen.max(before.rows_seen),
        slices_s: slices_s.or(before.slices_s.filter(|slices: &Vec<_>| !slices.is_empty())),
        because: kept.because.clone().or(because).or(before.because),
    }
}

/// stacks.json: the functions that the observed threads ran; docs/schema.md describes each key.
#[derive(Serialize)]
struct StacksDocument<'a> {
    schema: &'static str,
    samples_per_s: f64,
    #[serde(flatten)]
    stacks: &'a NamedStacks,
}
