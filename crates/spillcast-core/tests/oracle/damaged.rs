//! Traces with random changes of bytes: the reader and the slow reader agree on them.
//!
//! A longer run: `TRACES_S=60 TRACES_SEED=1 cargo test --release --test oracle damaged`

use std::time::{Duration, Instant};

use spillcast_core::oracle::KEPT_PER_FILE;

use crate::compare::{fast, without_rows};
use crate::slow;
use crate::writer::{PIECES, Random, Writer};

/// Number of traces that are read even if the time is short.
const TRACES_MIN: u64 = 500;

#[test]
fn damaged_traces_are_read_like_by_the_slow_reader() {
    let given = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect(name));
    let seed = given("TRACES_SEED").unwrap_or(1);
    let end = Instant::now() + Duration::from_secs(given("TRACES_S").unwrap_or(0));
    let mut traces = 0;
    while traces < TRACES_MIN || Instant::now() < end {
        check(seed.wrapping_add(traces));
        traces += 1;
    }
    println!("{traces} traces");
}

fn check(seed: u64) {
    let random = &mut Random::new(seed);
    let bytes = changed(trace(random), random);
    let lenient = random.below(2) == 0;
    let chunk_bytes = [1, 64, 4_096][random.below(3) as usize];
    let mut expected = without_rows(slow::read(&bytes, lenient));
    expected.damaged_lines.truncate(KEPT_PER_FILE);
    let text = String::from_utf8_lossy(&bytes);
    assert_eq!(fast(&bytes, lenient, chunk_bytes), expected, "TRACES_SEED={seed}:\n{text}");
}

fn trace(random: &mut Random) -> Vec<u8> {
    let mut writer = Writer::default();
    for _ in 0..random.below(60) {
        writer.piece(random.below(u64::from(PIECES)) as u8, random.next());
    }
    writer.finish(random.below(5) == 0)
}

/// Overwrites, removes and duplicates bytes, and moves pieces.
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
