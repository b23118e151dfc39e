"""The TARGET of a forecast: a word on the command line -> a storage."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from spillcast.errors import PathMissing, TargetUnknown
from spillcast.evidence.figures.kinds import is_word
from spillcast.evidence.find import kind_of
from spillcast.evidence.text import text_of
from spillcast.gate import json_of
from spillcast.recording import Recording
from spillcast.recording.meta_file import is_recording
from spillcast.storage import tmpfs
from spillcast.storage.budget import Budget, all_that_is_free
from spillcast.storage.meant import check_word, meant
from spillcast.storage.observed import assumed_latency, observed
from spillcast.storage.storage import Storage
from spillcast.units import parse_factor, parse_latency_s
from spillcast.visible import shell_word

if TYPE_CHECKING:
    from spillcast.storage.probe import Progress

KNOWN = "a recording, catalogue:NAME, or a storage.json, which is made by: spillcast probe DIR"
FORMS = (
    "a directory, tmpfs, a storage.json, fio's JSON, a recording, catalogue:NAME, latency:150us, "
    "limits:iops=12000,throughput=500MiB/s,latency=0.5ms, factor:60, or "
    "cache:flash.json+disk.json?size=2T"
)


def resolve(
    text: str,
    baseline: Recording,
    *,
    budget: Budget | None = None,
    on_progress: "Progress | None" = None,
) -> Storage:
    """The storage that ``text`` names. A directory is probed now, with the I/O of ``baseline``.

    Refusal where the temp files would not fit into memory.
    """
    check_word(text, "--to")
    kind, colon, value = text.partition(":")
    if colon and kind == "latency":
        return assumed_latency(observed(baseline), parse_latency_s(value, f"--to {text}"), text)
    if colon and kind == "factor":
        factor = parse_factor(text, value)
        return observed(baseline).scaled(1 / factor, text)
    if colon and kind == "cache":
        from spillcast.storage.cached import cached, parse_cache

        flash, disk, options = parse_cache(text, value)
        part = {name: resolve_storage(name, f"--to {text}: {name}") for name in (flash, disk)}
        return cached(text, part[flash], part[disk], options, baseline.whole)
    path = Path(text)
    if is_place(path):
        advice = []
        if tmpfs.is_tmpfs(path):
            advice = tmpfs.check(baseline, path)
            budget = all_that_is_free(budget)
        storage = _probed(path, baseline.whole, budget, on_progress)
        return replace(storage, facts={**storage.facts, "advice": advice})
    if text == "tmpfs":
        advice = tmpfs.check(baseline)
        shared = tmpfs.SHARED_MEMORY
        budget = all_that_is_free(budget)
        storage = _probed(shared, baseline.whole, budget, on_progress)
        return replace(storage, name="tmpfs", facts={**storage.facts, "advice": advice})
    return resolve_storage(text, f"--to {text}", FORMS)


def _probed(
    directory: Path, baseline: Recording, budget: Budget | None, on_progress: "Progress | None"
) -> Storage:
    from spillcast.storage.probe import probe

    return probe(directory, baseline, budget=budget, on_progress=on_progress)


def resolve_storage(text: str, role: str | None = None, forms: str = KNOWN) -> Storage:
    """The storage of a description: a file, a recording made on it, a row of the catalogue.

    ``what`` names the object of the search in an InputError.
    """
    kind, colon, value = text.partition(":")
    if colon and kind == "catalogue":
        from spillcast.storage.catalogue import lookup

        return lookup(value)
    if colon and kind == "limits":
        from spillcast.storage.limits_word import limits_storage

        return limits_storage(text, value)
    check_word(text, role or "storage")
    path = Path(text)
    if is_recording(path):
        from spillcast.evidence.postgres import with_counts

        return replace(observed(with_counts(Recording.open(path))), name=path.stem)
    kind_of_file = kind_of(path) if path.is_file() else None
    if kind_of_file == "plans":
        from spillcast.evidence.postgres import read_plan

        return observed(read_plan(path))
    if is_word(text) or kind_of_file == "figures":
        from spillcast.evidence.figures.reading import read_figures

        return replace(observed(read_figures([text])), name=text if is_word(text) else path.stem)
    if path.is_file():
        return _measured(path)
    if path.is_dir():
        word = shell_word(text)
        hint = f"probe it first: spillcast probe {word} --like run.spill -o storage.json"
        raise TargetUnknown(f"{role or text} is a directory, and was not measured", hint)
    if path.exists():
        raise TargetUnknown(f"{role or text} is not a file or directory", _mounted(path, forms))
    near = meant(text, forms)
    hint = f"name {forms}" if near is None else f"do you mean {near}? Otherwise name {forms}"
    raise PathMissing(f"{role or text}: there is no such file or directory", hint)


def _measured(path: Path) -> Storage:
    """The storage of a file: a document of a probe, or of fio."""
    from spillcast.storage.fio import check_foreign, fio_storage, is_fio

    content = text_of(path)
    if is_fio(content):
        return fio_storage(path, content)
    check_foreign(path, content)
    return Storage.from_json(json_of(content, path, "probe again"), str(path))


def _mounted(path: Path, forms: str) -> str:
    """The mount point to name in place of a device."""
    if path.is_block_device():
        return "a probe needs a directory on it: give the one where it is mounted (findmnt)"
    return f"name {forms}"


def depends_on_recording(text: str) -> bool:
    """Whether a TARGET is another storage for another recording, or is measured with its I/O."""
    kind, colon, _ = text.partition(":")
    stated = bool(colon) and kind in ("latency", "factor", "cache")
    return stated or text == "tmpfs" or is_place(Path(text))


def is_place(path: Path) -> bool:
    """Whether a path is a directory that could be measured, and no recording."""
    return path.is_dir() and not is_recording(path)
