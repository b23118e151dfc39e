"""Reads fio's JSON as a storage, and writes a recording as an iolog for fio."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf, prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spillcast import _core
from spillcast.document import PrintedDocument
from spillcast.errors import EvidenceMixed, TargetIncomplete
from spillcast.evidence.numbers import FigureCheck, check_all, number_of
from spillcast.gate import damaged, json_at, json_values, reading
from spillcast.recording import OPS, Recording
from spillcast.storage.probe import moved_waits, plan
from spillcast.storage.source import GRID
from spillcast.storage.storage import Group, Storage
from spillcast.units import format_duration
from spillcast.workspace import whole_file

_HINT = "make it with: fio --output-format=json --output=fio.json JOBFILE"
_JOB_HINT = f"leave out group_reporting, which sums up jobs of different iodepth; {_HINT}"
_EACH = "give the last of them, or of each run one, in a file of its own"
_VERSION = "fio version"
_NS = {"lat_ns": 1.0, "clat_ns": 1.0, "lat": 1e3, "clat": 1e3}


def fio_storage(path: Path, text: str) -> Storage:
    """The storage measured by fio. InputError if no job did reads or writes."""
    with reading(path, _HINT):
        try:
            documents = list(_documents(text))
            runs = [
                [group for options, job in _jobs(document) for group in _groups(options, job)]
                for document in documents
            ]
        except (AttributeError, TypeError) as error:
            raise damaged("a key has another type than fio writes") from error
        cells = [{(g.op, g.size_class_bytes, g.depth, g.pattern) for g in run} for run in runs]
        is_repeated = len(set().union(*cells)) < sum(map(len, cells))
        places = [_places(document) for document in documents]
        if is_repeated or any(place != places[0] for place in places):
            raise EvidenceMixed("it has several documents of fio, as with --status-interval", _EACH)
    groups = [group for run in runs for group in run]
    if not groups:
        raise TargetIncomplete("no job of fio has latencies of reads or writes", _HINT, path)
    return Storage(path.stem, GRID, groups, {"fio": str(documents[0][_VERSION])})


def _documents(text: str) -> Iterator[Mapping[str, Any]]:
    """The documents of one run each; a script may keep one beside other results."""
    mark = f'"{_VERSION}"'
    is_single = text.count(mark) == 1
    values = [json_at(text, text.index("{"))[0]] if is_single else json_values(text, mark)
    for value in values:
        for document in value if isinstance(value, list) else [value]:
            yield from filter(_is_document, [document, *document.values()])


def _is_document(value: Any) -> bool:
    return isinstance(value, dict) and _VERSION in value


def _jobs(document: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """The options and the results of each job of a run."""
    given = document.get("global options", {})
    clients = document.get("client_stats", ())
    # The sum of several clients follows their jobs.
    of_clients = [job for job in clients if job["jobname"] != "All clients"]
    ran = of_clients if clients else document["jobs"]
    return [({**given, **job.get("job options", {})}, job) for job in ran]


def _places(document: Mapping[str, Any]) -> set[str]:
    """The folders or devices of a run's files."""
    return {f"{job.get('directory')} {job.get('filename')}" for job, _ in _jobs(document)}


def _groups(options: Mapping[str, Any], job: Mapping[str, Any]) -> list[Group]:
    """The reads and the writes of a job."""
    if job.get("error"):
        raise damaged(f"job {job.get('jobname')} failed with error {job['error']}", _HINT)
    # Version 2.2 and excerpts have no options, so they do not give a depth.
    depths = (max(1, int(options.get(name, 1))) for name in ("iodepth", "numjobs"))
    stated = prod(depths) if options else 0
    is_random = "rand" in str(options.get("rw", job.get("jobname")))
    reached, groups = 0.0, list[Group]()
    for op in OPS:
        done = job.get(op) or {}
        count = int(done.get("total_ios") or 0)
        timed = next((name for name in _NS if (done.get(name) or {}).get("mean", 0) > 0), None)
        if not count or timed is None:
            continue
        if count < 0:
            raise ValueError(f"a job did {count} {op}s")
        mean_ns = float(done[timed]["mean"]) * _NS[timed]
        _check(options, op, done[timed])
        reached += _in_flight(op, count, mean_ns / 1e9, float(done.get("runtime") or 0), stated)
        # Version 2 counts KiB.
        moved = int(done.get("io_bytes") or 0) * (1024 if timed in ("lat", "clat") else 1)
        # Options such as bssplit override the stated size.
        size = round(moved / count) or _size(options, op) or 1
        latency_ns, counts = _histogram(done, count, mean_ns)
        group = Group(
            op=op,
            size_class_bytes=_core.size_class_bytes(size),
            depth=stated,
            count=count,
            bytes=size * count,
            total_ns=round(mean_ns * count),
            latency_ns=latency_ns,
            latency_count=counts,
            block_count=[count],
            block_mean_ns=[round(mean_ns)],
            pattern="random" if is_random else "sequential",
            access="direct" if str(options.get("direct", "0")) == "1" else "buffered",
        )
        groups.append(group)
    # Synchronous engines, rate limits and think times keep fewer in flight than stated.
    is_stated = stated and not 0 < reached <= 0.75 * stated
    depth = stated if is_stated else max(1, round(reached))
    return [replace(group, depth=depth) for group in groups]


