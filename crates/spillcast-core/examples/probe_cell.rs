//! Measures one cell of the grid on an existing file, for comparison with other tools.
//!
//! `cargo run --release --example probe_cell -- FILE read|write BYTES DEPTH
//! random|sequential direct|buffered SECONDS [psync]` prints one line of JSON.

use std::fs::OpenOptions;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;
use spillcast_core::probe::grid::{Cell, measure_file};
use spillcast_core::probe::{Access, Pattern};
use spillcast_core::wait::Op;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match measured(&arguments) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("probe_cell: {error}");
            ExitCode::from(2)
        }
    }
}

fn measured(arguments: &[String]) -> Result<String, Box<dyn std::error::Error>> {
    let [path, op, bytes, depth, pattern, access, seconds, rest @ ..] = arguments else {
        return Err("wants FILE OP BYTES DEPTH PATTERN ACCESS SECONDS [psync]".into());
    };
    let cell = Cell {
        op: if op == "write" { Op::Write } else { Op::Read },
        bytes: bytes.parse()?,
        depth: depth.parse()?,
        pattern: if pattern == "random" { Pattern::Random } else { Pattern::Sequential },
        access: if access == "direct" { Access::Direct } else { Access::Buffered },
    };
    let duration = Duration::try_from_secs_f64(seconds.parse()?)?;
    let file = OpenOptions::new().read(true).write(cell.op == Op::Write).open(path)?;
    let psync = rest.iter().any(|word| word == "psync");
    let (group, refusal) = measure_file(&file, cell, duration, psync)?;
    let elapsed_s = group.elapsed_ns.unwrap_or(0) as f64 / 1e9;
    let document = json!({
        "count": group.histogram.count(),
        "iops": group.histogram.count() as f64 / elapsed_s,
        "p50_ns": group.histogram.quantile_ns(0.5),
        "p99_ns": group.histogram.quantile_ns(0.99),
        "io_uring": refusal.is_none(),
    });
    Ok(document.to_string())
}
