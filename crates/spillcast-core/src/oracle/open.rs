//! Opens a trace, plain or compressed; its first bytes decide which.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::Path;

const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Where a trace is read from.
pub type Source = Box<dyn Read + Send>;

/// Opens `path`.
pub fn open(path: &Path) -> io::Result<Source> {
    decompress(File::open(path)?)
}

/// Decompresses gzip and zstd, also several streams one behind the other; passes on anything else.
pub fn decompress(mut raw: impl Read + Send + 'static) -> io::Result<Source> {
    let mut head = Vec::with_capacity(ZSTD.len());
    raw.by_ref().take(ZSTD.len() as u64).read_to_end(&mut head)?;
    let is = |magic: &[u8]| head.starts_with(magic);
    let (gzip, zstd) = (is(&GZIP), is(&ZSTD));
    let whole = Cursor::new(head).chain(raw);
    Ok(if gzip {
        Box::new(flate2::read::MultiGzDecoder::new(whole))
    } else if zstd {
        Box::new(zstd::Decoder::new(whole)?)
    } else {
        Box::new(whole)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn the_first_bytes_decide() {
        let text = b"*** SESSION ID:(1.2)\n".repeat(1_000);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&text).unwrap();
        let gzip = gzip.finish().unwrap();
        let twice = [&gzip[..], &gzip[..]].concat();
        let zstd = zstd::encode_all(&text[..], 1).unwrap();
        for (packed, copies) in [(text.clone(), 1), (gzip, 1), (twice, 2), (zstd, 1)] {
            let mut read = Vec::new();
            decompress(Cursor::new(packed)).unwrap().read_to_end(&mut read).unwrap();
            assert_eq!(read, text.repeat(copies));
        }
    }

    #[test]
    fn a_short_file_is_plain() {
        for text in [&b""[..], b"x", b"abc"] {
            let mut read = Vec::new();
            decompress(Cursor::new(text)).unwrap().read_to_end(&mut read).unwrap();
            assert_eq!(read, text);
        }
    }
}
