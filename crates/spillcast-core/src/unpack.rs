//! The codecs that compress traces and event logs, recognised by their first bytes.
//!
//! Spark's `lz4` is the block stream of lz4-java and its `snappy` the stream of snappy-java;
//! neither is the frame format of the same name. A log of a running application ends within a
//! block.

use std::io::{self, BufReader, Cursor, Read};

const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";
const GZIP: &[u8] = b"\x1f\x8b";
const LZ4: &[u8] = b"LZ4Block";
const SNAPPY: &[u8] = b"\x82SNAPPY\0";
/// Bytes before the blocks of snappy-java: magic, version, compatible version.
const SNAPPY_HEADER_BYTES: usize = 16;
/// Bytes of an lz4-java block after its magic: method, packed and unpacked length, checksum.
const LZ4_HEADER_BYTES: usize = 13;
/// High bits of the method if the block is stored without compression.
const LZ4_STORED: u8 = 0x10;
/// Limit of a block: both codecs write 32 KiB or 64 KiB unless they are configured.
const BLOCK_BYTES_MAX: usize = 64 << 20;
/// Enough to distinguish the codecs.
const SNIFFED_BYTES: usize = 8;

/// The text of a trace or a log, unpacked as it is read; consecutive streams are joined.
pub fn unpacked<'a>(mut raw: impl Read + Send + 'a) -> io::Result<Box<dyn Read + Send + 'a>> {
    let mut head = Vec::with_capacity(SNIFFED_BYTES);
    raw.by_ref().take(SNIFFED_BYTES as u64).read_to_end(&mut head)?;
    let begins = |magic: &[u8]| head.starts_with(magic);
    let (zstd, gzip, lz4, snappy) = (begins(ZSTD), begins(GZIP), begins(LZ4), begins(SNAPPY));
    let whole = Cursor::new(head).chain(raw);
    Ok(if zstd {
        Box::new(zstd::Decoder::new(whole)?)
    } else if gzip {
        Box::new(flate2::read::MultiGzDecoder::new(whole))
    } else if lz4 {
        Box::new(Blocks::new(BufReader::new(whole), lz4_block))
    } else if snappy {
        let mut whole = BufReader::new(whole);
        whole.read_exact(&mut [0; SNAPPY_HEADER_BYTES])?;
        Box::new(Blocks::new(whole, snappy_block))
    } else {
        Box::new(whole)
    })
}

/// Appends the next block, unpacked; false at the end of the stream.
type NextBlock<R> = fn(&mut R, &mut Vec<u8>) -> io::Result<bool>;

/// A stream of blocks that are compressed separately.
struct Blocks<R> {
    packed: R,
    next: NextBlock<R>,
    block: Vec<u8>,
    taken: usize,
}

impl<R: Read> Blocks<R> {
    fn new(packed: R, next: NextBlock<R>) -> Blocks<R> {
        Blocks { packed, next, block: Vec::new(), taken: 0 }
    }
}

impl<R: Read> Read for Blocks<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.block.len() {
            self.block.clear();
            self.taken = 0;
            if !(self.next)(&mut self.packed, &mut self.block)? {
                return Ok(0);
            }
        }
        let length = into.len().min(self.block.len() - self.taken);
        into[..length].copy_from_slice(&self.block[self.taken..self.taken + length]);
        self.taken += length;
        Ok(length)
    }
}

fn lz4_block<R: Read>(packed: &mut R, block: &mut Vec<u8>) -> io::Result<bool> {
    let mut magic = [0; LZ4.len()];
    if !read_whole(packed, &mut magic)? {
        return Ok(false);
    }
    let mut header = [0; LZ4_HEADER_BYTES];
    packed.read_exact(&mut header)?;
    let length = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().unwrap()) as usize;
    let (packed_bytes, bytes) = (length(1), length(5));
    if magic != LZ4 || packed_bytes.max(bytes) > BLOCK_BYTES_MAX {
        return Err(damaged("an LZ4 block with a header of another format"));
    }
    let content = read_exactly(packed, packed_bytes)?;
    if header[0] & 0xf0 == LZ4_STORED {
        block.extend_from_slice(&content);
    } else {
        let text = lz4_flex::block::decompress(&content, bytes);
        block.extend(text.map_err(|error| damaged(&error.to_string()))?);
    }
    Ok(true)
}

fn snappy_block<R: Read>(packed: &mut R, block: &mut Vec<u8>) -> io::Result<bool> {
    let mut length = [0; 4];
    loop {
        if !read_whole(packed, &mut length)? {
            return Ok(false);
        }
        if length != SNAPPY[..4] {
            break;
        }
        // Data that was appended to a stream has another header.
        packed.read_exact(&mut [0; SNAPPY_HEADER_BYTES - 4])?;
    }
    let packed_bytes = u32::from_be_bytes(length) as usize;
    if packed_bytes > BLOCK_BYTES_MAX {
        return Err(damaged("a Snappy block of another format"));
    }
    let content = read_exactly(packed, packed_bytes)?;
    let bytes = snap::raw::decompress_len(&content).map_err(|error| damaged(&error.to_string()))?;
    if bytes > BLOCK_BYTES_MAX {
        return Err(damaged("a Snappy block of another format"));
    }
    let text = snap::raw::Decoder::new().decompress_vec(&content);
    block.extend(text.map_err(|error| damaged(&error.to_string()))?);
    Ok(true)
}

/// Fills `into`; returns false if the stream has ended before it.
fn read_whole(packed: &mut impl Read, into: &mut [u8]) -> io::Result<bool> {
    let first = packed.take(1).read(&mut into[..1])?;
    if first == 0 {
        return Ok(false);
    }
    packed.read_exact(&mut into[1..])?;
    Ok(true)
}

/// Reads `bytes` bytes, which take memory only as they arrive.
fn read_exactly(packed: &mut impl Read, bytes: usize) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    packed.take(bytes as u64).read_to_end(&mut content)?;
    if content.len() < bytes {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(content)
}

fn damaged(fault: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, fault.to_owned())
}

#[cfg(test)]
mod tests;
