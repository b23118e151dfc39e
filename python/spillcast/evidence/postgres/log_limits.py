"""Statements that failed, by a server's log, because their temp files met a limit."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from spillcast.evidence.postgres.log_entries import Entry
from spillcast.redaction import struck_text

_LIMITS = (
    (re.compile(r'temporary file size exceeds "(temp_file_limit)" (\(\w+\))'), "{} {}"),
    (
        re.compile(r"(?:pgsql_tmp|temporary file)[^\n]*: No space left on device()()"),
        "the device of its temp files",
    ),
    # DuckDB in the server.
    (
        re.compile(r"failed to offload data block[^(\n]*(\(.*\)).*'(\w+)' setting", re.DOTALL),
        "{1} {0}",
    ),
)
_LEVELS = ("ERROR", "FATAL", "PANIC", "LOG")


@dataclass(frozen=True)
class Exceeded:
    """A limit of temp files that calls of a statement met."""

    limit: str
    #: None where the log does not tell.
    query: str | None
    calls: int = 1


@dataclass
class ExceededLimits:
    """What the messages of a log tell, one after the other."""

    each: list[Exceeded] = field(default_factory=list)
    _unnamed: dict[str, int] = field(default_factory=dict)

    def take(self, session: str, entry: Entry) -> None:
        """A message, and the statement that stands below it."""
        if entry.level in _LEVELS:
            self._unnamed.pop(session, None)
            if (limit := _limit_of(entry.message)) is not None:
                self.each.append(Exceeded(limit, entry.query or None))
                self._unnamed[session] = len(self.each) - 1
        elif entry.level == "STATEMENT" and (at := self._unnamed.pop(session, None)) is not None:
            self.each[at] = replace(self.each[at], query=struck_text(entry.message))


def counted(each: Sequence[Exceeded]) -> list[Exceeded]:
    """One for each statement and limit, with the number of calls."""
    calls: dict[tuple[str, str | None], int] = {}
    for failure in each:
        key = failure.limit, failure.query
        calls[key] = calls.get(key, 0) + failure.calls
    return [Exceeded(limit, query, number) for (limit, query), number in calls.items()]


def _limit_of(message: str) -> str | None:
    matches = ((pattern.search(message), words) for pattern, words in _LIMITS)
    return next((words.format(*match.groups()) for match, words in matches if match), None)
