"""Variants of a forecast: without one of the estimators, or with more evidence."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from spillcast.errors import SpillcastError
from spillcast.forecast import Forecast, forecast
from spillcast.forecast.projection import ESTIMATORS, HISTORY, REHEARSAL
from spillcast.forecast.projection import SPINNING as SPINNING_ESTIMATE
from spillcast.forecast.remaining import NO_HINTS, RemainingWorkHints, hints_of
from spillcast.lab.case import Variant
from spillcast.recording import Recording
from spillcast.storage import Storage

#: Estimators that a variant leaves out, with their descriptions.
LEFT_OUT: Mapping[str, str] = {
    name: summary for name, summary in ESTIMATORS.items() if name not in (REHEARSAL, HISTORY)
}
#: Variants with more evidence, with their descriptions.
REHEARSED, FORMER_RUN = "rehearsed", "former run"
ADDED: Mapping[str, str] = {
    REHEARSED: "rehearsed",
    FORMER_RUN: "with previous runs on other storage",
}
#: The event of CPU time in which a thread waited by polling.
SPINNING = "spinning"
#: Maximum time of a rehearsal, and of its part after the first temp I/O as a share of the run.
REHEARSED_S, REHEARSED_SHARE = 10.0, 0.1


def without(name: str) -> str:
    """The name of the variant without an estimator."""
    return f"without {name}"


def rehearsed_s(recording: Recording) -> float:
    """Time of a rehearsal: until the first temp I/O, and for a share of the run after that."""
    started_ns = recording.temp_waits["start_ns"].to_numpy().min(initial=recording.elapsed_s * 1e9)
    return min(REHEARSED_S, float(started_ns) / 1e9 + REHEARSED_SHARE * recording.elapsed_s)


def variants(
    recording: Recording,
    storage: Storage,
    answer: Forecast,
    rehearsed: Callable[[], Storage | None],
    former: Sequence[Path] = (),
) -> dict[str, Variant]:
    """The variants whose numbers differ from ``answer``, and the variant with a rehearsal, by name.

    ``rehearsed`` rehearses the query on the target and returns its storage with the rehearsal, or
    None. ``former`` are recordings of the query on storage other than the target.
    """
    results = {without(name): _variant(recording, storage, answer, name) for name in LEFT_OUT}
    if former:
        known = hints_of(former)
        results[FORMER_RUN] = _variant(recording, storage, answer, known=known)
    usual = Variant.of(answer)
    results = {name: variant for name, variant in results.items() if variant != usual}
    if (rehearsal_storage := rehearsed()) is not None:
        results[REHEARSED] = _variant(recording, rehearsal_storage, answer)
    return results


def with_spinning_as_work(recording: Recording) -> Recording:
    """The recording in memory as if no samples had distinguished spinning from work.

    Spinning becomes CPU time before the next operation of its thread.
    """
    waits = recording.waits
    spun = waits["event"].equals(SPINNING)
    if not spun.any():
        return recording
    session, elapsed_ns = waits["session"].to_numpy(), waits["elapsed_ns"].to_numpy()
    order = np.lexsort((waits["start_ns"].to_numpy(), session))
    # Each row belongs to the next row of its thread that is not spinning.
    last = np.where(~spun[order], np.arange(len(order)), len(order))
    following = np.minimum.accumulate(last[::-1])[::-1]
    known = spun[order] & (following < len(order))
    rows, next_rows = order[known], order[following[known]]
    same = session[rows] == session[next_rows]
    cpu_ns = waits["cpu_before_ns"].filled(0).copy()
    np.add.at(cpu_ns, next_rows[same], elapsed_ns[rows[same]])
    meta, capture = recording.meta, recording.meta.capture
    cpu_s = None if meta.cpu_s is None else meta.cpu_s + (capture.spun_s or 0.0)
    meta = replace(meta, cpu_s=cpu_s, capture=replace(capture, spun_s=None))
    work = waits.with_column("cpu_before_ns", cpu_ns).filter(~spun)
    return Recording.of_tables(recording.path, meta, work, recording.seconds, recording.samples)


def _variant(
    recording: Recording,
    storage: Storage,
    answer: Forecast,
    *names: str,
    known: RemainingWorkHints = NO_HINTS,
) -> Variant:
    if SPINNING_ESTIMATE in names:
        recording = with_spinning_as_work(recording)
    try:
        return Variant.of(forecast(recording, storage, known=known, without=names))
    except SpillcastError:
        return Variant(None, None, answer.ceiling_s, None)
