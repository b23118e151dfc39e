//! Writes JSON documents in ASCII, so that no text in them can control a terminal.

use serde::Serialize;
pub use serde_json::{Value, json};

/// A JSON value that becomes a document.
pub trait Document {
    /// Indented lines in ASCII, as Python writes them.
    fn text(&self) -> String;

    /// This object with one more key.
    fn with(self, key: &str, value: impl Serialize) -> Value;
}

impl Document for Value {
    fn text(&self) -> String {
        let text = format!("{self:#}");
        let mut ascii = String::with_capacity(text.len());
        for letter in text.chars() {
            match letter {
                // A line end within a text is already escaped.
                '\n' | ' '..='~' => ascii.push(letter),
                _ => letter
                    .encode_utf16(&mut [0; 2])
                    .iter()
                    .for_each(|unit| ascii.push_str(&format!("\\u{unit:04x}"))),
            }
        }
        ascii
    }

    fn with(mut self, key: &str, value: impl Serialize) -> Value {
        self[key] = json!(value);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_formatted_like_in_python() {
        let document = json!({
            "b": Some(1u64), "a": vec![0.5, 1e-7], "c": Option::<i64>::None,
            "d": {}, "e": "\u{1b}\"\\\u{1f600}\u{7f}", "f": f64::NAN,
        });
        let text = "{\n  \"b\": 1,\n  \"a\": [\n    0.5,\n    1e-7\n  ],\n  \"c\": null,\n  \"d\": {},\n  \
            \"e\": \"\\u001b\\\"\\\\\\ud83d\\ude00\\u007f\",\n  \"f\": null\n}";
        assert_eq!(document.text(), text);
    }
}
