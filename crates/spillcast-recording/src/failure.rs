//! A failure that a user can act on: the problem in one line, the remedy in another.

use std::io;

pub type Outcome<T> = Result<T, Failure>;

#[derive(Clone, Debug)]
pub struct Failure {
    pub kind: Kind,
    /// The exit status.
    pub status: u8,
    pub message: String,
    pub hint: String,
}

/// Kinds of failures, named like the classes of `spillcast.errors`, which give their codes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    CaptureUnavailable,
    ChoiceUnknown,
    InUse,
    OutputExists,
    OutputUnwritable,
    PathMissing,
    PathUnusable,
    PermissionDenied,
    ProcessMissing,
    ProgramMissing,
    SpaceInsufficient,
    UsageInvalid,
    WriteFailed,
}

impl Failure {
    /// Bad usage or bad input.
    pub fn of(kind: Kind, message: impl Into<String>, hint: impl Into<String>) -> Failure {
        Failure { kind, status: 2, message: message.into(), hint: hint.into() }
    }

    /// Bad usage or bad input without a kind of its own.
    pub fn usage(message: impl Into<String>, hint: impl Into<String>) -> Failure {
        Failure::of(Kind::UsageInvalid, message, hint)
    }

    /// An error of the system, and its place.
    pub fn io(place: impl std::fmt::Display, error: &io::Error) -> Failure {
        let message = format!("{place}: {}", reason(error));
        Failure { status: 1, ..Failure::of(Kind::WriteFailed, message, "") }
    }
}

/// The text of the system's error, without its number.
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}