def _in_flight(op: str, count: int, mean_s: float, runtime_ms: float, stated: int) -> float:
    """Mean number of operations in flight by Little's law; 0 without a runtime.

    InputError if the operations took longer than the ``stated`` number at once can.
    """
    if not (runtime_s := runtime_ms / 1e3):
        return 0.0
    took = f"{count:,} {op}s of {format_duration(mean_s)}"
    run = f"{format_duration(runtime_s)} with {stated} at once"
    # The last operations may have ended up to one latency after the runtime.
    most_s = (runtime_s + mean_s) * (stated or inf)
    check_all([FigureCheck("time-at-once", count * mean_s, took, most_s, run)], _JOB_HINT)
    return count * mean_s / runtime_s


def _check(options: Mapping[str, Any], op: str, latency: Mapping[str, Any]) -> None:
    """InputError for writes of a read-only job, and for a mean outside minimum and maximum."""
    if op == "write" and options.get("rw") in ("read", "randread"):
        raise damaged(f"a job with rw={options['rw']} did writes", _HINT)
    least, mean, most = (
        float(latency.get(name, latency["mean"])) for name in ("min", "mean", "max")
    )
    if not least <= mean <= most:
        raise damaged(f"a mean latency of {mean:g} is not within {least:g} to {most:g}", _HINT)


def _size(options: Mapping[str, Any], op: str) -> int | None:
    """The size (bytes) of all operations; None if not stated, or a range."""
    sizes = str(options.get("bs", "")).split(",")
    text = sizes[1] if op == "write" and len(sizes) > 1 and sizes[1] else sizes[0]
    number = number_of(text.strip().upper().removesuffix("IB").removesuffix("B"), step=1024)
    return None if number is None else round(number.value)


def _histogram(done: Mapping[str, Any], count: int, mean_ns: float) -> tuple[list[int], list[int]]:
    """Latencies (ns) and their counts, from the bins of fio or from its percentiles."""
    name = next((name for name in ("clat_ns", "lat_ns") if done.get(name)), "clat")
    scale = _NS[name]
    measured = done.get(name) or {}
    bins = {float(ns) * scale: int(n) for ns, n in (measured.get("bins") or {}).items()}
    if bins and sum(bins.values()) == count:
        return [round(ns) for ns in sorted(bins)], [bins[ns] for ns in sorted(bins)]
    percentiles = sorted(
        (float(percent), float(ns) * scale)
        for percent, ns in (measured.get("percentile") or {}).items()
        if ns
    )
    latency_ns, counts, below = list[int](), list[int](), 0
    for percent, ns in percentiles:
        upto = min(count, round(percent / 100 * count))
        if upto > below:
            latency_ns.append(round(ns))
            counts.append(upto - below)
            below = upto
    if len(percentiles) < 3 or not counts:
        return [round(mean_ns)], [count]
    # Operations above the last percentile count at that latency.
    counts[-1] += count - below
    return latency_ns, counts


@dataclass(frozen=True)
class Iolog(PrintedDocument):
    """Properties of a written log."""

    SCHEMA = "spillcast.iolog/1"

    path: str
    reads: int
    writes: int
    read_bytes: int
    write_bytes: int
    #: Sizes (bytes) of the files by their names, which are relative to fio's working directory.
    files: dict[str, int]
    #: Files that are read before they are written: fio needs them to exist.
    laid_before: list[str]


def write_iolog(recording: Recording, path: Path) -> Iolog:
    """Write the log, completely or not at all.

    fio replays it in its working directory, in one thread. Order, offsets, sizes and start times
    (us) are kept; concurrent operations follow each other.
    """
    steps = plan(recording)
    start_ns = moved_waits(recording)["start_ns"].to_numpy()
    start_us = (start_ns - start_ns[0]) // 1000
    file, offset, size = (steps[name].to_numpy() for name in ("file", "offset", "bytes"))
    write = steps["write"].to_numpy()
    names = [f"spill-{number}" for number in range(int(file.max()) + 1)]
    ends = offset + size
    with whole_file(path) as partial, partial.open("w") as log:
        log.write("fio version 3 iolog\n")
        log.writelines(f"0 {name} {action}\n" for action in ("add", "open") for name in names)
        rows = zip(start_us, file, write, offset, size, strict=True)
        log.writelines(
            f"{start} {names[number]} {'write' if is_write else 'read'} {begin} {length}\n"
            for start, number, is_write, begin, length in rows
        )
        log.writelines(f"{start_us[-1]} {name} close\n" for name in names)
    return Iolog(
        str(path),
        reads=int((~write).sum()),
        writes=int(write.sum()),
        read_bytes=int(size[~write].sum()),
        write_bytes=int(size[write].sum()),
        laid_before=[
            name
            for number, name in enumerate(names)
            if _reads_beyond(write[file == number], ends[file == number])
        ],
        files={name: int(np.max(ends[file == number])) for number, name in enumerate(names)},
    )


def _reads_beyond(write: NDArray[np.bool_], ends: NDArray[np.uint64]) -> bool:
    """Whether one file's operations read beyond what they have written so far."""
    written = np.maximum.accumulate(np.where(write, ends, 0))
    return bool(np.any(~write & (ends > written)))
