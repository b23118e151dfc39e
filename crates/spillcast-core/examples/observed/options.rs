//! The command line, and its optional gate.

use std::io::BufRead;
use std::path::PathBuf;

#[derive(Clone)]
pub struct Options {
    pub kind: String,
    pub dir: PathBuf,
    pub count: u64,
    pub threads: u64,
    pub processes: u64,
    /// Rate of all threads together; None for as fast as possible.
    pub rate_per_s: Option<f64>,
    pub seed: u64,
    pub gate: bool,
}

impl Options {
    pub fn parse(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
        let mut options = Options {
            kind: words.next().ok_or("wants a KIND")?,
            dir: PathBuf::from("."),
            count: 1000,
            threads: 1,
            processes: 1,
            rate_per_s: None,
            seed: 1,
            gate: false,
        };
        while let Some(word) = words.next() {
            if word == "--gate" {
                options.gate = true;
                continue;
            }
            let value = words.next().ok_or(format!("{word} wants a value"))?;
            let bad = |_| format!("{word} {value}: no number");
            match word.as_str() {
                "--dir" => options.dir = PathBuf::from(&value),
                "--count" => options.count = value.parse().map_err(bad)?,
                "--threads" => options.threads = value.parse().map_err(bad)?,
                "--processes" => options.processes = value.parse().map_err(bad)?,
                "--seed" => options.seed = value.parse().map_err(bad)?,
                "--rate" => options.rate_per_s = Some(value.parse::<u32>().map_err(bad)?.into()),
                _ => return Err(format!("{word}: there is no such option")),
            }
        }
        Ok(options)
    }
}

/// Reports readiness, and waits for a line or the end of stdin.
pub fn at_gate() -> std::io::Result<()> {
    println!("ready");
    std::io::stdin().lock().read_line(&mut String::new())?;
    Ok(())
}
