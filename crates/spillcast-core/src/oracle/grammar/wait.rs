//! The grammar of `WAIT #` lines, which make up most of a trace.

use crate::oracle::digits::{Text, find_near};
use crate::oracle::line::{Fault, Line, Role, WaitLine};

/// Whether text may follow the last figure of a wait line, as in running text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tail {
    Refused,
    Allowed,
}

/// Returns each wait within a line of running text.
pub(crate) fn waits_within(line: &[u8], figures: bool) -> impl Iterator<Item = (Line, &[u8])> {
    let starts = memchr::memmem::find_iter(line, b"WAIT #");
    starts.filter_map(move |at| wait(&mut Text::new(&line[at + 6..]), Tail::Allowed, figures).ok())
}

#[inline(always)]
pub(super) fn wait<'a>(
    text: &mut Text<'a>,
    tail: Tail,
    figures: bool,
) -> Result<(Line, &'a [u8]), Fault> {
    let cursor = text.int_if(figures).ok_or("WAIT without a cursor number")?;
    if !text.eat(b": nam=") {
        return Err("WAIT without nam=");
    }
    let event = event(text, tail).ok_or("WAIT without a quoted name followed by ela=")?;
    text.skip_spaces();
    let ela = text.int().ok_or("WAIT whose ela= is not a number")?;
    let mut params = [0; 3];
    let mut roles = [Role::Other; 3];
    for (param, role) in params.iter_mut().zip(&mut roles) {
        *role = self::role(text).ok_or("WAIT with less than three parameters")?;
        *param = text.int_if(figures).ok_or("WAIT with a parameter that is not a number")?;
    }
    let mut object = None;
    if text.eat(b" obj#=") {
        let number = text.int_if(figures).ok_or("WAIT whose obj#= is not a number")?;
        object = u32::try_from(number).ok();
    }
    let mut tim = 0;
    if text.eat(b" tim=") {
        tim = text.int().ok_or("WAIT whose tim= is not a number")?;
    }
    if tail == Tail::Refused {
        text.ended("WAIT with text after its last figure")?;
    }
    let wait = WaitLine { event: 0, cursor, ela, params, roles, object, tim };
    Ok((Line::Wait(wait), event))
}

/// The quoted name and the ` ela=` after it. If text may follow, quotes may also be typographic.
#[inline(always)]
fn event<'a>(text: &mut Text<'a>, tail: Tail) -> Option<&'a [u8]> {
    let (quote, quote_len) = match text.rest() {
        [quote @ (b'\'' | b'"'), ..] => (*quote, 1),
        [quote @ 0xe2, 0x80, 0x98..=0x9d, ..] if tail == Tail::Allowed => (*quote, 3),
        _ => return None,
    };
    let quoted = &text.rest()[quote_len..];
    let end = find_near(quoted, quote)?;
    *text = Text::new(quoted.get(end + quote_len..)?);
    text.eat(b" ela=").then(|| &quoted[..end])
}

/// Skips a parameter's name. The names of block I/O are tried in turn, which branch prediction
/// handles well; a search for the end of the name would stall.
#[inline(always)]
fn role(text: &mut Text) -> Option<Role> {
    // Unrolled, because a loop over names would call a comparison for each.
    macro_rules! known {
        ($($name:literal => $role:ident,)*) => {{
            $(if text.eat($name) {
                return Some(Role::$role);
            })*
        }};
    }
    match text.rest() {
        [b' ', b'f', ..] => known! {
            b" file number=" => File,
            b" first dba=" => Other,
            b" file#=" => File,
        },
        [b' ', b'b', ..] => known! {
            b" block cnt=" => Blocks,
            b" block#=" => Other,
            b" blocks=" => Blocks,
            b" bytes=" => Bytes,
        },
        [b' ', b'p', ..] => known! {
            b" p1=" => Unnamed,
            b" p2=" => Unnamed,
            b" p3=" => Unnamed,
        },
        [b' ', b'F', ..] => known! { b" File number=" => File, },
        _ => {}
    }
    text.eat(b" ").then(|| text.until(b'='))?.map(|_| Role::Other)
}
