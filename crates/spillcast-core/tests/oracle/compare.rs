//! Converts the reader's rows to the slow reader's form, for comparison.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;

use spillcast_core::oracle::{
    Batch, Dictionary, Dimension, Options, Origin, Profile, ReadError, Reading, Rows, SessionId,
    Tables, read,
};

use super::slow::{Slow, SlowCall, SlowSession, SlowWait};

/// Reads a file into rows, and keeps all of them.
pub fn rows(path: &Path, options: &Options) -> Result<(Reading, Batch), ReadError> {
    let mut all = Batch::default();
    let mut take = |batch: Batch| {
        all.waits.extend(batch.waits);
        all.calls.extend(batch.calls);
        all.statements.extend(batch.statements);
        all.row_sources.extend(batch.row_sources);
        all.binds.extend(batch.binds);
    };
    let tables = Tables {
        waits: true,
        calls: true,
        statements: true,
        row_sources: true,
        binds: true,
        figures: true,
    };
    let mut sink = Rows::new(100, tables, |_: &Dictionary, batch| {
        take(batch);
        true
    });
    let reading = read(&[path.to_path_buf()], options, &mut sink)?;
    let rest = sink.finish();
    take(rest);
    Ok((reading, all))
}

/// Reads `bytes` with chunks of `chunk_bytes`; a file without trace lines has no rows.
pub fn fast(bytes: &[u8], lenient: bool, chunk_bytes: usize) -> Slow {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    let options = Options { lenient, chunk_bytes, ..Options::default() };
    match rows(file.path(), &options) {
        Ok((reading, batch)) => {
            check_profile(file.path(), &options, &reading, &batch);
            in_slow_form(&reading, batch)
        }
        Err(ReadError::NoTraceLines { .. }) => Slow::default(),
        Err(error) => panic!("{error}"),
    }
}

/// A profile by event reads only time and duration of waits, with the same result.
fn check_profile(path: &Path, options: &Options, reading: &Reading, batch: &Batch) {
    let mut profile = Profile::new(vec![Dimension::Event]);
    let profiled = read(&[path.to_path_buf()], options, &mut profile).unwrap();
    assert_eq!(profiled.files, reading.files);
    let mut totals = HashMap::<i64, (u64, i64)>::new();
    for (_, wait) in &batch.waits {
        let (count, total_us) = totals.entry(wait.event.into()).or_default();
        *count += 1;
        *total_us += wait.elapsed_us;
    }
    let groups = profile.groups().iter().filter_map(|(key, group)| {
        Some((key.get(Dimension::Event)?, (group.count, group.total_us)))
    });
    assert_eq!(groups.collect::<HashMap<_, _>>(), totals);
}

/// The slow reader's result for a file without waits and calls, with which nothing is compared.
pub fn without_rows(slow: Slow) -> Slow {
    let nothing = slow.waits.is_empty() && slow.calls.is_empty() && slow.waits_unmeasured == 0;
    if nothing { Slow::default() } else { slow }
}

fn in_slow_form(reading: &Reading, batch: Batch) -> Slow {
    let names = &reading.dictionary;
    let sql = |origin: Origin| origin.sql.map(|sql| names.sql.list()[sql as usize].clone());
    let session = |origin: Origin| of_id(names.sessions[origin.session]);
    let waits = batch.waits.iter().map(|&(origin, wait)| SlowWait {
        line: origin.line,
        event: names.events.list()[wait.event as usize].clone(),
        session: session(origin),
        sql: sql(origin),
        start_us: wait.start_us,
        elapsed_us: wait.elapsed_us,
        file: wait.file,
        blocks: wait.blocks,
        bytes: wait.bytes,
        object: wait.object.map(i64::from),
    });
    let calls = batch.calls.iter().map(|&(origin, call)| SlowCall {
        line: origin.line,
        kind: call.line.kind.name().to_string(),
        session: session(origin),
        sql: sql(origin),
        self_c_us: call.self_c_us,
        self_e_us: call.self_e_us,
        tim_us: call.line.tim,
    });
    let statements = batch
        .statements
        .into_iter()
        .map(|(origin, statement)| (origin.line, sql(origin).unwrap(), statement.text));
    let file = &reading.files[0];
    Slow {
        waits: waits.collect(),
        waits_unmeasured: file.waits_unmeasured,
        calls: calls.collect(),
        statements: statements.collect(),
        damaged_lines: file.damages.first.iter().map(|damage| damage.line).collect(),
        lines: file.lines,
        elapsed_us: elapsed(reading),
    }
}

fn elapsed(reading: &Reading) -> HashMap<SlowSession, i64> {
    let sessions = reading.files[0].sessions.iter();
    sessions
        .filter(|(_, times)| times.first_tim_us.is_some())
        .map(|(at, times)| (of_id(reading.dictionary.sessions[*at]), times.elapsed_us))
        .collect()
}

fn of_id(id: SessionId) -> SlowSession {
    (id.sid, id.serial, id.pid)
}
