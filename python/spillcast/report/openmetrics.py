"""A profile, or histories of servers, as OpenMetrics text, version 1.0, in seconds and bytes.

https://github.com/OpenObservability/OpenMetrics, specification/OpenMetrics.md.
"""

import re
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from spillcast.engines.ranking import ServerRanking
from spillcast.errors import EvidenceUnsuited
from spillcast.profile import Profile
from spillcast.recording import Recording
from spillcast.text import one_line

#: Upper bounds of the buckets: 1, 2 and 5 us to 100 s, so that all exports can be added up.
BOUNDS_US = [factor * 10**power for power in range(8) for factor in (1, 2, 5)] + [10**8]


def openmetrics_text(profile: Profile, recording: Recording | None = None) -> Iterator[str]:
    """Lines of text; with the ``recording`` that was profiled also the bytes it moved.

    InputError for statistics, which hold neither times nor counts of waits.
    """
    if any("value" in row for row in profile.rows):
        raise EvidenceUnsuited(
            "session statistics hold no times of waits", "give a trace, ASH or a recording"
        )
    labels = [_labels(profile.by, row) for row in profile.rows]
    yield from _family("spillcast_elapsed_seconds", "gauge", "Elapsed time of all sessions.")
    yield f"spillcast_elapsed_seconds {_number(profile.elapsed_s)}\n"
    yield from _family("spillcast_time_seconds", "counter", "Time by event, CPU and idle included.")
    for label, row in zip(labels, profile.rows, strict=True):
        yield f"spillcast_time_seconds_total{label} {_number(row['total_us'] / 1e6)}\n"
    yield from _waits(profile, labels) if profile.histograms else _samples(profile, labels)
    if recording is not None and recording.meta.captured:
        yield from _bytes(recording)
    yield "# EOF\n"


def servers_metrics(rankings: Sequence[ServerRanking]) -> Iterator[str]:
    """Lines of text of servers' histories, with the names that a profile's have.

    Counters begin with the first look; ``sql`` is the queryid.
    """
    servers = [(r, {"server": r.source}) for r in rankings]
    statements = [(s, {**of, "sql": s.queryid}) for r, of in servers for s in r.statements]
    databases = [(d, {**of, "database": d.name}) for r, of in servers for d in r.databases]
    histories = [(r.history, of) for r, of in servers if r.history is not None]
    busy_s = [sum(bucket.temp_s for bucket in history.buckets) for history, _ in histories]
    busy = {"event": "temp I/O", "idle": "false"}
    families: list[tuple[str, str, str, list[tuple[dict[str, Any], float | None]]]] = [
        ("io_bytes", "counter", "Bytes read and written.",
         [({**of, "temp": "true"}, s.temp_bytes) for s, of in statements]),
        ("elapsed_seconds", "gauge", "Elapsed time of all calls.",
         [(of, s.elapsed_s) for s, of in statements]),
        ("calls", "counter", "Calls of statements that spill.",
         [(of, s.calls) for s, of in statements]),
        ("statement", "info", "The beginning of a statement's text.",
         [({**of, "query": one_line(s.query, 80)}, 1) for s, of in statements if s.query]),
        ("temp_files", "counter", "Temp files written.",
         [(of, d.temp_files) for d, of in databases]),
        ("temp_file_bytes", "counter", "Bytes of temp files written.",
         [(of, d.temp_bytes) for d, of in databases]),
        ("time_seconds", "counter", "Time by event, of all processes.",
         [({**of, **busy}, s) for (_, of), s in zip(histories, busy_s, strict=True)]),
        ("first_spill_timestamp_seconds", "gauge", "When a new statement was first seen to spill.",
         [({**of, "sql": change.queryid}, change.by_s)
          for history, of in histories for change in history.changes if change.kind == "new"]),
        ("look_timestamp_seconds", "gauge", "The last look at the server.",
         [(of, history.last_s) for history, of in histories]),
    ]  # fmt: skip
    for family in families:
        yield from _samples_of(*family)
    yield "# EOF\n"


