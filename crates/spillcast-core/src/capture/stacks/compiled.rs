//! Functions that a runtime compiles while it runs (Java, Node.js, Python): named by the file that
//! perf reads, `/tmp/perf-PID.map`, if the runtime writes one.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;

use super::image::open_regular;
use crate::proc::{field, read_text};

const BYTES_MAX: u64 = 256 << 20;

/// A process that runs code that is not in any file.
pub(crate) struct Runtime {
    pid: i32,
    /// The id of the process in its own namespace, which differs in a container.
    inner_pid: i32,
    user: u32,
}

impl Runtime {
    pub fn of(pid: i32) -> Runtime {
        let status = read_text(format!("/proc/{pid}/status")).unwrap_or_default();
        let inner_pid = || field(&status, "NSpid:")?.split_whitespace().next_back()?.parse().ok();
        let user = fs::metadata(format!("/proc/{pid}")).map_or(u32::MAX, |meta| meta.uid());
        Runtime { pid, inner_pid: inner_pid().unwrap_or(pid), user }
    }

    /// Its functions by address, as far as the runtime has written them by now.
    pub fn functions(&self) -> Functions {
        let name = format!("tmp/perf-{}.map", self.inner_pid);
        let inside = open_regular(format!("/proc/{}/root/{name}", self.pid));
        let file = inside.or_else(|| open_regular(format!("/{name}"))).filter(|file| {
            // Only root and the owner of the process may name its functions.
            file.metadata().is_ok_and(|meta| [0, self.user].contains(&meta.uid()))
        });
        let text = file.and_then(|file| io::read_to_string(file.take(BYTES_MAX)).ok());
        Functions::parse(&text.unwrap_or_default())
    }
}

/// Start, end and name of functions, by address.
pub struct Functions(Vec<(u64, u64, String)>);

impl Functions {
    /// Parses lines of start, size and name.
    fn parse(text: &str) -> Functions {
        let number = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok();
        let function = |line: &str| {
            let mut words = line.splitn(3, ' ');
            let (start, size) = (number(words.next()?)?, number(words.next()?)?);
            Some((start, start.checked_add(size)?, words.next()?.to_owned()))
        };
        let mut functions: Vec<_> = text.lines().filter_map(function).collect();
        // Code may be replaced: the last version counts.
        functions.reverse();
        functions.sort_by_key(|function| function.0);
        functions.dedup_by_key(|function| function.0);
        Functions(functions)
    }

    pub(crate) fn name_at(&self, address: u64) -> Option<&str> {
        let after = self.0.partition_point(|function| function.0 <= address);
        let (_, end, name) = self.0.get(after.checked_sub(1)?)?;
        (address < *end).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_version_of_a_function_counts_and_gaps_are_unnamed() {
        let functions =
            Functions::parse("1000 20 LFoo;::bar\n0x1040 10 b c\ndamaged\n1000 30 new\n");
        assert_eq!(functions.name_at(0x102f), Some("new"));
        assert_eq!(functions.name_at(0x1030), None);
        assert_eq!(functions.name_at(0x1045), Some("b c"));
        assert_eq!(functions.name_at(0xfff), None);
    }
}
