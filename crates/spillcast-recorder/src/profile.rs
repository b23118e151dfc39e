//! `profile`: groups the time of extended SQL traces at memory speed; prints JSON.

use std::ffi::OsString;
use std::path::PathBuf;

use spillcast_core::oracle::{Dictionary, Dimension, Options, Profile, ReadError, Reading, read};

use crate::arguments::{Arguments, HELP};
use crate::print_data;
use spillcast_recording::failure::{Failure, Outcome};
use spillcast_recording::json::{Document, Value, json};

/// Reads traces and prints the groups, those with the most time first.
pub fn run(words: &[OsString]) -> Outcome<u8> {
    let arguments = Arguments::read("profile", words, &["--by"], &["--json"])?;
    if arguments.words.is_empty() {
        return Err(Failure::usage("profile needs traces to read", HELP));
    }
    let by = dimensions(&arguments.value("--by").unwrap_or_default().to_string_lossy())?;
    let kinds = [Dimension::Event, Dimension::Call]
        .into_iter()
        .chain(by.iter().map(|dimension| dimension.1));
    let mut profile = Profile::new(kinds.collect());
    let paths: Vec<PathBuf> = arguments.words.iter().map(PathBuf::from).collect();
    let reading = read(&paths, &Options::default(), &mut profile).map_err(failure_of)?;
    print_data(document(&profile, &by, &reading).text()).map(|()| 0)
}

fn dimensions(text: &str) -> Outcome<Vec<(&'static str, Dimension)>> {
    let names = text.split(',').map(str::trim).filter(|name| !matches!(*name, "" | "event"));
    let known = |name| {
        Dimension::NAMED.into_iter().find(|(known, _)| known == &name).ok_or_else(|| {
            let all: Vec<&str> = Dimension::NAMED.iter().map(|(name, _)| *name).collect();
            Failure::usage(
                format!("--by {name}: there is no such column"),
                format!("give some of {}", all.join(", ")),
            )
        })
    };
    names.map(known).collect()
}

fn document(profile: &Profile, by: &[(&str, Dimension)], reading: &Reading) -> Value {
    let mut groups: Vec<_> = profile.groups().iter().collect();
    groups.sort_by_key(|(_, group)| std::cmp::Reverse(group.total_us));
    let names = &reading.dictionary;
    let rows = groups.iter().map(|(key, group)| {
        let event = key.get(Dimension::Event).map(|id| names.events.list()[id as usize].as_str());
        let mut row = json!({ "event": event, "call": key.call().map(|kind| kind.name()) });
        for &(title, dimension) in by {
            let value = match dimension {
                Dimension::Op => Value::from(key.op().name()),
                other => named(other, key.get(other), names),
            };
            row = row.with(title, value);
        }
        let buckets = group.buckets();
        row.with("count", group.count)
            .with("total_us", group.total_us)
            .with("min_us", group.min_us)
            .with("max_us", group.max_us)
            .with("p50_us", group.quantile_us(&buckets, 0.5))
            .with("p99_us", group.quantile_us(&buckets, 0.99))
    });
    let rows: Vec<Value> = rows.collect();
    let files = reading.files.iter().map(|file| {
        json!({ "lines": file.lines, "waits": file.waits, "damaged_lines": file.damages.count })
    });
    let (rows, files) = (Value::Array(rows), Value::Array(files.collect()));
    json!({ "schema": "spillcast.trace-groups/1", "rows": rows, "files": files })
}

fn named(dimension: Dimension, id: Option<i64>, names: &Dictionary) -> Value {
    match (dimension, id) {
        (Dimension::Sql, Some(id)) => names.sql.list()[id as usize].as_str().into(),
        (_, id) => id.into(),
    }
}

fn failure_of(error: ReadError) -> Failure {
    match error {
        ReadError::File { path, error } => {
            Failure { status: 2, ..Failure::io(path.display(), &error) }
        }
        other => Failure::usage(other.to_string(), "give extended SQL traces (event 10046)"),
    }
}
