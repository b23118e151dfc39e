//! A program with known activity, which it reports: the observed one of benchmarks and tests.
//!
//! `observed KIND --dir DIR --count N [--threads T] [--processes P] [--rate CALLS_PER_S] [--seed S]
//! [--gate]` prints one line of JSON. With a gate it first prints `ready` and waits for a line on
//! stdin. The kinds are those of [`KINDS`].

mod account;
mod births;
mod files;
mod io;
mod options;
mod switches;

use std::process::ExitCode;
use std::time::Instant;

use account::{Account, Members};
use options::{Options, at_gate};
use serde_json::json;

type Kind = fn(&Options, &Account) -> std::io::Result<Members>;

const KINDS: &[(&str, Kind)] = &[
    ("reads", io::reads),
    ("mixed", io::mixed),
    ("threads", births::threads),
    ("forked", births::forked),
    ("idle", births::idle),
    ("files", files::files),
    ("switches", switches::switches),
];

fn main() -> ExitCode {
    match run() {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("observed: {error}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<String, Box<dyn std::error::Error>> {
    let options = Options::parse(std::env::args().skip(1))?;
    let known = KINDS.iter().find(|(name, _)| *name == options.kind);
    let (name, kind) = known.ok_or_else(|| {
        let names: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
        format!("{}: the kinds are {}", options.kind, names.join(", "))
    })?;
    let account = Account::shared()?;
    if options.gate {
        at_gate()?;
    }
    let begin = Instant::now();
    let reported = kind(&options, &account)?;
    let seconds = begin.elapsed().as_secs_f64();
    let cpu_s = account::cpu_s();
    let mut document =
        json!({ "kind": name, "seconds": seconds, "cpu_s": cpu_s, "calls": account.json() });
    reported.into_iter().for_each(|(key, value)| document[key] = value);
    Ok(document.to_string())
}
