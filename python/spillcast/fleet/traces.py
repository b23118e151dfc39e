"""A trace -> facts: its waits and CPU time by statement and event."""

from pathlib import Path
from typing import Any

from spillcast import _core
from spillcast.fleet.identity import Identity
from spillcast.fleet.schema import CPU, WAIT
from spillcast.recording.trace import ReadFailures, Traces, open_reader

KIND = "trace"
_under_way: set[_core.TraceReader] = set()


def read_trace(path: Path) -> Traces:
    """The groups that facts are made of. InputError where there are no trace lines."""
    reader, _ = open_reader([path], lenient=False, on_progress=None)
    _under_way.add(reader)
    try:
        with ReadFailures():
            groups, facts = reader.profile(["event", "blocks", "sql"])
    finally:
        _under_way.discard(reader)
    return Traces([path], groups, facts["files"])


def cancel_reading() -> None:
    """End what other threads read: a large trace would keep an interrupted ingest waiting."""
    for reader in list(_under_way):
        reader.cancel()


def facts_of_trace(read: Traces, source: str, who: Identity) -> list[dict[str, Any]]:
    """Rows of FACTS, those of one statement and event put together."""
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    buckets: dict[tuple[str, str, str], dict[int, int]] = {}
    for group in read.groups:
        measure = CPU if group["event"] is None else WAIT
        key = (group["sql"] or "", measure, group["event"] or group["call"])
        row = rows.get(key)
        if row is None:
            row = rows[key] = _empty(source, who, *key, group)
            buckets[key] = {}
        count, blocks = group["count"], group["blocks"] or 0
        row["count"] += count
        row["total_us"] += group["total_us"]
        if blocks > 0:
            row["blocks"] += blocks * count
            row["blocks_count"] += count
        into = buckets[key]
        for latency_ns, waits in zip(group["latency_ns"], group["latency_count"], strict=True):
            into[latency_ns] = into.get(latency_ns, 0) + waits
    for key, row in rows.items():
        ascending = sorted(buckets[key].items())
        row["latency_ns"] = [latency_ns for latency_ns, _ in ascending]
        row["latency_count"] = [waits for _, waits in ascending]
    return [rows[key] for key in sorted(rows)]


def _empty(
    source: str, who: Identity, sql_id: str, measure: str, event: str, group: dict[str, Any]
) -> dict[str, Any]:
    return {
        "source": source,
        "kind": KIND,
        "host": who.host,
        "instance": who.instance,
        "sql_id": sql_id,
        "measure": measure,
        "event": event,
        "op": group["op"],
        "idle": bool(group["idle"]),
        "count": 0,
        "total_us": 0,
        "blocks": 0,
        "blocks_count": 0,
        "sampled_us": 0,
        "waits_e6": 0,
    }
