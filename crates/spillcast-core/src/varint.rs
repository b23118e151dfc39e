//! Whole numbers in as few bytes as possible: seven bits per byte, the lowest first.

use std::io::{self, Read};

pub fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a number that may be negative; small numbers of either sign are short.
pub fn put_signed(out: &mut Vec<u8>, number: i64) {
    put(out, ((number << 1) ^ (number >> 63)) as u64);
}

/// Errors: those of the input; UnexpectedEof at its end, InvalidData for more than 64 bits.
pub fn get(input: &mut impl Read) -> io::Result<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = get_byte(input)?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}

pub fn get_signed(input: &mut impl Read) -> io::Result<i64> {
    let number = get(input)?;
    Ok((number >> 1) as i64 ^ -((number & 1) as i64))
}

pub fn get_byte(input: &mut impl Read) -> io::Result<u8> {
    let mut byte = [0];
    input.read_exact(&mut byte)?;
    Ok(byte[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_integers_are_decoded_unchanged() {
        let numbers = [0, 1, -1, 63, 64, -64, -65, i64::MAX, i64::MIN, 1 << 40];
        let mut bytes = Vec::new();
        numbers.iter().for_each(|&number| put_signed(&mut bytes, number));
        let mut input = &bytes[..];
        for number in numbers {
            assert_eq!(get_signed(&mut input).unwrap(), number);
        }
        assert_eq!(get(&mut input).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(get(&mut &[0xff; 10][..]).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn small_integers_have_short_encodings() {
        let length = |number| {
            let mut bytes = Vec::new();
            put(&mut bytes, number);
            bytes.len()
        };
        assert_eq!([0, 127, 128, 16_383, 16_384, u64::MAX].map(length), [1, 1, 2, 2, 3, 10]);
    }
}
