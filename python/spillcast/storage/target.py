"""Resolves a TARGET of the command line to a storage; reads and writes files of fio."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spillcast import _core
from spillcast.errors import InputError, Refusal, TargetIncomplete, TargetInvalid, TargetUnknown
from spillcast.evidence.choice import is_word
from spillcast.evidence.counts import Counts
from spillcast.evidence.numbers import Check, check_all, number_of
from spillcast.evidence.open import STORAGE_WORDS, kind_of
from spillcast.evidence.text import head_of, text_of
from spillcast.gate import damaged, json_of, reading
from spillcast.recording import OPS, Recording
from spillcast.recording.meta import is_recording
from spillcast.storage.observed import TempEvidence, assumed_latency, observed
from spillcast.storage.probe import moved_waits, plan
from spillcast.storage.room import SHARED_MEMORY, Budget, all_that_is_free, check_memory, is_tmpfs
from spillcast.storage.source import GRID
from spillcast.storage.storage import Group, Storage
from spillcast.text import near_path, shell_word
from spillcast.units import format_duration, parse_bytes, parse_factor, parse_latency_s
from spillcast.workspace import whole_file

if TYPE_CHECKING:
    from spillcast.cache.simulation import Device
    from spillcast.storage.probe import Progress

_HINT = "make it with: fio --output-format=json --output=fio.json JOBFILE"
_ALONE = f"leave out group_reporting, which sums up jobs of different iodepth; {_HINT}"
_NS = {"lat_ns": 1.0, "clat_ns": 1.0, "lat": 1e3, "clat": 1e3}


def fio_storage(path: Path, text: str) -> Storage:
    """The storage that fio measured. InputError if no job did reads or writes."""
    document = json_of(text[text.index("{") :], path, _HINT, rest=True)
    try:
        with reading(path, _HINT):
            given = document.get("global options", {})
            jobs = [({**given, **job.get("job options", {})}, job) for job in document["jobs"]]
            groups = [group for options, job in jobs for group in _groups(path, options, job)]
    except (AttributeError, TypeError) as error:
        raise damaged(path, "a key has another type than fio writes", _HINT) from error
    if not groups:
        raise TargetIncomplete(f"{path}: no job of fio did reads or writes", _HINT)
    return Storage(path.stem, GRID, groups, {"fio": str(document["fio version"])})


def _groups(path: Path, options: Mapping[str, Any], job: Mapping[str, Any]) -> list[Group]:
    stated = max(1, int(options.get("iodepth", 1))) * max(1, int(options.get("numjobs", 1)))
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
        # Version 2 counts KiB.
        moved = int(done.get("io_bytes") or 0)
        if timed in ("lat", "clat"):
            moved *= 1024
        size = _size(options, op) or max(1, round(moved / count))
        if runtime_s := float(done.get("runtime") or 0) / 1e3:
            mean_s = mean_ns / 1e9
            took = f"{count:,} {op}s of {format_duration(mean_s)}"
            run = f"{format_duration(runtime_s)} with {stated} at once"
            # The last of them may have ended a latency after it.
            most_s = (runtime_s + mean_s) * stated
            check_all(path, [Check("time-at-once", count * mean_s, took, most_s, run)], _ALONE)
            reached += count * mean_s / runtime_s
        latency_ns, counts = _histogram(done, count, mean_ns)
        pattern = "random" if "rand" in str(options.get("rw", "")) else "sequential"
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
            pattern=pattern,
            access="direct" if str(options.get("direct", "0")) == "1" else "buffered",
        )
        groups.append(group)
    # Little's law: engines that wait for each operation, rates and think times keep fewer at once.
    depth = stated if not reached or reached > 0.75 * stated else max(1, round(reached))
    return [replace(group, depth=depth) for group in groups]


def _size(options: Mapping[str, Any], op: str) -> int | None:
    """The size (bytes) of all operations; None if it is not stated, or a range."""
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
    if len(percentiles) < 3:
        return [round(mean_ns)], [count]
    latency_ns, counts, below = list[int](), list[int](), 0
    for percent, ns in percentiles:
        upto = min(count, round(percent / 100 * count))
        if upto > below:
            latency_ns.append(round(ns))
            counts.append(upto - below)
            below = upto
    if not counts:
        return [round(mean_ns)], [count]
    # Operations above the last percentile count as that.
    counts[-1] += count - below
    return latency_ns, counts


IOLOG_SCHEMA = "spillcast.iolog/1"


@dataclass(frozen=True)
class Iolog:
    """Properties of a written log."""

    path: str
    reads: int
    writes: int
    read_bytes: int
    write_bytes: int
    #: Sizes (bytes) of the files by their names, which are relative to fio's working directory.
    files: dict[str, int]
    #: Files that are read before they are written: fio needs them to exist.
    laid_before: list[str]

    def to_json(self) -> dict[str, Any]:
        """The document of docs/schema.md."""
        return {"schema": IOLOG_SCHEMA, **asdict(self)}


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


KNOWN = "a recording, catalogue:NAME, or a storage.json, which is made by: spillcast probe DIR"
FORMS = (
    "a directory, tmpfs, a storage.json, fio's JSON, a recording, a trace with reads and writes, "
    "catalogue:NAME, latency:150us, limits:iops=12000,throughput=500MiB/s,latency=0.5ms, "
    "factor:60, or cache:flash.json+disk.json?size=2T"
)

#: Prefixes of targets that are defined relative to the storage of the recorded operations.
RELATIVE = ("latency:", "factor:", "cache:")


def stated(text: str, option: str = "--to") -> tuple[str, float] | None:
    """The prefix and value of ``latency:150us`` (in seconds) or ``factor:60``; None for others.

    InputError for an invalid value, and for an empty word.
    """
    check_word(text, option)
    kind, colon, value = text.partition(":")
    parse = {"latency": parse_latency_s, "factor": parse_factor}.get(kind)
    return None if parse is None or not colon else (kind, parse(value, f"{option} {text}"))


def resolve(
    text: str,
    baseline: TempEvidence,
    option: str = "--to",
    *,
    budget: Budget | None = None,
    on_progress: "Progress | None" = None,
) -> Storage:
    """The storage that ``text`` names. A directory is probed now, with the I/O of ``baseline``.

    Refusal if the temp files do not fit into memory.
    """
    match stated(text, option):
        case "latency", latency_s:
            return assumed_latency(observed(baseline), latency_s, text)
        case "factor", factor:
            runs = [baseline, *(baseline.at_bounds() if isinstance(baseline, Counts) else ())]
            scaled, *at_bounds = (observed(run).scaled(1 / factor, text) for run in runs)
            return replace(scaled, at_bounds=at_bounds)
    # A probe uses the entire recording, also for a sample.
    complete = baseline if isinstance(baseline, Counts) else baseline.whole
    if text.startswith("cache:"):
        from spillcast.storage.cached import cached, parse_cache

        flash, disk, options = parse_cache(text, text.removeprefix("cache:"))
        part = {name: resolve_storage(name, f"{option} {text}: {name}") for name in (flash, disk)}
        return cached(text, part[flash], part[disk], options, complete)
    exists = is_place(Path(text))
    if not exists and text != "tmpfs":
        return resolve_storage(text, f"{option} {text}", FORMS)
    from spillcast.storage.probe import probe

    place = Path(text) if exists else None
    directory, advice = place or SHARED_MEMORY, list[str]()
    if place is None or is_tmpfs(place):
        advice = check_memory(baseline, place)
        budget = all_that_is_free(budget)
    storage = probe(directory, complete, budget=budget, on_progress=on_progress)
    name = text if place is None else storage.name
    return replace(storage, name=name, facts={**storage.facts, "advice": advice})


def resolve_storage(text: str, role: str | None = None, forms: str = KNOWN) -> Storage:
    """The storage of a description: a file, a recording made on it, a row of the catalogue.

    InputError for an unknown one; it is called ``role``, and ``forms`` are what it may be.
    """
    kind, colon, value = text.partition(":")
    if colon and kind == "catalogue":
        from spillcast.storage.catalogue import lookup

        return lookup(value)
    if colon and kind == "limits":
        from spillcast.storage.observed import limits_storage

        return limits_storage(text, value)
    check_word(text, role or "storage")
    path = Path(text)
    if is_recording(path):
        from spillcast.evidence.postgres.plan import plan_counts

        recording = Recording.open(path)
        alone = recording.plan_alone is not None
        return replace(observed(plan_counts(recording) if alone else recording), name=path.stem)
    head = head_of(path) if path.is_file() else ""
    measured = not head or '"spillcast.storage/' in head or is_fio(head)
    kind_of_file = None if measured else kind_of(path)
    if kind_of_file == "plans":
        from spillcast.evidence.postgres.plan import read_plan

        return observed(read_plan(path))
    if kind_of_file == "traces":
        from spillcast.evidence.oracle.collected import block_size
        from spillcast.evidence.oracle.trace_recording import recording_of_traces

        recording = recording_of_traces([path], block_size(None, [], [path]).bytes)
        return replace(observed(recording), name=path.name)
    if is_word(text) or kind_of_file == "figures":
        from spillcast.evidence.open import read_figures

        return replace(observed(read_figures([text])), name=text if is_word(text) else path.stem)
    if path.is_file():
        return _measured(path, forms)
    if path.is_dir():
        word = shell_word(text)
        hint = f"probe it first: spillcast probe {word} --grid -o storage.json"
        raise TargetUnknown(f"{role or text} is a directory, and was not measured", hint)
    if path.exists():
        hint = f"name {forms}"
        if path.is_block_device():
            hint = "a probe needs a directory on it: give the one where it is mounted (findmnt)"
        raise TargetUnknown(f"{role or text} is not a file or directory", hint)
    similar = suggestion(text, forms)
    hint = f"name {forms}" if similar is None else f"do you mean {similar}?"
    raise TargetUnknown(f"{role or text}: there is no such file or directory", hint)


#: Queue depth at which a device reaches its throughput.
DEPTH = 32
_DEVICES = "a rate such as 9G/s or 9G/s,3.4G/s (read, write), a storage.json, or catalogue:NAME"


def device(text: str, option: str, operation_bytes: int) -> "Device":
    """The device that ``text`` names, with its throughput in operations of a size.

    InputError for an unknown device, or one without figures.
    """
    from spillcast.cache.simulation import Device

    if text.endswith("/s"):
        per_s = [parse_bytes(rate.strip().removesuffix("/s")) for rate in text.split(",")]
        if len(per_s) > 2 or not all(per_s):
            raise TargetInvalid(f"{option} {text}: not a rate", f"give {_DEVICES}")
        return Device(text, per_s[0], per_s[-1])
    from spillcast.storage.model import Model

    storage = resolve_storage(text, f"{option} {text}", _DEVICES)
    model = Model(storage)
    try:
        means_s = [
            model.latency(op, operation_bytes, depth=DEPTH, sequential=True, lasting=True).mean_s
            for op in OPS
        ]
    except Refusal as refusal:
        raise TargetInvalid(f"{option} {text}: {refusal}", f"give {_DEVICES}") from refusal
    rates = [DEPTH * operation_bytes / mean_s if mean_s else inf for mean_s in means_s]
    return Device(storage.name, *rates)


def _measured(path: Path, forms: str) -> Storage:
    """The storage of a file: a document of a probe, or of fio."""
    content = text_of(path)
    if is_fio(content):
        return fio_storage(path, content)
    if not content.lstrip().startswith("{"):
        raise TargetUnknown(f"{path} is not a storage: it holds no JSON object", f"name {forms}")
    return Storage.from_json(json_of(content, path, "probe again"), str(path))


def is_fio(text: str) -> bool:
    """Whether a text is JSON of fio, which its messages may precede."""
    return '"fio version"' in text and '"jobs"' in text


def depends_on_recording(text: str) -> bool:
    """Whether a TARGET differs by recording: it is relative, or probed with the recorded I/O."""
    return text.startswith(RELATIVE) or text == "tmpfs" or is_place(Path(text))


def is_place(path: Path) -> bool:
    """Whether a path is a directory that can be probed, and not a recording."""
    return path.is_dir() and not is_recording(path)


_KINDS = {"lat": "latency", "cat": "catalogue"}
#: A form in another spelling, such as ``latency=150us`` or ``Catalog:aws-gp3``.
_FORM = re.compile(r"\s*([a-z]+)(?:\s*+[:=]|\s)\s*+(\S(?:.*\S)?)\s*", re.I)
#: The least similarity of a mistyped word.
_ALIKE = 0.7
_TIMES = re.compile(r"\s*(?:x\s*(\d+(?:\.\d+)?)|(\d+(?:\.\d+)?)\s*(?:x|times))\s*", re.I)
_MEMORY = {"ram", "mem", "memory", "shm", "ramdisk", "ramfs"}


def check_word(text: str, option: str) -> None:
    """InputError for an empty word, often from an unset variable; Path would take it as ``.``."""
    if not text.strip():
        raise TargetUnknown(f"{option} '{text}': names nothing", "is a shell variable unset?")


def suggestion(text: str, forms: str) -> str | None:
    """The likely meaning of ``text`` among ``forms``; None if nothing is similar."""
    for word in (_other_form(text), *_names(text)):
        kind, colon, _ = (word or "").partition(":")
        known = word != "tmpfs" if not colon else f"{kind}:" in forms
        if word and word != text and (known or word in forms):
            return word
    return None


def _other_form(text: str) -> str | None:
    """The form for a word that spells one differently, or that is only its value."""
    words = (*STORAGE_WORDS, *_KINDS)
    if (form := _FORM.fullmatch(text)) and (kind := _like(form[1], words)) is not None:
        return f"{_KINDS.get(kind, kind)}:{form[2]}"
    if times := _TIMES.fullmatch(text):
        return f"factor:{times[1] or times[2]}"
    try:
        parse_latency_s(text)
    except InputError:
        return None
    return f"latency:{text.replace(' ', '')}"


def _like(word: str, words: Iterable[str]) -> str | None:
    """The most similar of ``words``, which may be equal; None if none is similar."""
    return next(iter(get_close_matches(word.lower(), words, n=1, cutoff=_ALIKE)), None)


def _names(text: str) -> list[str]:
    """Similar names and paths, the most similar first."""
    if text.strip().lower() in _MEMORY or _like(text.strip(), ["tmpfs"]):
        return ["tmpfs"]
    home = Path(text).expanduser() if text.startswith("~") else None
    path = home if home is not None and home.exists() else near_path(Path(text))
    names = [] if path is None else [str(path)]
    if "/" not in text and not Path(text).suffix:
        from spillcast.storage.catalogue import nearest

        names += [f"catalogue:{name}" for name in nearest(text)[:1]]
    return names
