//! JSON documents, written: keys stay in their order, and whatever texts hold, no terminal obeys it.

use std::fmt::Write;

/// A value of JSON.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    List(Vec<Value>),
    Object(Vec<(String, Value)>),
}

/// An object of keys and whatever becomes a value.
macro_rules! object {
    ($($key:literal : $value:expr),* $(,)?) => {
        $crate::json::Value::Object(vec![$(($key.to_owned(), $crate::json::Value::from($value))),*])
    };
}
pub(crate) use object;

impl Value {
    /// Lines that are indented by so many blanks a level.
    pub fn text(&self, indent: usize) -> String {
        let mut out = String::new();
        self.write(&mut out, indent, 0);
        out
    }

    /// This object with one more key.
    pub fn with(self, key: &str, value: impl Into<Value>) -> Value {
        match self {
            Value::Object(mut keys) => {
                keys.push((key.to_owned(), value.into()));
                Value::Object(keys)
            }
            other => other,
        }
    }

    fn write(&self, out: &mut String, indent: usize, level: usize) {
        match self {
            Value::Null => out.push_str("null"),
            Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Value::Int(value) => out.push_str(&value.to_string()),
            // JSON has no other numbers than finite ones.
            Value::Float(value) if !value.is_finite() => out.push_str("null"),
            Value::Float(value) => out.push_str(&format!("{value:?}")),
            Value::Text(text) => quote(out, text),
            Value::List(items) => {
                let items = items.iter().map(|item| (None, item));
                write_all(out, ['[', ']'], items, indent, level);
            }
            Value::Object(keys) => {
                let items = keys.iter().map(|(key, value)| (Some(key), value));
                write_all(out, ['{', '}'], items, indent, level);
            }
        }
    }
}

fn write_all<'a>(
    out: &mut String,
    [open, close]: [char; 2],
    items: impl ExactSizeIterator<Item = (Option<&'a String>, &'a Value)>,
    indent: usize,
    level: usize,
) {
    let empty = items.len() == 0;
    let line = |out: &mut String, level: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', indent * level));
    };
    out.push(open);
    for (place, (key, value)) in items.enumerate() {
        if place > 0 {
            out.push(',');
        }
        line(out, level + 1);
        if let Some(key) = key {
            quote(out, key);
            out.push_str(": ");
        }
        value.write(out, indent, level + 1);
    }
    if !empty {
        line(out, level);
    }
    out.push(close);
}

fn quote(out: &mut String, text: &str) {
    out.push('"');
    for one in text.chars() {
        match one {
            '"' | '\\' => out.extend(['\\', one]),
            ' '..='~' => out.push(one),
            _ => {
                for unit in one.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
    out.push('"');
}

impl From<bool> for Value {
    fn from(value: bool) -> Value {
        Value::Bool(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Value {
        Value::Float(value)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

macro_rules! from_whole {
    ($($kind:ty)*) => {$(
        impl From<$kind> for Value {
            fn from(value: $kind) -> Value {
                Value::Int(value as i64)
            }
        }
    )*};
}
from_whole! { i32 i64 u32 u64 usize }

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::Null, Into::into)
    }
}

impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(items: Vec<T>) -> Value {
        Value::List(items.into_iter().map(Into::into).collect())
    }
}

#[cfg(test)]
mod tests {

    #[test]
    fn documents_are_written_as_python_writes_them() {
        let document = object! {
            "a": Some(1u64), "b": vec![0.5, 1e-7], "c": Option::<i64>::None,
            "d": object! {}, "e": "\u{1b}\"\\\u{1f600}",
        };
        let text = "{\n  \"a\": 1,\n  \"b\": [\n    0.5,\n    1e-7\n  ],\n  \"c\": null,\n  \"d\": {},\n  \
            \"e\": \"\\u001b\\\"\\\\\\ud83d\\ude00\"\n}";
        assert_eq!(document.text(2), text);
    }
}
