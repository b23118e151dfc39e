"""The errors of spillcast: each with an exit status, a message and a remedy."""


class SpillcastError(Exception):
    """An error that a user can act on: what is wrong, where, and what fixes it."""

    exit_status = 1

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class InputError(SpillcastError):
    """Bad usage or bad input: a flag, a file, a process or a directory that cannot be used."""

    exit_status = 2


class Refusal(SpillcastError):
    """The evidence does not allow a forecast; the message is the reason."""

    exit_status = 3


def is_interruption(error: Exception) -> bool:
    """Whether it is what DuckDB makes of Ctrl-C in a query, or Python where it makes a class."""
    if isinstance(error.__cause__, KeyboardInterrupt):
        return True
    return isinstance(error, RuntimeError) and str(error) == "Query interrupted"


def first_line(error: Exception) -> str:
    """The message of a library's error, without its advice to programmers."""
    return next(iter(str(error).splitlines()), type(error).__name__)
