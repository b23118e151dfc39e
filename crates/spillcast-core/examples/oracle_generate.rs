//! Writes a trace of mostly waits, reproducible by seed.
//!
//! `cargo run --release --example oracle_generate -- MEGABYTES SEED PATH`

#[path = "../tests/oracle/writer.rs"]
#[allow(dead_code)]
mod writer;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::process::ExitCode;

use writer::Random;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let numbers = (args.first().map(|a| a.parse()), args.get(1).map(|a| a.parse()));
    let ((Some(Ok(megabytes)), Some(Ok(seed))), Some(path)) = (numbers, args.get(2)) else {
        eprintln!("usage: oracle_generate MEGABYTES SEED PATH");
        return ExitCode::from(2);
    };
    match write(megabytes, seed, path) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("oracle_generate: {path}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Events that occur occasionally while a hash join spills, and their parameters.
const RARE: [(&str, &str); 6] = [
    ("PGA memory operation", "p1=65536 p2=1 p3=0"),
    ("enq: KO - fast object checkpoint", "name|mode=1263468550 2=65571 0=1"),
    ("KSV master wait", "p1=0 p2=0 p3=0"),
    ("oracle thread bootstrap", "p1=0 p2=0 p3=0"),
    ("reliable message", "channel context=1 channel handle=2 broadcast message=3"),
    ("ASM file metadata operation", "msgop=33 locn=0 p3=0"),
];

/// A hash join that spills: reads and writes of temporary segments, related events, and
/// occasionally a rare event or a fetch.
fn write(megabytes: u64, seed: u64, path: &str) -> std::io::Result<()> {
    let random = &mut Random::new(seed);
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut tim = 25_786_537_823_120;
    let mut left = (megabytes * 1_000_000) as i64;
    let cursor = 140_691_456_823_824u64;
    out.write_all(
        b"Trace file /u01/trace/x_ora_1.trc\n\
          Oracle Database 19c Enterprise Edition Release 19.0.0.0.0 - Production\n\n\
          *** SESSION ID:(35.65385) 2024-03-26T16:08:36.086107-07:00\n",
    )?;
    while left > 0 {
        let ela = 50 + random.below(200) * random.below(100);
        tim += ela + random.below(500);
        let wait = |name: &str, params: &str| {
            format!("WAIT #{cursor}: nam='{name}' ela= {ela} {params} obj#=99574 tim={tim}\n")
        };
        let (file, dba) = (201 + random.below(12), random.below(4_000_000));
        let line = match random.below(100) {
            0..60 => wait(
                "direct path read temp",
                &format!("file number={file} first dba={dba} block cnt=31"),
            ),
            60..75 => wait(
                "direct path write temp",
                &format!("file number={file} first dba={dba} block cnt=31"),
            ),
            75..90 => wait("ASM IO for non-blocking poll", "count=8 where=1 timeout=0"),
            90..96 => wait("cell smart table scan", "cellhash#=3176594409 p2=0 p3=0"),
            96 if random.below(100) == 0 => {
                let (name, params) = RARE[random.below(RARE.len() as u64) as usize];
                wait(name, params)
            }
            96..98 => wait("SQL*Net message from client", "driver id=1413697536 #bytes=1 p3=0"),
            _ => format!(
                "FETCH #{cursor}:c={},e={ela},p=31,cr=4,cu=0,mis=0,r=10,dep=0,og=1,plh=1636480816,tim={tim}\n",
                ela / 3
            ),
        };
        left -= line.len() as i64;
        out.write_all(line.as_bytes())?;
    }
    out.flush()
}
