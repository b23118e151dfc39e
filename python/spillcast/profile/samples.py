"""Samples of a recording -> a profile: the time that they stand for."""

from collections.abc import Sequence

import duckdb

from spillcast.errors import InputError, first_line
from spillcast.profile.result import Profile, bare_row
from spillcast.recording import Recording
from spillcast.recording.ash import ON_CPU

_COLUMNS = {
    "event": f"coalesce(event::varchar, '{ON_CPU}')",
    "sql": "sql_id::varchar",
    "session": "session",
    "second": "time_ns // 1000000000",
}


def of_samples(recording: Recording, by: Sequence[str], where: str | None) -> Profile:
    """The time of all samples together, of each session its own.

    InputError for what samples do not tell, such as sizes and files, and for a wrong condition.
    """
    for name in by:
        if name not in _COLUMNS:
            known = ", ".join(_COLUMNS)
            raise InputError(f"--by {name}: the recording holds samples alone", f"ask by {known}")
    keys = ", ".join(f"{_COLUMNS[name]} as {name}" for name in by)
    query = (
        f"select {keys}, count(*) as count, sum(weight_us)::bigint as total_us from samples "
        f"where {where or 'true'} group by all order by total_us desc"
    )
    with duckdb.connect() as connection:
        connection.register("samples", recording.samples)
        try:
            found = connection.sql(query).to_arrow_table().to_pylist()
        except duckdb.Error as error:
            columns = ", ".join(recording.samples.column_names)
            what = first_line(error)
            raise InputError(f"--where: {what}", f"the columns are {columns}") from error
    if where is not None and not found:
        raise InputError(f"--where: no sample meets '{where}'")
    whole_us = sum(recording.samples["weight_us"].to_pylist())
    bare = [bare_row("", row["total_us"], whole_us) for row in found]
    for row in bare:
        del row["event"]
    rows = [{**row, **keys} for row, keys in zip(bare, found, strict=True)]
    why = recording.meta.capture.absent_because
    return Profile(by, whole_us / 1e6, rows, [], [f"samples of waits, no I/O: {why}"])
