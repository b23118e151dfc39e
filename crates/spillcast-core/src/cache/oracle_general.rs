//! Traces in libCacheSim's format oracleGeneral, plain or compressed by zstd.
//!
//! Records of 24 bytes, little-endian and packed: time (u32, s), id (u64), size (u32, bytes), and when
//! the id comes next (i64), which is not used here.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use super::request::{CHUNK, Class, Flow, Request, Source};

pub const RECORD_BYTES: usize = 24;

/// A file, read from its beginning each time. Each id is one line, whatever its size.
pub struct OracleGeneral {
    path: PathBuf,
}

impl OracleGeneral {
    pub fn new(path: &Path) -> OracleGeneral {
        OracleGeneral { path: path.to_owned() }
    }

    fn open(&self) -> io::Result<Box<dyn Read>> {
        let file = File::open(&self.path)?;
        if self.path.extension().is_some_and(|end| end == "zst") {
            return Ok(Box::new(zstd::Decoder::new(BufReader::with_capacity(1 << 17, file))?));
        }
        Ok(Box::new(file))
    }
}

impl Source for OracleGeneral {
    /// InvalidData where the last record is cut.
    fn each(&self, take: &mut dyn FnMut(&[Request]) -> Flow) -> io::Result<()> {
        let mut reader = self.open()?;
        let mut buffer = Vec::with_capacity(CHUNK * RECORD_BYTES);
        let mut requests = Vec::with_capacity(CHUNK);
        let mut records = 0u64;
        loop {
            buffer.clear();
            let mut chunk = reader.by_ref().take((CHUNK * RECORD_BYTES) as u64);
            let filled = chunk.read_to_end(&mut buffer)?;
            requests.clear();
            requests.extend(buffer.chunks_exact(RECORD_BYTES).map(request));
            records += requests.len() as u64;
            if filled % RECORD_BYTES != 0 {
                let fault = format!("record {} is cut: each has 24 bytes", records + 1);
                return Err(io::Error::new(io::ErrorKind::InvalidData, fault));
            }
            if filled == 0 || take(&requests).is_break() || filled < CHUNK * RECORD_BYTES {
                return Ok(());
            }
        }
    }
}

fn request(record: &[u8]) -> Request {
    let u32_at = |at: usize| u32::from_le_bytes(record[at..at + 4].try_into().unwrap_or_default());
    Request {
        key: u64::from_le_bytes(record[4..12].try_into().unwrap_or_default()),
        time_s: u32_at(0),
        bytes: u32_at(12),
        object: 0,
        query: 0,
        class: Class::Read,
        ends_query: false,
    }
}
