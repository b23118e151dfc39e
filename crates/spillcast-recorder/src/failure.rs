//! What goes wrong, in one line, and what mends it in another.

use std::io;
use std::process::ExitCode;

pub type Outcome<T> = Result<T, Failure>;

/// A failure that a person can act on.
#[derive(Debug)]
pub struct Failure {
    pub status: u8,
    pub message: String,
    pub hint: String,
}

impl Failure {
    /// Bad usage or bad input.
    pub fn usage(message: impl Into<String>, hint: impl Into<String>) -> Failure {
        Failure { status: 2, message: message.into(), hint: hint.into() }
    }

    /// What the system refused, and where.
    pub fn io(place: impl std::fmt::Display, error: &io::Error) -> Failure {
        Failure { status: 1, message: format!("{place}: {}", reason(error)), hint: String::new() }
    }

    /// Says it on stderr.
    pub fn tell(&self) -> ExitCode {
        eprintln!("spillcast-recorder: {}", visible(&self.message));
        if !self.hint.is_empty() {
            eprintln!("  {}", visible(&self.hint));
        }
        ExitCode::from(self.status)
    }
}

/// What the kernel says, without its number.
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// Names of others may hold what a terminal obeys.
fn visible(text: &str) -> String {
    text.chars().map(|one| if one.is_control() { '?' } else { one }).collect()
}
