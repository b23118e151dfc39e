//! Kernel filters by the names of threads: each new name opens events of its own, and no call
//! passes two of them.

use std::collections::BTreeSet;
use std::ffi::CString;

/// Beyond so many names, or openings, there is no filter.
const NAMES_MAX: usize = 16;
const OPENINGS_MAX: usize = 3;

/// The name of a thread as the kernel has it: 15 bytes at the most, no NUL.
pub type Name = Vec<u8>;

/// The names that are let through so far.
#[derive(Default)]
pub struct Names {
    known: BTreeSet<Name>,
    openings: usize,
    all: bool,
}

/// What further events must let through.
#[derive(Debug, PartialEq)]
pub enum Pass {
    These(Vec<Name>),
    AllBut(Vec<Name>),
}

impl Names {
    /// Asks for the threads called `names` too; None where they pass already.
    pub fn widen(&mut self, names: impl IntoIterator<Item = Name>) -> Option<Pass> {
        let new: BTreeSet<Name> = names.into_iter().filter(|n| !self.known.contains(n)).collect();
        if self.all || new.is_empty() {
            return None;
        }
        let many = self.openings == OPENINGS_MAX || self.known.len() + new.len() > NAMES_MAX;
        // A filter has no way to write a name with such a mark in it.
        if many || new.iter().flatten().any(|byte| matches!(byte, b'"' | b'\\')) {
            return self.widen_to_all();
        }
        self.openings += 1;
        self.known.extend(new.iter().cloned());
        Some(Pass::These(new.into_iter().collect()))
    }

    /// Asks for every thread there is; None where all pass already.
    pub fn widen_to_all(&mut self) -> Option<Pass> {
        let before = std::mem::replace(&mut self.all, true);
        (!before).then(|| Pass::AllBut(self.known.iter().cloned().collect()))
    }
}

impl Pass {
    /// The filter in the kernel's words, by the field that holds the name; None lets all through.
    pub fn filter(&self, field: &str) -> Option<CString> {
        let (names, compare, join) = match self {
            Pass::These(names) => (names, "==", " || "),
            Pass::AllBut(names) => (names, "!=", " && "),
        };
        let mut text = Vec::new();
        for name in names {
            if !text.is_empty() {
                text.extend_from_slice(join.as_bytes());
            }
            text.extend_from_slice(format!("{field} {compare} \"").as_bytes());
            text.extend_from_slice(name);
            text.push(b'"');
        }
        (!text.is_empty()).then(|| CString::new(text).expect("a name holds no NUL"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Vec<Name> {
        list.iter().map(|name| name.as_bytes().to_vec()).collect()
    }

    fn text(pass: Option<Pass>) -> Option<String> {
        pass?.filter("comm").map(|filter| filter.into_string().unwrap())
    }

    #[test]
    fn a_name_passes_once() {
        let mut known = Names::default();
        let first = known.widen(names(&["postgres", "duckdb", "postgres"]));
        assert_eq!(text(first).unwrap(), "comm == \"duckdb\" || comm == \"postgres\"");
        assert_eq!(known.widen(names(&["postgres"])), None);
        let second = known.widen(names(&["postgres", "my worker"]));
        assert_eq!(text(second).unwrap(), "comm == \"my worker\"");
        assert_eq!(
            text(known.widen_to_all()).unwrap(),
            "comm != \"duckdb\" && comm != \"my worker\" && comm != \"postgres\""
        );
        assert_eq!(known.widen(names(&["another"])), None);
    }

    #[test]
    fn too_many_names_and_unspeakable_ones_end_the_filter() {
        let many: Vec<Name> = (0..=NAMES_MAX).map(|n| format!("w{n}").into_bytes()).collect();
        assert_eq!(Names::default().widen(many), Some(Pass::AllBut(vec![])));
        assert_eq!(Names::default().widen(names(&["a\"b"])).unwrap().filter("comm"), None);
        let mut known = Names::default();
        for name in ["a", "b", "c"] {
            assert_eq!(known.widen(names(&[name])), Some(Pass::These(names(&[name]))));
        }
        assert_eq!(known.widen(names(&["d"])), Some(Pass::AllBut(names(&["a", "b", "c"]))));
    }
}
