"""Spooled session statistics -> growth, rate and total of each."""

from collections.abc import Sequence
from pathlib import Path

from spillcast.errors import EvidenceUnsuited
from spillcast.evidence.oracle.statistics import read_statistics
from spillcast.profile.result import Profile


def of_statistics(paths: Sequence[Path], by: Sequence[str], where: str | None) -> Profile:
    """One row a statistic; InputError for any other question."""
    if list(by) != ["event"] or where is not None:
        raise EvidenceUnsuited(
            "statistics are shown one by one only",
            'for more use: spillcast sql "select ... from statistics" FILE',
        )
    read = read_statistics(paths)
    rows: dict[str, dict[str, object]] = {}
    for row in read.rows.to_pylist():
        name = row["name"]
        seen = rows.setdefault(name, {"event": name, "value": 0, "per_second_max": 0})
        seen["value"] = int(str(seen["value"])) + (row["value"] or 0)
        seen["per_second_max"] = max(int(str(seen["per_second_max"])), row["per_second"] or 0)
        seen["accumulated"] = row["accumulated"]
    damaged = [{"file": str(d.file), "line": d.line, "what": d.text} for d in read.damaged]
    return Profile(["event"], 0.0, list(rows.values()), damaged)
