//! Streams of each codec: complete, truncated, and with only headers.

use super::*;

const TEXT: &str = "{\"Event\":\"SparkListenerLogStart\"}\n{\"Event\":\"other\"}\n";

fn text(packed: &[u8]) -> io::Result<String> {
    let mut text = String::new();
    unpacked(packed)?.read_to_string(&mut text).map(|_| text)
}

fn lz4_stream(blocks: &[&str]) -> Vec<u8> {
    let mut stream = Vec::new();
    for block in blocks {
        let packed = lz4_flex::block::compress(block.as_bytes());
        stream.extend_from_slice(LZ4);
        stream.push(0x25);
        stream.extend((packed.len() as u32).to_le_bytes());
        stream.extend((block.len() as u32).to_le_bytes());
        stream.extend([0; 4]);
        stream.extend(packed);
    }
    // An empty block ends the stream.
    stream.extend_from_slice(LZ4);
    stream.extend([0x15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    stream
}

fn snappy_stream(blocks: &[&str]) -> Vec<u8> {
    let mut stream = [SNAPPY, &[0, 0, 0, 1, 0, 0, 0, 1]].concat();
    for block in blocks {
        let packed = snap::raw::Encoder::new().compress_vec(block.as_bytes()).unwrap();
        stream.extend((packed.len() as u32).to_be_bytes());
        stream.extend(packed);
    }
    stream
}

#[test]
fn every_codec_is_unpacked() {
    let (first, second) = TEXT.split_at(20);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    io::Write::write_all(&mut gzip, TEXT.as_bytes()).unwrap();
    let gzip = gzip.finish().unwrap();
    assert_eq!(text(&[&gzip[..], &gzip[..]].concat()).unwrap(), TEXT.repeat(2));
    for packed in [
        TEXT.as_bytes().to_vec(),
        zstd::encode_all(TEXT.as_bytes(), 1).unwrap(),
        gzip,
        lz4_stream(&[first, second]),
        snappy_stream(&[first, second]),
    ] {
        assert_eq!(text(&packed).unwrap(), TEXT);
    }
}

#[test]
fn a_stream_of_headers_alone_is_empty() {
    let headers = [SNAPPY, &[0, 0, 0, 1, 0, 0, 0, 1]].concat().repeat(1 << 20);
    assert_eq!(text(&headers).unwrap(), "");
}

#[test]
fn a_short_text_is_not_compressed() {
    for short in ["", "x", "abc"] {
        assert_eq!(text(short.as_bytes()).unwrap(), short);
    }
}

#[test]
fn a_cut_stream_is_an_unexpected_end() {
    for packed in [lz4_stream(&[TEXT]), snappy_stream(&[TEXT])] {
        let error = text(&packed[..packed.len() / 2]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
