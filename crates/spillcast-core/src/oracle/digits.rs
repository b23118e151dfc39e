//! A cursor in a line of bytes that is parsed piece by piece, and decimal numbers at memory speed.

use super::line::Fault;

/// The unread rest of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text<'a> {
    bytes: &'a [u8],
}

impl<'a> Text<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Text { bytes }
    }

    pub fn rest(self) -> &'a [u8] {
        self.bytes
    }

    pub(crate) fn is_end(self) -> bool {
        self.bytes.is_empty()
    }

    /// Skips `expected` if it comes next; returns whether it did.
    #[inline(always)]
    pub(crate) fn eat(&mut self, expected: &[u8]) -> bool {
        match self.bytes.strip_prefix(expected) {
            Some(rest) => {
                self.bytes = rest;
                true
            }
            None => false,
        }
    }

    #[inline(always)]
    pub(crate) fn skip_spaces(&mut self) {
        while let [b' ', rest @ ..] = self.bytes {
            self.bytes = rest;
        }
    }

    /// Fails with `fault` unless only spaces are left.
    pub fn ended(&mut self, fault: Fault) -> Result<(), Fault> {
        self.skip_spaces();
        if self.is_end() { Ok(()) } else { Err(fault) }
    }

    /// The bytes before the next `end`, which is skipped; None if there is no `end`.
    #[inline(always)]
    pub fn until(&mut self, end: u8) -> Option<&'a [u8]> {
        let at = find_near(self.bytes, end)?;
        let matched = &self.bytes[..at];
        self.bytes = &self.bytes[at + 1..];
        Some(matched)
    }

    /// A decimal number with an optional minus. Unsigned addresses fill 64 bits and wrap around.
    #[inline(always)]
    pub fn int(&mut self) -> Option<i64> {
        let negative = self.eat(b"-");
        let number = self.bytes;
        let word = first_word(number) ^ ZEROS;
        let mut count = leading_digits(word);
        if count == 0 {
            return None;
        }
        let mut value = eight_digits(word << (64 - 8 * count));
        if count == 8 {
            loop {
                let word = first_word(&number[count..]) ^ ZEROS;
                let digits = leading_digits(word);
                if digits == 0 {
                    break;
                }
                let part = eight_digits(word << (64 - 8 * digits));
                value = value.wrapping_mul(POWER_OF_TEN[digits]).wrapping_add(part);
                count += digits;
                if digits < 8 {
                    break;
                }
            }
            if count > DIGITS_MAX {
                value = std::str::from_utf8(&number[..count]).ok()?.parse().ok()?;
            }
        }
        self.bytes = &number[count..];
        let value = value as i64;
        Some(if negative { value.wrapping_neg() } else { value })
    }

    /// A number as `int` reads it if it is `wanted`; otherwise skips it and returns 0.
    #[inline(always)]
    pub(crate) fn int_if(&mut self, wanted: bool) -> Option<i64> {
        if wanted {
            return self.int();
        }
        let sign = usize::from(self.bytes.first() == Some(&b'-'));
        let number = &self.bytes[sign..];
        let mut count = leading_digits(first_word(number) ^ ZEROS);
        if count == 8 {
            count += number[8..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            if count > DIGITS_MAX {
                return self.int().map(|_| 0);
            }
        }
        self.bytes = &number[count..];
        (count > 0).then_some(0)
    }
}

/// Index of the first `byte`. Compares eight bytes at a time, without the start-up cost of a vector
/// search, because the byte is usually near.
#[inline(always)]
pub(super) fn find_near(bytes: &[u8], byte: u8) -> Option<usize> {
    const LOW: u64 = 0x0101_0101_0101_0101;
    let mut at = 0;
    while at < bytes.len() {
        let different = first_word(&bytes[at..]) ^ (LOW * u64::from(byte));
        let matched = different.wrapping_sub(LOW) & !different & (LOW << 7);
        if matched != 0 {
            let matched = at + matched.trailing_zeros() as usize / 8;
            return Some(matched).filter(|&at| at < bytes.len());
        }
        at += 8;
    }
    None
}

/// The first eight bytes, the first one lowest; missing bytes are zero.
#[inline(always)]
fn first_word(bytes: &[u8]) -> u64 {
    if let Some((word, _)) = bytes.split_first_chunk() {
        return u64::from_le_bytes(*word);
    }
    // Two overlapping halves cover four to seven bytes.
    if let (Some((low, _)), Some((_, high))) = (bytes.split_first_chunk(), bytes.split_last_chunk())
    {
        let (low, high) = (u32::from_le_bytes(*low), u32::from_le_bytes(*high));
        return u64::from(low) | u64::from(high) << (8 * (bytes.len() - 4));
    }
    bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

/// Eight times the character '0'.
const ZEROS: u64 = 0x3030_3030_3030_3030;

/// More digits may exceed 64 bits.
const DIGITS_MAX: usize = 19;

const POWER_OF_TEN: [u64; 9] =
    [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

/// Number of leading digits of the eight bytes, from the lowest; each is a character xor '0'.
fn leading_digits(word: u64) -> usize {
    let others = (word.wrapping_add(0x7676_7676_7676_7676) | word) & 0x8080_8080_8080_8080;
    others.trailing_zeros() as usize / 8
}

/// The value of eight digits, the lowest byte first: pairs, then fours, then eight.
fn eight_digits(word: u64) -> u64 {
    const MASK: u64 = 0x0000_00ff_0000_00ff;
    let pairs = word.wrapping_mul(10).wrapping_add(word >> 8);
    let high = (pairs & MASK).wrapping_mul(100 + (1_000_000 << 32));
    let low = ((pairs >> 16) & MASK).wrapping_mul(1 + (10_000 << 32));
    high.wrapping_add(low) >> 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn integers_are_parsed_like_by_the_standard_library(value: i64, tail in "[^0-9]{0,12}") {
            let line = format!("{value}{tail}");
            let mut text = Text::new(line.as_bytes());
            prop_assert_eq!(text.int(), Some(value));
            prop_assert_eq!(text.rest(), tail.as_bytes());
        }

        #[test]
        fn unwanted_integers_are_skipped(number in "-?[0-9]{0,22}", tail in "[^0-9]{0,12}") {
            let line = format!("{number}{tail}");
            let (mut read, mut passed) = (Text::new(line.as_bytes()), Text::new(line.as_bytes()));
            prop_assert_eq!(passed.int_if(false), read.int().map(|_| 0));
            if Text::new(line.as_bytes()).int().is_some() {
                prop_assert_eq!(read.rest(), passed.rest());
            }
        }

        #[test]
        fn short_integers_are_parsed(value in 0u32..100_000) {
            prop_assert_eq!(Text::new(value.to_string().as_bytes()).int(), Some(i64::from(value)));
        }
    }

    proptest! {
        #[test]
        fn a_near_byte_is_found_at_its_position(bytes: Vec<u8>, byte: u8) {
            prop_assert_eq!(find_near(&bytes, byte), bytes.iter().position(|&b| b == byte));
        }
    }

    #[test]
    fn invalid_integers_are_refused() {
        for text in ["", "-", "x1", " 1", "99999999999999999999999"] {
            assert_eq!(Text::new(text.as_bytes()).int(), None, "{text}");
        }
        assert_eq!(Text::new(b"18446744073709551615").int(), Some(-1));
    }
}