def _samples_of(
    name: str, kind: str, text: str, samples: Sequence[tuple[Mapping[str, Any], float | None]]
) -> Iterator[str]:
    """A family and its samples, without those whose value is not known."""
    yield from _family(f"spillcast_{name}", kind, text)
    end = {"counter": "_total", "info": "_info"}.get(kind, "")
    for labels, value in samples:
        if value is not None:
            shown = value if isinstance(value, int) else _number(value)
            yield f"spillcast_{name}{end}{_labels_text(labels)} {shown}\n"


def _waits(profile: Profile, labels: Sequence[str]) -> Iterator[str]:
    name = "spillcast_wait_seconds"
    yield from _family(name, "histogram", "Durations of single waits, to within 1 %.")
    for label, row, (latency_ns, counts) in zip(
        labels, profile.rows, profile.histograms, strict=True
    ):
        if not row["count"]:
            continue
        ordered = sorted(zip(latency_ns, counts, strict=True))
        ends = [ns for ns, _ in ordered]
        below = [0, *accumulate(count for _, count in ordered)]
        for bound_us in BOUNDS_US:
            # A bucket holds what is at most its bound.
            count = below[bisect_left(ends, bound_us * 1000 + 1)]
            yield f"{name}_bucket{_with(label, 'le', _number(bound_us / 1e6))} {count}\n"
        yield f"{name}_bucket{_with(label, 'le', '+Inf')} {below[-1]}\n"
        yield f"{name}_count{label} {below[-1]}\n"
        yield f"{name}_sum{label} {_number(row['total_us'] / 1e6)}\n"


def _samples(profile: Profile, labels: Sequence[str]) -> Iterator[str]:
    yield from _family("spillcast_samples", "counter", "Samples that saw a session so.")
    for label, row in zip(labels, profile.rows, strict=True):
        if row["count"] is not None:
            yield f"spillcast_samples_total{label} {row['count']}\n"


def _bytes(recording: Recording) -> Iterator[str]:
    sums: dict[tuple[str, bool], int] = {}
    for row in recording.seconds.select(["op", "temp", "bytes"]).to_pylist():
        if row["op"]:
            key = row["op"], row["temp"]
            sums[key] = sums.get(key, 0) + row["bytes"]
    yield from _family("spillcast_io_bytes", "counter", "Bytes read and written.")
    for (op, temp), count in sorted(sums.items()):
        temp_text = "true" if temp else "false"
        yield f'spillcast_io_bytes_total{{op="{op}",temp="{temp_text}"}} {count}\n'


def _family(name: str, kind: str, text: str) -> Iterator[str]:
    """The description of a family; its unit is the end of its name."""
    yield f"# TYPE {name} {kind}\n"
    unit = name.rpartition("_")[2]
    if unit in {"seconds", "bytes"}:
        yield f"# UNIT {name} {unit}\n"
    yield f"# HELP {name} {text}\n"


def _labels(by: Sequence[str], row: dict[str, Any]) -> str:
    """The labels of a row; missing values are left out, as the format requires."""
    names = [*by, *(name for name in ("op", "sql") if name in row and name not in by)]
    pairs: dict[str, Any] = {}
    for name in names:
        pairs[_label_name(name, pairs)] = row[name]
    pairs = {name: value for name, value in pairs.items() if value is not None}
    return _labels_text({**pairs, "idle": "true" if row["idle"] else "false"})


def _labels_text(pairs: Mapping[str, Any]) -> str:
    escapes = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
    labels = (f'{name}="{str(value).translate(escapes)}"' for name, value in pairs.items())
    return "{" + ",".join(labels) + "}"


def _label_name(wanted: str, taken: Collection[str]) -> str:
    """A unique label name of letters and digits for an SQL expression."""
    name = re.sub(r"[^a-zA-Z0-9_]+", "_", wanted).strip("_")
    if not name or name[0].isdigit() or name == "le":
        name = f"by_{name}"
    numbered = (f"{name}_{number}" for number in range(2, len(taken) + 3))
    return (
        name
        if name not in taken
        else next(candidate for candidate in numbered if candidate not in taken)
    )


def _with(labels: str, name: str, value: str) -> str:
    return f'{labels[:-1]},{name}="{value}"}}'


def _number(value: float) -> str:
    """As the specification wants the bounds of buckets to be written: 0.001, 1e-05, 10.0."""
    return repr(float(value))
