//! I/O at offsets of files, cut into requests for lines.

use std::io;

use super::request::{CHUNK, Class, Flow, Request, Source};

/// Lines of one file.
const LINE_BITS: u32 = 40;

/// One read or write of a range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    pub time_s: u32,
    pub file: u32,
    pub offset: u64,
    pub bytes: u64,
    pub object: u32,
    pub query: u32,
    pub class: Class,
    pub ends_query: bool,
}

/// Rows in the order of time, and the size of the lines they are cut into.
pub struct Rows {
    rows: Vec<Row>,
    line_bytes: u64,
}

impl Rows {
    /// None where a row lies outside of what can be numbered: 2^40 lines of each of 2^24 files.
    pub fn new(rows: Vec<Row>, line_bytes: u64) -> Option<Rows> {
        let fits = |row: &Row| {
            let end = row.offset.checked_add(row.bytes);
            row.file < 1 << (64 - LINE_BITS)
                && end.is_some_and(|end| end.div_ceil(line_bytes) <= 1 << LINE_BITS)
        };
        rows.iter().all(fits).then_some(Rows { rows, line_bytes })
    }
}

impl Source for Rows {
    fn each(&self, take: &mut dyn FnMut(&[Request]) -> Flow) -> io::Result<()> {
        let mut chunk = Vec::with_capacity(CHUNK);
        for row in &self.rows {
            let end = row.offset + row.bytes;
            let mut at = row.offset;
            while at < end {
                let line = at / self.line_bytes;
                let next = ((line + 1) * self.line_bytes).min(end);
                chunk.push(Request {
                    key: u64::from(row.file) << LINE_BITS | line,
                    time_s: row.time_s,
                    bytes: (next - at) as u32,
                    object: row.object,
                    query: row.query,
                    class: row.class,
                    ends_query: row.ends_query && next == end,
                });
                at = next;
                if chunk.len() == CHUNK {
                    if take(&chunk).is_break() {
                        return Ok(());
                    }
                    chunk.clear();
                }
            }
        }
        if !chunk.is_empty() {
            let _ = take(&chunk);
        }
        Ok(())
    }
}
