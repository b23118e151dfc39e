//! The command line: options with or without a value, words, and a command after `--`.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use spillcast_recording::failure::{Failure, Outcome};

/// The remedy for a command line that is not understood.
pub const HELP: &str = "see: spillcast-recorder --help";

/// The arguments of a verb.
#[derive(Debug, Default)]
pub struct Arguments {
    options: Vec<(String, OsString)>,
    flags: Vec<String>,
    pub words: Vec<OsString>,
    /// The words after `--`.
    pub command: Vec<OsString>,
}

impl Arguments {
    /// Parses the arguments of `verb`: options in `valued` take one value each, `flags` none.
    pub fn read(
        verb: &str,
        given: &[OsString],
        valued: &[&str],
        flags: &[&str],
    ) -> Outcome<Arguments> {
        let mut arguments = Arguments::default();
        let mut parser = lexopt::Parser::from_args(given.iter().cloned());
        loop {
            // The words after `--` are a command with options of its own.
            if let Some(rest) = parser.try_raw_args()
                && rest.peek() == Some(OsStr::new("--"))
            {
                arguments.command = rest.skip(1).collect();
                return Ok(arguments);
            }
            let unread = |error: lexopt::Error| Failure::usage(error.to_string(), HELP);
            let name = match parser.next().map_err(unread)? {
                None => return Ok(arguments),
                Some(lexopt::Arg::Value(word)) => {
                    arguments.words.push(word);
                    continue;
                }
                Some(lexopt::Arg::Short('o')) => "--output".to_owned(),
                Some(lexopt::Arg::Short(letter)) => format!("-{letter}"),
                Some(lexopt::Arg::Long(name)) => format!("--{name}"),
            };
            if valued.contains(&name.as_str()) {
                let missing = |_| Failure::usage(format!("{name} needs a value"), HELP);
                let value = parser.value().map_err(missing)?;
                arguments.options.push((name, value));
            } else if flags.contains(&name.as_str()) {
                arguments.flags.push(name);
            } else {
                return Err(Failure::usage(format!("{verb} knows no {name}"), HELP));
            }
        }
    }

    /// The last value of an option.
    pub fn value<'a>(&'a self, name: &'a str) -> Option<&'a OsStr> {
        self.values(name).last()
    }

    /// All values of an option.
    pub fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a OsStr> {
        let named = self.options.iter().filter(move |(known, _)| known == name);
        named.map(|(_, value)| value.as_os_str())
    }

    pub fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|known| known == flag)
    }

    /// An integer of at least 1.
    pub fn number<T: std::str::FromStr + PartialOrd + Default>(
        &self,
        name: &str,
    ) -> Outcome<Option<T>> {
        let parsed = |value: &OsStr| {
            let number = value.to_str()?.parse().ok()?;
            (number > T::default()).then_some(number)
        };
        self.parsed(name, parsed, "give a whole number, 1 or more")
    }

    /// A time such as 5m, 10s or 9ms.
    pub fn time(&self, name: &str) -> Outcome<Option<Duration>> {
        let parsed = |value: &OsStr| duration(value.to_str()?);
        self.parsed(name, parsed, "give a time such as 5m, 30s, 9ms or 150us")
    }

    fn parsed<T>(
        &self,
        name: &str,
        parse: impl Fn(&OsStr) -> Option<T>,
        hint: &str,
    ) -> Outcome<Option<T>> {
        let Some(value) = self.value(name) else { return Ok(None) };
        match parse(value) {
            Some(parsed) => Ok(Some(parsed)),
            None => {
                Err(Failure::usage(format!("{name} {}: not understood", value.display()), hint))
            }
        }
    }
}

fn duration(text: &str) -> Option<Duration> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
    let (number, unit) = text.split_at(digits);
    let scale = match unit {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? * scale).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Outcome<Arguments> {
        let words: Vec<OsString> = line.split(' ').map(Into::into).collect();
        Arguments::read("record", &words, &["--output", "--duration", "--slices"], &["--json"])
    }

    #[test]
    fn options_words_and_a_command_are_distinguished() {
        let arguments = read("-o a.spill --duration=90ms x --json -- ls -l --json").unwrap();
        assert_eq!(arguments.value("--output").unwrap(), "a.spill");
        assert_eq!(arguments.time("--duration").unwrap().unwrap(), Duration::from_millis(90));
        assert_eq!(arguments.words, ["x"]);
        assert_eq!(arguments.command, ["ls", "-l", "--json"]);
        assert!(arguments.has("--json"));
    }

    #[test]
    fn unreadable_options_are_named() {
        for (line, wanted) in [("--slice 3", "knows no --slice"), ("-o", "--output needs a value")]
        {
            assert!(read(line).unwrap_err().message.contains(wanted));
        }
        for line in ["--duration 5", "--duration x", "--duration -1s"] {
            assert!(read(line).unwrap().time("--duration").is_err(), "{line}");
        }
        assert!(read("--slices 0").unwrap().number::<usize>("--slices").is_err());
    }
}
