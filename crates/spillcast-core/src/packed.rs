//! Waits packed into some 25 bytes each: in memory until they are taken, on disk until a recording
//! ends.

use std::io::{self, Read};

use crate::varint::{get, get_byte, get_signed, put, put_signed};
use crate::wait::{NameId, Op, Wait};

/// Packed rows, one after the other.
#[derive(Clone, Debug, Default)]
pub struct Packed {
    bytes: Vec<u8>,
    rows: usize,
}

impl Packed {
    pub fn push(&mut self, wait: &Wait) {
        pack(wait, &mut self.bytes);
        self.rows += 1;
    }

    pub fn row_count(&self) -> usize {
        self.rows
    }

    pub(crate) fn size_bytes(&self) -> usize {
        self.bytes.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = Wait> + '_ {
        let mut rest = &self.bytes[..];
        std::iter::from_fn(move || {
            (!rest.is_empty()).then(|| unpack(&mut rest).expect("what was packed is whole"))
        })
    }
}

impl<'a> FromIterator<&'a Wait> for Packed {
    fn from_iter<I: IntoIterator<Item = &'a Wait>>(waits: I) -> Packed {
        let mut packed = Packed::default();
        waits.into_iter().for_each(|wait| packed.push(wait));
        packed
    }
}

pub fn pack(wait: &Wait, out: &mut Vec<u8>) {
    let name = |id: Option<NameId>| id.map(i64::from);
    let optional = [
        name(wait.file),
        wait.offset,
        wait.bytes,
        wait.cpu_before_ns,
        wait.woken_by,
        name(wait.sql_id),
        wait.object,
        wait.line,
    ];
    let present = optional.iter().enumerate().map(|(at, value)| (value.is_some() as u8) << at);
    let blocked = wait.blocked.map_or(0, |blocked| 1 + blocked as u8);
    out.push(wait.op as u8 | (wait.temp as u8) << 2 | blocked << 3);
    out.push(present.sum());
    put_signed(out, wait.start_ns);
    put_signed(out, wait.elapsed_ns);
    put_signed(out, wait.session);
    put(out, wait.event.into());
    optional.into_iter().flatten().for_each(|value| put_signed(out, value));
}

/// Reads the next row.
///
/// Errors: those of the input; UnexpectedEof at its end, InvalidData if it is not a row.
pub fn unpack(input: &mut impl Read) -> io::Result<Wait> {
    let (flags, present) = (get_byte(input)?, get_byte(input)?);
    let op = Op::of_number(flags & 3);
    let span = (get_signed(input)?, get_signed(input)?);
    let session = get_signed(input)?;
    let event = get(input)? as NameId;
    let mut next = |at: u8| match present >> at & 1 {
        0 => Ok(None),
        _ => get_signed(input).map(Some),
    };
    let name = |id: Option<i64>| id.map(|id| id as NameId);
    Ok(Wait {
        temp: flags & 4 != 0,
        blocked: [None, Some(false), Some(true)].get(usize::from(flags >> 3)).copied().flatten(),
        file: name(next(0)?),
        offset: next(1)?,
        bytes: next(2)?,
        cpu_before_ns: next(3)?,
        woken_by: next(4)?,
        sql_id: name(next(5)?),
        object: next(6)?,
        line: next(7)?,
        ..Wait::new(session, event, op, span)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    prop_compose! {
        fn any_wait()(
            (start_ns, elapsed_ns, session, event) in any::<(i64, i64, i64, NameId)>(),
            op in prop_oneof![Just(Op::Read), Just(Op::Write), Just(Op::Null)],
            (temp, blocked, file, sql_id) in any::<(bool, Option<bool>, Option<u32>, Option<u32>)>(),
            (offset, bytes, cpu_before_ns) in any::<(Option<i64>, Option<i64>, Option<i64>)>(),
            (woken_by, object, line) in any::<(Option<i64>, Option<i64>, Option<i64>)>(),
        ) -> Wait {
            Wait {
                start_ns, elapsed_ns, session, event, op, temp, file, offset, bytes, blocked,
                cpu_before_ns, woken_by, sql_id, object, line,
            }
        }
    }

    proptest! {
        #[test]
        fn packed_rows_are_unpacked_unchanged(waits in prop::collection::vec(any_wait(), 0..20)) {
            let packed: Packed = waits.iter().collect();
            prop_assert_eq!(packed.row_count(), waits.len());
            prop_assert!(packed.iter().eq(waits.iter().cloned()));
        }
    }

    #[test]
    fn a_typical_row_is_small() {
        let hour_ns = 3_600_000_000_000;
        let wait = Wait {
            temp: true,
            file: Some(3),
            offset: Some(1 << 30),
            bytes: Some(262_144),
            blocked: Some(true),
            cpu_before_ns: Some(300_000),
            ..Wait::new(123_456, 1, Op::Read, (hour_ns, 1_000_000))
        };
        let packed: Packed = [&wait].into_iter().collect();
        assert!(packed.size_bytes() <= 30, "{} bytes", packed.size_bytes());
    }

    #[test]
    fn a_truncated_row_is_an_error() {
        let mut bytes = Vec::new();
        pack(&Wait::new(1, 0, Op::Null, (1_000, 1)), &mut bytes);
        for end in 0..bytes.len() {
            let error = unpack(&mut &bytes[..end]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        }
    }
}
