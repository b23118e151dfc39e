//! Reads traces with bytes changed at random, for as long as asked, and compares the reader with
//! the slow one of the tests. The same seed gives the same traces.
//!
//! `cargo run --release --example oracle_fuzz -- SECONDS [SEED]`

#[path = "../tests/oracle/compare.rs"]
#[allow(dead_code)]
mod compare;
#[path = "../tests/oracle/slow.rs"]
mod slow;
#[path = "../tests/oracle/slow_line.rs"]
mod slow_line;
#[path = "../tests/oracle/writer.rs"]
mod writer;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use compare::{fast, without_rows};
use spillcast_core::oracle::KEPT_PER_FILE;
use writer::{PIECES, Random, Writer};

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<u64>());
    let (Some(Ok(seconds)), Ok(seed)) = (args.next(), args.next().unwrap_or(Ok(1))) else {
        eprintln!("usage: oracle_fuzz SECONDS [SEED]");
        return ExitCode::from(2);
    };
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut traces = 0;
    while Instant::now() < end {
        let case = seed.wrapping_add(traces);
        if !agree(case) {
            eprintln!("oracle_fuzz: the readers differ: oracle_fuzz 1 {case}");
            return ExitCode::FAILURE;
        }
        traces += 1;
    }
    println!("{traces} traces");
    ExitCode::SUCCESS
}

fn agree(case: u64) -> bool {
    let random = &mut Random::new(case);
    let bytes = changed(trace(random), random);
    let lenient = random.below(2) == 0;
    let chunk_bytes = [1, 64, 4_096][random.below(3) as usize];
    let mut expected = without_rows(slow::read(&bytes, lenient));
    expected.damaged_lines.truncate(KEPT_PER_FILE);
    let read = fast(&bytes, lenient, chunk_bytes);
    if read != expected {
        eprintln!("{}\nread {read:#?}\nnot {expected:#?}", String::from_utf8_lossy(&bytes));
    }
    read == expected
}

fn trace(random: &mut Random) -> Vec<u8> {
    let mut writer = Writer::default();
    for _ in 0..random.below(60) {
        writer.piece(random.below(u64::from(PIECES)) as u8, random.next());
    }
    writer.finish(random.below(5) == 0)
}

/// Bytes overwritten, taken out, doubled, and pieces moved.
fn changed(mut bytes: Vec<u8>, random: &mut Random) -> Vec<u8> {
    for _ in 0..random.below(30) {
        if bytes.is_empty() {
            break;
        }
        let at = random.below(bytes.len() as u64) as usize;
        let len = (random.below(40) as usize).min(bytes.len() - at);
        match random.below(5) {
            0 => bytes[at] = random.next() as u8,
            1 => bytes[at] = b"\n\r '\"=,#-0123456789"[random.below(19) as usize],
            2 => drop(bytes.drain(at..at + len)),
            3 => {
                let copy = bytes[at..at + len].to_vec();
                bytes.splice(at..at, copy);
            }
            _ => {
                let to = random.below(bytes.len() as u64) as usize;
                let piece = bytes[at..at + len].to_vec();
                bytes.splice(to..to, piece);
            }
        }
    }
    bytes
}
