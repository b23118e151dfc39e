"""The database and the day of evidence, according to the evidence itself."""

import re
from dataclasses import dataclass
from pathlib import Path

from spillcast.evidence.oracle.trace_header import head_of
from spillcast.fleet.schema import UNKNOWN
from spillcast.recording.meta import Meta

# diag/rdbms/UNIQUE_NAME/INSTANCE/trace: the name that all instances of a database share.
_PATH = re.compile(rb"^Trace file \S*/rdbms/([^/\s]+)/[^/\s]+/trace/", re.MULTILINE)
_INSTANCE = re.compile(rb"^Instance name: (\S+)", re.MULTILINE)
_HOST = re.compile(rb"^Node name:\s*(\S+)", re.MULTILINE)
_DAY = re.compile(rb"^\*\*\* .*?(\d{4}-\d{2}-\d{2})[ T]\d{2}:\d{2}:\d{2}", re.MULTILINE)


@dataclass(frozen=True)
class Identity:
    """Names a database as its evidence does, and the day on which the evidence begins.

    ``instance`` and ``host`` tell two databases of one name apart; empty where they are not known.
    """

    database: str = UNKNOWN
    host: str = ""
    instance: str = ""
    day: str = UNKNOWN

    def named(self, database: str | None) -> "Identity":
        """The same identity under a given name."""
        if database is None:
            return self
        return Identity(database, self.host, self.instance, self.day)


def of_trace(path: Path) -> Identity:
    """The identity in the header of a trace; ``unknown`` for missing parts."""
    head = head_of(path)
    instance = _first_match(_INSTANCE, head)
    name = _first_match(_PATH, head) or instance
    return Identity(
        name or UNKNOWN,
        _first_match(_HOST, head) or "",
        instance or "",
        _first_match(_DAY, head) or UNKNOWN,
    )


def of_recording(meta: Meta) -> Identity:
    """The database server's name for its database, or else the engine's name."""
    host, day = meta.machine.host or "", (meta.started_at or UNKNOWN)[:10]
    server = meta.engine.server
    if server is None:
        return Identity(meta.engine.name or UNKNOWN, host, day=day)
    return Identity(server.dbname or meta.engine.name, server.host or host, str(server.port), day)


def _first_match(pattern: re.Pattern[bytes], head: bytes) -> str | None:
    match = pattern.search(head)
    return None if match is None else match[1].decode("utf-8", "replace")
