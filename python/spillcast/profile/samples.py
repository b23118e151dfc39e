"""Samples of a recording or of ASH -> rows of a profile: the time that they represent."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from spillcast.errors import EvidenceUnsuited, QueryInvalid, SelectionEmpty, first_line
from spillcast.evidence.oracle.ash import ON_CPU
from spillcast.profile.expressions import check_keys, condition_of, confine, keys_of, named
from spillcast.profile.result import DIMENSIONS, Profile, bare_row
from spillcast.recording import Recording

_COLUMNS = {
    "event": f"coalesce(event::varchar, '{ON_CPU}')",
    "sql": "sql_id::varchar",
    "session": "session",
    "second": "time_ns // 1000000000",
}


def of_samples(recording: Recording, by: Sequence[str], where: str | None) -> Profile:
    """The time of all samples, summed over sessions.

    InputError for columns that samples lack, such as sizes and files, and for a wrong condition.
    """
    rows = grouped(recording.samples, by, where)
    whole_us = pc.sum(recording.samples["weight_us"]).as_py() or 0
    why = recording.meta.capture.absent_because
    return Profile(by, whole_us / 1e6, rows, [], [f"samples of waits, no I/O: {why}"])


def grouped(samples: pa.Table, by: Sequence[str], where: str | None) -> list[dict[str, Any]]:
    """Rows by names or expressions, the largest first; shares are of all samples."""
    for name in by:
        if name in DIMENSIONS and name not in _COLUMNS:
            known = ", ".join(_COLUMNS)
            raise EvidenceUnsuited(
                f"--by {name}: this evidence has only samples", f"ask by {known}"
            )
    with tempfile.TemporaryDirectory(prefix="spillcast-") as folder, duckdb.connect() as connection:
        connection.register("samples", samples)
        confine(connection, Path(folder))
        check_keys(connection, "samples", by, _COLUMNS)
        query = (
            f"select {', '.join(keys_of(by, _COLUMNS))}, count(*) as count, "
            f"sum(weight_us)::bigint as total_us from samples where {condition_of(where)} "
            "group by all order by total_us desc"
        )
        try:
            records = connection.sql(query).to_arrow_table().to_pylist()
        except duckdb.Error as error:
            columns = ", ".join(samples.column_names)
            reason = first_line(error)
            raise QueryInvalid(f"--where: {reason}", f"the columns are {columns}") from error
    if where is not None and not records:
        raise SelectionEmpty(f"--where: no sample meets '{where}'")
    whole_us = pc.sum(samples["weight_us"]).as_py() or 0
    bare = [bare_row("", row["total_us"], whole_us) for row in records]
    for row in bare:
        del row["event"]
    return [{**row, **named(keys, by)} for row, keys in zip(bare, records, strict=True)]
