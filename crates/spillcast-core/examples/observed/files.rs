//! Files that are opened, written, closed and removed faster than polling can see them.

use std::fs;
use std::io::{self, Write};
use std::time::Instant;

use crate::account::{Account, Call, Members, median_ns};
use crate::io::{Pace, create};
use crate::options::Options;

const BYTES: usize = 4096;

/// Creates `count` files with one write each; returns their names and how long one is open.
pub fn files(options: &Options, account: &Account) -> io::Result<Members> {
    let block = [1u8; BYTES];
    let mut pace = Pace::new(options);
    let mut open_ns = Vec::new();
    for number in 0..options.count {
        pace.wait();
        let path = options.dir.join(format!("file-{number:06}.tmp"));
        let before = Instant::now();
        let mut file = create(&path)?;
        file.write_all(&block)?;
        drop(file);
        open_ns.push(before.elapsed().as_nanos() as u64);
        account.did(Call::Write, BYTES as u64, 0);
        fs::remove_file(&path)?;
    }
    Ok(vec![("names", "file-%06d.tmp".into()), ("open_median_ns", median_ns(&mut open_ns).into())])
}
