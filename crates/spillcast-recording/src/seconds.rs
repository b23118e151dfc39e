//! A per-second row as files have it, and packed while a recording lasts.

use std::io::{self, Read};

use spillcast_core::capture::SecondRow;
use spillcast_core::varint::{get, get_byte, get_signed, put, put_signed};
use spillcast_core::wait::Op;

/// The waits that began in one second, of one op and size class.
#[derive(Clone, Debug, PartialEq)]
pub struct Second {
    /// Whole seconds since the start of the recording.
    pub second: i64,
    pub op: Op,
    pub temp: bool,
    pub size_class_bytes: i64,
    pub count: i64,
    pub bytes: i64,
    pub total_ns: i64,
    /// Middle of each bucket in ns, and how many waits it holds.
    pub latencies: Vec<(i64, i64)>,
}

impl From<&SecondRow> for Second {
    fn from(row: &SecondRow) -> Second {
        let buckets = row.histogram.buckets();
        Second {
            second: row.second,
            op: row.op,
            temp: row.temp,
            size_class_bytes: row.size_class_bytes as i64,
            count: row.histogram.count() as i64,
            bytes: row.bytes as i64,
            total_ns: row.histogram.total_ns() as i64,
            latencies: buckets.map(|(ns, count)| (ns as i64, count as i64)).collect(),
        }
    }
}

impl Second {
    pub fn pack(&self, out: &mut Vec<u8>) {
        out.push(self.op as u8 | (self.temp as u8) << 2);
        for number in [self.second, self.size_class_bytes, self.count, self.bytes, self.total_ns] {
            put_signed(out, number);
        }
        put(out, self.latencies.len() as u64);
        for &(ns, count) in &self.latencies {
            put_signed(out, ns);
            put_signed(out, count);
        }
    }

    /// Errors: those of the input; UnexpectedEof where it ends.
    pub fn unpack(input: &mut impl Read) -> io::Result<Second> {
        let flags = get_byte(input)?;
        let op = match flags & 3 {
            0 => Op::Read,
            1 => Op::Write,
            _ => Op::Null,
        };
        let mut next = || get_signed(input);
        let (second, size_class_bytes, count) = (next()?, next()?, next()?);
        let (bytes, total_ns) = (next()?, next()?);
        let buckets = get(input)?;
        let latencies = (0..buckets).map(|_| Ok((get_signed(input)?, get_signed(input)?)));
        let latencies = latencies.collect::<io::Result<_>>()?;
        let temp = flags & 4 != 0;
        Ok(Second { second, op, temp, size_class_bytes, count, bytes, total_ns, latencies })
    }
}
