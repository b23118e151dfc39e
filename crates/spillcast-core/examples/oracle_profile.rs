//! Profiles traces by event, and says how fast and in how much memory.
//!
//! `cargo run --release --example oracle_profile -- [--lenient] TRACE...`

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use spillcast_core::oracle::{Dimension, Options, Profile, read};

fn main() -> ExitCode {
    let (flags, paths): (Vec<_>, Vec<_>) =
        std::env::args().skip(1).partition(|arg| arg.starts_with("--"));
    let options = Options { lenient: flags.iter().any(|f| f == "--lenient"), ..Options::default() };
    let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
    let mut profile = Profile::new(vec![Dimension::Event, Dimension::Call]);
    let start = Instant::now();
    let reading = match read(&paths, &options, &mut profile) {
        Ok(reading) => reading,
        Err(error) => {
            eprintln!("oracle_profile: {error}");
            return ExitCode::from(2);
        }
    };
    let elapsed_s = start.elapsed().as_secs_f64();
    let mut groups: Vec<_> = profile.groups().iter().collect();
    groups.sort_by_key(|(_, group)| -group.total_us);
    println!(
        "{:<44} {:>10} {:>16} {:>12} {:>10}",
        "event", "count", "total us", "p50 us", "max line"
    );
    for (key, group) in groups {
        let event = key
            .get(Dimension::Event)
            .map(|event| &*reading.dictionary.events.list()[event as usize]);
        let name = event.or_else(|| key.call().map(|kind| kind.name())).unwrap_or_default();
        let median_us = group.histogram().quantile_ns(0.5) / 1_000;
        println!(
            "{name:<44} {:>10} {:>16} {median_us:>12} {:>10}",
            group.count, group.total_us, group.max_at.line
        );
    }
    for (path, file) in paths.iter().zip(&reading.files) {
        eprintln!(
            "{}: {} lines, {} waits, {} calls, {} statements, {} damaged",
            path.display(),
            file.lines,
            file.waits,
            file.calls,
            file.statements,
            file.damages.count
        );
        for damage in file.damages.first.iter().take(10) {
            eprintln!("  line {}: {}", damage.line, damage.what);
        }
        for (session, times) in &file.sessions {
            let id = reading.dictionary.sessions[*session];
            eprintln!(
                "  {id:?}: elapsed {} us, CPU {}, waits {}, idle {}, unaccounted-for {}",
                times.elapsed_us,
                times.cpu_us,
                times.wait_us,
                times.idle_us,
                times.unaccounted_us()
            );
        }
    }
    let bytes: u64 =
        paths.iter().filter_map(|path| std::fs::metadata(path).ok()).map(|m| m.len()).sum();
    eprintln!(
        "{elapsed_s:.3} s, {:.0} MB/s, peak {} MB",
        bytes as f64 / 1e6 / elapsed_s,
        peak_rss_bytes() / 1_000_000
    );
    ExitCode::SUCCESS
}

fn peak_rss_bytes() -> i64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: getrusage fills the structure it is given, and any bytes are a valid rusage.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    usage.ru_maxrss * 1_024
}
