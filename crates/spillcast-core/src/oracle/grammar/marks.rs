//! The grammar of marks between records: headers, releases, sessions and times of day.

use crate::oracle::digits::Text;
use crate::oracle::line::Mark;

/// Parses the rest of a line that starts with `*** `.
pub(super) fn stars(text: &mut Text) -> Mark {
    let pair = |text: &mut Text| {
        let sid = text.int()?;
        let serial = text.eat(b".").then(|| text.int())??;
        Some(Mark::Session { sid, serial })
    };
    if text.eat(b"SESSION ID:(") {
        pair(text).unwrap_or(Mark::Stars)
    } else if text.eat(b"[ Unix process pid: ") {
        text.int().map_or(Mark::Stars, |pid| Mark::Switch { pid })
    } else if text.eat(b"DUMP FILE SIZE IS LIMITED TO ") {
        Mark::SizeLimit
    } else {
        time(text).map_or(Mark::Stars, |local_us| Mark::Time { local_us })
    }
}

/// `2017-06-27 13:56:36.872`, or with a `T`; the rest, such as a time zone, is ignored.
fn time(text: &mut Text) -> Option<i64> {
    let mut parts = [0; 6];
    for (part, end) in parts.iter_mut().zip([&b"-"[..], b"-", b"T", b":", b":", b"."]) {
        *part = text.int().filter(|number| (0..10_000).contains(number))?;
        if !(text.eat(end) || end == b"T" && text.eat(b" ")) {
            return None;
        }
    }
    let digits = text.rest().iter().take(6).take_while(|byte| byte.is_ascii_digit()).count();
    let fraction = Text::new(&text.rest()[..digits]).int()?;
    let [year, month, day, hour, minute, second] = parts;
    let days = days_since_1970(year, month, day)?;
    let seconds = ((days * 24 + hour) * 60 + minute) * 60 + second;
    Some(seconds * 1_000_000 + fraction * 10i64.pow(6 - digits as u32))
}

/// Days by the Gregorian calendar; None for an impossible month or day.
fn days_since_1970(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Years that start in March end with the leap day.
    let year = if month <= 2 { year - 1 } else { year };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(
        365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + of_year
            - 719_468,
    )
}

/// `Trace file PATH.trc`, or `Dump file PATH.trc` before Oracle 11g.
pub(super) fn is_header(line: &[u8]) -> bool {
    (line.starts_with(b"Trace file ") || line.starts_with(b"Dump file "))
        && line.trim_ascii_end().ends_with(b".trc")
}

/// `Oracle9i Enterprise Edition Release 9.2.0.1.0 - Production`. A number that is cut or runs into
/// another line would make all times wrong by a factor of 10,000, so it is rejected.
pub(super) fn release(line: &[u8]) -> Option<Mark> {
    let at = memchr::memmem::find(line, b" Release ")?;
    let number = line[at + 9..].split(|&byte| byte == b' ').next()?;
    let mut release = [0; 4];
    let mut parts = 0;
    for part in number.split(|&byte| byte == b'.') {
        let part = std::str::from_utf8(part).ok()?.parse().ok()?;
        if let Some(place) = release.get_mut(parts) {
            *place = part;
        }
        parts += 1;
    }
    (parts >= 4).then_some(Mark::Release(release))
}
