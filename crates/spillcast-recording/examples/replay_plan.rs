//! Prints the steps that a replay of a recording takes, one a line, for tests to compare.
//!
//! `replay_plan RECORDING [slices]`; `slices` where not all waits were kept. With `count` in place of that it
//! prints how many there are.

use std::env;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use spillcast_core::probe::plan_of_waits;
use spillcast_core::thread_trace::Recorded;
use spillcast_core::wait::RowNames;
use spillcast_recording::read_waits;

fn main() -> io::Result<()> {
    let mut words = env::args().skip(1);
    let path = PathBuf::from(words.next().expect("a recording")).join("waits.parquet");
    let how = words.next().unwrap_or_default();
    let (mut names, mut waits) = (RowNames::default(), Vec::<Recorded>::new());
    read_waits(&path, &mut names, |wait| waits.push(wait.into()))?;
    let found = plan_of_waits(waits, &names.events, how != "slices");
    let mut out = BufWriter::new(io::stdout().lock());
    if how == "count" {
        return writeln!(out, "{}", found.plan.steps.len());
    }
    for step in &found.plan.steps {
        let change = step.change.map_or("-", |kind| kind.name());
        let after = step.after.map_or(-1, i64::from);
        writeln!(
            out,
            "{} {} {change} {} {} {} {} {after} {} {}",
            step.thread,
            step.op.name().unwrap_or("-"),
            step.file,
            step.offset,
            step.bytes,
            step.cpu_ns,
            step.after_cpu_ns,
            step.delay_ns,
        )?;
    }
    Ok(())
}
