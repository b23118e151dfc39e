"""A trace -> facts: its waits and CPU time by statement and event."""

from operator import itemgetter
from pathlib import Path
from typing import Any

from spillcast import _core
from spillcast.evidence.oracle.trace import ReadFailures, Traces, open_reader
from spillcast.fleet.identity import Identity
from spillcast.fleet.schema import CPU, WAIT

KIND = "trace"
_under_way: set[_core.TraceReader] = set()


def read_trace(path: Path) -> Traces:
    """The groups that facts are made of. InputError if there are no trace lines."""
    reader, _ = open_reader([path], lenient=False, on_progress=None)
    _under_way.add(reader)
    try:
        with ReadFailures():
            groups, facts = reader.profile(["event", "sql"])
    finally:
        _under_way.discard(reader)
    return Traces([path], groups, facts["files"])


def cancel_reading() -> None:
    """Stop the reads of other threads, because a large trace would delay an interrupt."""
    for reader in list(_under_way):
        reader.cancel()


def facts_of_trace(read: Traces, source: str, who: Identity) -> list[dict[str, Any]]:
    """Rows of FACTS, in the order of statements and events."""
    rows = [_row(source, who, group) for group in read.groups]
    return sorted(rows, key=itemgetter("sql_id", "measure", "event"))


def _row(source: str, who: Identity, group: dict[str, Any]) -> dict[str, Any]:
    return {
        "source": source,
        "kind": KIND,
        "host": who.host,
        "instance": who.instance,
        "sql_id": group["sql"] or "",
        "measure": CPU if group["event"] is None else WAIT,
        "event": group["event"] or group["call"],
        "op": group["op"],
        "idle": bool(group["idle"]),
        "count": group["count"],
        "total_us": group["total_us"],
        "blocks": group["blocks_sum"],
        "blocks_count": group["blocks_count"],
        "sampled_us": 0,
        "waits_e6": 0,
        "latency_ns": group["latency_ns"].tolist(),
        "latency_count": group["latency_count"].tolist(),
    }
