"""Profiles evidence of any kind: waits and CPU time, grouped, with latencies.

Readers are imported when they are needed: loading all of them takes longer than reading a large
trace.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spillcast.errors import OptionConflict, OptionInvalid, QueryInvalid, SelectionEmpty
from spillcast.evidence.open import EvidenceFiles, find_evidence
from spillcast.evidence.selection import NO_FILTER, Filter
from spillcast.profile.result import CALL, COLUMNS, FUNCTION, ROW_SOURCE, LatencyCounts, with_shares
from spillcast.profile.result import DIMENSIONS as DIMENSIONS
from spillcast.profile.result import Profile as Profile
from spillcast.public import as_package
from spillcast.recording import is_like
from spillcast.text import several

if TYPE_CHECKING:
    from spillcast.evidence.oracle.trace import Progress, TraceOptions

__all__ = ["DIMENSIONS", "Profile", "profile"]


@as_package(__name__)
def profile(
    *evidence: str | Path,
    by: Sequence[str] = ("event",),
    event: str | None = None,
    where: str | None = None,
    temp_dirs: str | Path | Sequence[str | Path] = (),
    lenient: bool = False,
    chosen: Filter = NO_FILTER,
    block_bytes: int | None = None,
    on_progress: "Progress | None" = None,
) -> Profile:
    """Profiles traces, ASH exports or recordings.

    ``by`` are names of dimensions, or SQL expressions over the columns of a wait or a sample.
    ``event`` is a pattern in which ``*`` stands for any text. ``where`` is an SQL condition on the
    same columns as ``by``. ``temp_dirs`` are the directories of a recording's temp files.
    ``chosen`` selects samples of ASH, or a time of traces. With ``block_bytes``, sizes in traces
    are bytes instead of blocks. InputError for evidence that is empty or cannot be read.
    """
    by = several(by)
    if where is not None and not where.strip():
        raise QueryInvalid("--where: the condition is empty", "without --where all rows count")
    if not all(map(str.strip, by)):
        raise QueryInvalid("--by: a name is empty", "separate names by commas: --by event,size")
    files = find_evidence(evidence)
    kind = files.only_waits()
    if temp_dirs and kind != "recordings":
        raise OptionConflict("--temp is for recordings")
    _check_of_oracle(files, block_bytes, chosen, lenient=lenient)
    from spillcast.evidence.oracle.trace import TraceOptions

    options = TraceOptions(lenient=lenient, chosen=chosen, on_progress=on_progress)
    if ROW_SOURCE in by:
        from spillcast.profile.other_rows import by_row_source

        result = by_row_source(files, by, where, block_bytes, options)
    elif kind == "ash":
        from spillcast.profile.other_rows import of_ash

        result = of_ash(files.ash, by, where, options)
        if files.traces:
            command = f"spillcast profile {files.collected[0]}/*.trc"
            text = f"its traces have the duration of each wait: {command}"
            result = replace(result, warnings=[*result.warnings, text])
    elif kind == "statistics":
        from spillcast.profile.other_rows import of_statistics

        result = of_statistics(files.statistics, by, where)
    elif kind == "recordings" and FUNCTION in by:
        result = _by_function(files, by, event=event, where=where)
    elif kind == "recordings":
        result = _of_recording(files, by, where, temp_dirs)
    elif CALL in by:
        from spillcast.profile.other_rows import of_calls

        result = of_calls(files.traces, by, where, options)
    else:
        result = _of_traces(files.traces, by, where, options)
    if block_bytes is not None and "size" in by:
        result = _in_bytes(result, block_bytes)
    return result if event is None else _only_event(result, event)


def _check_of_oracle(
    files: EvidenceFiles, block_bytes: int | None, chosen: Filter, *, lenient: bool
) -> None:
    """OptionConflict for options of traces and ASH exports that this evidence does not use."""
    kind = files.only_waits()
    if block_bytes is not None and kind not in {"traces", "ash"}:
        raise OptionConflict("--block is for traces")
    if block_bytes is not None and block_bytes < 1:
        raise OptionInvalid(f"block_bytes {block_bytes}: too few", "such as 8192")
    if lenient and not files.traces:
        raise OptionConflict("--lenient is for traces")
    of_statement = chosen.sql_id is not None or chosen.exec_id is not None
    if chosen != NO_FILTER and kind != "ash" and (kind != "traces" or of_statement):
        raise OptionConflict(
            "--sql-id and --exec-id are for ASH exports, --since and --until for traces too",
            "for other evidence use --where, as in --where \"sql_id = '4q7zf0d2m8kcx'\"",
        )


def _of_traces(
    traces: Sequence[Path], by: Sequence[str], where: str | None, options: "TraceOptions"
) -> Profile:
    if where is None and all(name in DIMENSIONS or name in COLUMNS for name in by):
        from spillcast.profile.traces import of_traces

        return of_traces(traces, by, options)
    from spillcast.profile.rows import of_trace_rows

    return of_trace_rows(traces, by, where, options)


def _in_bytes(result: Profile, block_bytes: int) -> Profile:
    """The profile with sizes in bytes instead of blocks."""
    rows = [
        row if row["size"] is None else row | {"size": row["size"] * block_bytes}
        for row in result.rows
    ]
    return replace(result, rows=rows)


def _by_function(
    evidence: EvidenceFiles, by: Sequence[str], *, event: str | None, where: str | None
) -> Profile:
    from spillcast.profile.functions import by_function
    from spillcast.recording import Recording

    if event is not None or where is not None:
        raise OptionConflict("--by function goes with neither --event nor --where")
    if len(evidence.recordings) > 1:
        raise OptionConflict("--by function is for one recording", "profile them one by one")
    return by_function(Recording.open(evidence.recordings[0]), by)


def _of_recording(
    evidence: EvidenceFiles,
    by: Sequence[str],
    where: str | None,
    temp_dirs: str | Path | Sequence[str | Path],
) -> Profile:
    from spillcast.profile.other_rows import of_samples
    from spillcast.profile.rows import of_recording
    from spillcast.recording import Recording
    from spillcast.recording.derived import with_temp

    profiles: dict[Path, Profile] = {}
    for path in evidence.recordings:
        recording = with_temp(Recording.open(path), temp_dirs)
        profile_of = of_recording if recording.meta.captured else of_samples
        profiles[path] = profile_of(recording, by, where)
    return _combined(profiles, by) if len(profiles) > 1 else profiles.popitem()[1]


def _combined(profiles: Mapping[Path, Profile], by: Sequence[str]) -> Profile:
    """Profiles of several recordings as one, by recording first; shares are of their total time."""
    elapsed_s = sum(profile.elapsed_s for profile in profiles.values())
    has_distinct_names = len({path.name for path in profiles}) == len(profiles)
    rows: list[dict[str, Any]] = []
    histograms: list[LatencyCounts] = []
    warnings: list[str] = []
    for path, profile in profiles.items():
        name = path.name if has_distinct_names else str(path)
        rows += ({"recording": name, **row} for row in profile.rows)
        histograms += profile.histograms or [([], [])] * len(profile.rows)
        warnings += (f"{name}: {warning}" for warning in profile.warnings)
    if not any(profile.histograms for profile in profiles.values()):
        histograms = []
    by = ["recording", *by]
    rows = with_shares(rows, elapsed_s)
    return Profile(by, elapsed_s, rows, (), warnings, histograms=histograms).sorted()


def _only_event(result: Profile, pattern: str) -> Profile:
    if "event" not in result.by:
        raise OptionConflict("--event goes with --by event,...")
    keep = [is_like(row["event"], pattern) for row in result.rows]
    if not any(keep):
        names = sorted({row["event"] for row in result.rows})
        raise SelectionEmpty(
            f"--event: no event is like '{pattern}'", f"there are {', '.join(names)}"
        )
    rows = [row for row, kept in zip(result.rows, keep, strict=True) if kept]
    # Not all evidence has histograms.
    histograms = [h for h, kept in zip(result.histograms, keep, strict=False) if kept]
    return replace(result, rows=rows, histograms=histograms)
