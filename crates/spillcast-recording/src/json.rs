//! JSON documents, written: whatever texts hold, no terminal obeys it.

use std::fmt::Write as _;
use std::io;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Serializer;
use serde_json::ser::{Formatter, PrettyFormatter};
pub use serde_json::{Value, json};

/// A value of JSON that becomes a document.
pub trait Document {
    /// Lines that are indented by so many blanks a level.
    fn text(&self, indent: usize) -> String;

    /// This object with one more key.
    fn with(self, key: &str, value: impl Serialize) -> Value;
}

impl Document for Value {
    fn text(&self, indent: usize) -> String {
        let (mut out, blanks) = (Vec::new(), " ".repeat(indent));
        let lines = PrettyFormatter::with_indent(blanks.as_bytes());
        let written = self.serialize(&mut Serializer::with_formatter(&mut out, Ascii(lines)));
        written.expect("memory takes any document");
        String::from_utf8(out).expect("it is ASCII")
    }

    fn with(mut self, key: &str, value: impl Serialize) -> Value {
        self[key] = json!(value);
        self
    }
}

/// A part of a document as a type.
pub fn json_of<T: DeserializeOwned>(value: &Value) -> serde_json::Result<T> {
    T::deserialize(value)
}

/// As Python writes it: beyond ASCII by escapes alone.
struct Ascii<'a>(PrettyFormatter<'a>);

macro_rules! as_lines {
    ($($name:ident($($more:ident: $kind:ty)?);)*) => {$(
        fn $name<W: ?Sized + io::Write>(&mut self, out: &mut W $(, $more: $kind)?) -> io::Result<()> {
            self.0.$name(out $(, $more)?)
        }
    )*};
}

impl Formatter for Ascii<'_> {
    as_lines! {
        begin_array(); end_array(); begin_array_value(first: bool); end_array_value();
        begin_object(); end_object(); begin_object_key(first: bool); begin_object_value();
        end_object_value();
    }

    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        out: &mut W,
        text: &str,
    ) -> io::Result<()> {
        let mut escaped = String::with_capacity(text.len());
        for letter in text.chars() {
            match letter {
                ' '..='~' => escaped.push(letter),
                _ => {
                    for unit in letter.encode_utf16(&mut [0; 2]) {
                        let _ = write!(escaped, "\\u{unit:04x}");
                    }
                }
            }
        }
        out.write_all(escaped.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_written_as_python_writes_them() {
        let document = json!({
            "b": Some(1u64), "a": vec![0.5, 1e-7], "c": Option::<i64>::None,
            "d": {}, "e": "\u{1b}\"\\\u{1f600}\u{7f}", "f": f64::NAN,
        });
        let text = "{\n  \"b\": 1,\n  \"a\": [\n    0.5,\n    1e-7\n  ],\n  \"c\": null,\n  \"d\": {},\n  \
            \"e\": \"\\u001b\\\"\\\\\\ud83d\\ude00\\u007f\",\n  \"f\": null\n}";
        assert_eq!(document.text(2), text);
    }
}
