"""What a server counted between two looks; what was reset meanwhile counts from its reset on."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from spillcast.engines.postgres.rank.look import Look, load
from spillcast.engines.ranking import DatabaseSpill
from spillcast.errors import ServerUnsuited
from spillcast.units import parse_duration_s

#: Of whom a row counts.
_KEY = ("userid", "dbid", "queryid", "toplevel")


def check_since(since: str) -> None:
    """InputError for what is neither a file nor a time."""
    if not os.path.isfile(since):
        parse_duration_s(since, "--since")


def since_look(
    since: str,
    look: Look,
    again: Callable[[], Look],
    wait: Callable[[float], None] = time.sleep,
) -> Look:
    """From the look of a file to this one, or from this one to another after a ``wait``."""
    if os.path.isfile(since):
        before = load(Path(since))
        if None not in (before.server, look.server) and before.server != look.server:
            hint = "name one of this server, or wait for a second look: --since 10m"
            raise ServerUnsuited(f"--since {since} is of another server", hint)
        return between(before, look)
    seconds = parse_duration_s(since, "--since")
    wait(seconds)
    return between(look, again())


def between(before: Look, after: Look) -> Look:
    """Counts of the time between both, as a look whose window begins with the first."""
    was = {_key(row): row for row in before.rows}
    rows = [_less(row, was.get(_key(row))) for row in after.rows]
    reset = after.since_s is not None and after.since_s > before.taken_s
    return replace(
        after,
        since_s=after.since_s if reset else before.taken_s,
        rows=[row for row in rows if row.get("calls")],
        elapsed_s=_number_less(after.elapsed_s, before.elapsed_s),
        databases=_databases_less(after, before),
        data_read_s=_number_less(after.data_read_s, before.data_read_s),
    )


def _less(row: Mapping[str, Any], was: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """A row's growth. One whose counts or calls shrank, or began anew, is all new."""
    if was is None or row.get("stats_since") != was.get("stats_since"):
        return row
    counts = {
        name: row[name] - was[name]
        for name in _counts(row)
        if isinstance(was.get(name), int | float)
    }
    return row if any(value < 0 for value in counts.values()) else {**row, **counts}


def _counts(row: Mapping[str, Any]) -> Sequence[str]:
    """Its sums: those of numbers that name nobody and are no minimum, mean or setting."""
    return [
        name
        for name, value in row.items()
        if isinstance(value, int | float)
        and not isinstance(value, bool)
        and name not in _KEY
        and (name == "calls" or name == "total_exec_time" or "blk" in name or "launched" in name)
    ]


def _databases_less(after: Look, before: Look) -> list[DatabaseSpill]:
    """What each has written since; one whose counts shrank began anew."""
    was = {database.name: database for database in before.databases}
    grown = []
    for database in after.databases:
        old = was.get(database.name)
        if old is not None and old.temp_bytes <= database.temp_bytes:
            database = replace(
                database,
                temp_files=database.temp_files - old.temp_files,
                temp_bytes=database.temp_bytes - old.temp_bytes,
                active_s=_number_less(database.active_s, old.active_s),
                since_s=before.taken_s,
            )
        if database.temp_bytes:
            grown.append(database)
    return grown


def _number_less(now: float | None, was: float | None) -> float | None:
    if now is None or was is None:
        return None
    return now - was if now >= was else now


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in _KEY)
