"""Resolves a TARGET of the command line to a storage."""

import os
import re
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from spillcast.errors import InputError, Refusal, TargetInvalid, TargetUnknown
from spillcast.evidence.counts import Counts
from spillcast.evidence.open import STORAGE_WORDS, kind_of, rereadable
from spillcast.evidence.selection import is_stated
from spillcast.gate import json_of, reading
from spillcast.recording import OPS, Recording
from spillcast.recording.meta import is_recording
from spillcast.storage.free_space import SHARED_MEMORY, Budget, is_tmpfs, tmpfs_advice
from spillcast.storage.observed import TempEvidence, assumed_latency, observed
from spillcast.storage.storage import Storage
from spillcast.text import near_names, near_path, shell_word
from spillcast.units import parse_bytes_per_s, parse_factor, parse_latency_s

if TYPE_CHECKING:
    from spillcast.cache.simulation import Device
    from spillcast.storage.probe import ProbeProgress


KNOWN = "a recording, catalogue:NAME, or a storage.json, which is made by: spillcast probe DIR"
FORMS = (
    "a directory, tmpfs, a storage.json, fio's JSON, a recording, a trace with reads and writes, "
    "catalogue:NAME, latency:150us, limits:iops=12000,throughput=500MiB/s,latency=0.5ms, "
    "factor:60, or cache:flash.json+disk.json?size=2T"
)

#: Prefixes of targets that are defined relative to the storage of the recorded operations.
RELATIVE = ("latency:", "factor:", "cache:")
#: The beginning of the schema of a probe's document, of any version.
_SCHEMA = '"spillcast.storage/'


def probe_command(target: str) -> str:
    """The command that measures a directory, or the memory of ``tmpfs``, for any query."""
    folder = str(SHARED_MEMORY) if target == "tmpfs" else target
    return f"spillcast probe {shell_word(folder)} --grid -o storage.json"


def parse_assumed(text: str, option: str = "--to") -> tuple[str, float] | None:
    """The prefix and value of ``latency:150us`` (in seconds) or ``factor:60``; otherwise None.

    InputError for an invalid value, and for an empty word.
    """
    refuse_blank(text, option)
    kind, colon, value = text.partition(":")
    parse = {"latency": parse_latency_s, "factor": parse_factor}.get(kind)
    return None if parse is None or not colon else (kind, parse(value, f"{option} {text}"))


def resolve(
    text: str,
    baseline: TempEvidence,
    option: str = "--to",
    *,
    budget: Budget | None = None,
    on_progress: "ProbeProgress | None" = None,
) -> Storage:
    """The storage that ``text`` names. A directory is probed now, with the I/O of ``baseline``.

    Refusal if the temp files do not fit into memory.
    """
    match parse_assumed(text, option):
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

        flash, disk, options = parse_cache(text, option)
        part = {name: resolve_storage(name, f"{option} {text}: {name}") for name in (flash, disk)}
        return cached(text, part[flash], part[disk], options, complete)
    directory = Path(text) if can_probe(Path(text)) else None
    if directory is None and text != "tmpfs":
        return resolve_storage(text, f"{option} {text}", FORMS)
    from spillcast.storage.probe import probe

    advice = list[str]()
    if directory is None or is_tmpfs(directory):
        advice = tmpfs_advice(baseline, directory)
        budget = replace(budget or Budget(), free_share=1.0)
    storage = probe(directory or SHARED_MEMORY, complete, budget=budget, on_progress=on_progress)
    name = text if directory is None else storage.name
    return replace(storage, name=name, facts={**storage.facts, "advice": advice})


def resolve_storage(text: str, role: str | None = None, forms: str = KNOWN) -> Storage:
    """The storage of a description: a file, a recording made on it, a catalogue entry.

    InputError for an unknown storage; messages call it ``role``, and list its valid ``forms``.
    """
    kind, colon, value = text.partition(":")
    if colon and kind == "catalogue":
        from spillcast.storage.catalogue import lookup

        return lookup(value)
    if colon and kind == "limits":
        from spillcast.storage.observed import limits_storage

        return limits_storage(text, value)
    refuse_blank(text, role or "storage")
    if text.startswith(RELATIVE):
        message = f"{role or text}: a target relative to the storage of a recording"
        raise TargetUnknown(message, f"name {forms}")
    path = Path(text) if text == "-" else rereadable(text)
    if is_recording(path):
        from spillcast.evidence.postgres.plan import plan_counts

        recording = Recording.open(path)
        alone = recording.plan_alone is not None
        return replace(observed(plan_counts(recording) if alone else recording), name=path.stem)
    from spillcast.evidence.text import head_of

    head = _plain(head_of(path)) if path.is_file() else ""
    measured = not head or _SCHEMA in head or is_fio(head)
    kind_of_file = None if measured else kind_of(path)
    if kind_of_file == "plans":
        from spillcast.evidence.postgres.plan import read_plan

        return observed(read_plan(path))
    if kind_of_file == "traces":
        from spillcast.evidence.oracle.collected import block_size
        from spillcast.evidence.oracle.trace_recording import recording_of_traces

        recording = recording_of_traces([path], block_size(None, [], [path]).bytes)
        return replace(observed(recording), name=path.name)
    if is_stated(text) or kind_of_file == "figures":
        from spillcast.evidence.open import read_figures

        return replace(observed(read_figures([text])), name=text if is_stated(text) else path.stem)
    if path.is_file():
        if not measured:
            from spillcast.evidence.recognise import refuse_other_kinds

            refuse_other_kinds(path, "storage")
        return _measured(path, forms)
    raise _no_file(path, text, role or text, forms)


def _no_file(path: Path, text: str, role: str, forms: str) -> TargetUnknown:
    """The error for a description that is no file: what it is instead, or a similar one."""
    if path.is_dir():
        hint = f"probe it first: {probe_command(text)}"
        return TargetUnknown(f"{role} is a directory, and was not measured", hint)
    hint = f"name {forms}"
    if path.exists():
        if path.is_block_device():
            hint = "a probe needs a directory on it: give the one where it is mounted (findmnt)"
        return TargetUnknown(f"{role} is not a file or directory", hint)
    if (similar := suggestion(text, forms)) is not None:
        others = " All are listed by: spillcast storage list" * similar.startswith("catalogue:")
        hint = f"do you mean {similar}?{others}"
    elif "/" in text:
        hint = "give a directory that exists on that storage"
    return TargetUnknown(f"{role}: there is no such file or directory", hint)


#: Queue depth at which a device reaches its throughput.
DEPTH = 32
_DEVICES = "a rate such as 9G/s or 9G/s,3.4G/s (read, write), a storage.json, or catalogue:NAME"


def device(text: str, option: str, operation_bytes: int) -> "Device":
    """The device that ``text`` names, with its throughput for operations of a size.

    InputError for an unknown device or a device without figures.
    """
    from spillcast.cache.simulation import Device

    if text.endswith("/s"):
        per_s = [parse_bytes_per_s(rate, option) for rate in text.split(",")]
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
    """The storage of a file: a document of a probe or of fio."""
    from spillcast.evidence.text import text_of

    content = _plain(text_of(path))
    if is_fio(content):
        from spillcast.storage.fio import fio_storage

        return fio_storage(path, content)
    if not content.lstrip().startswith("{"):
        raise TargetUnknown(f"{path} is not a storage: it holds no JSON object", f"name {forms}")
    with reading(path, "probe again"):
        return Storage.from_json(json_of(content))


def _plain(text: str) -> str:
    """The text without wrappings; quotes in the names of a probe's document are no wrapping."""
    if _SCHEMA in text:
        return text
    from spillcast.evidence.unwrap import unwrapped

    return unwrapped(text)


def is_fio(text: str) -> bool:
    """Whether a text is JSON of fio, possibly after messages of fio."""
    return '"fio version"' in text and ('"jobs"' in text or '"client_stats"' in text)


def depends_on_recording(text: str) -> bool:
    """Whether a TARGET depends on the recording: relative, or probed with the recorded I/O."""
    return text.startswith(RELATIVE) or text == "tmpfs" or can_probe(Path(text))


def can_probe(path: Path) -> bool:
    """Whether a path is a directory that can be probed, not a recording."""
    return path.is_dir() and not is_recording(path)


_KINDS = {"lat": "latency", "cat": "catalogue"}
#: A form with a variant spelling, such as ``latency=150us`` or ``Catalog:aws-gp3``.
_FORM = re.compile(r"\s*([a-z]+)(?:\s*+[:=]|\s)\s*+(\S(?:.*\S)?)\s*", re.I)
_TIMES = re.compile(r"\s*(?:x\s*(\d+(?:\.\d+)?)|(\d+(?:\.\d+)?)\s*(?:x|times))\s*", re.I)
_MEMORY = {"ram", "mem", "memory", "shm", "ramdisk", "ramfs"}


def refuse_blank(text: str, option: str) -> None:
    """InputError for an empty word, often of an unset variable; Path would read it as ``.``."""
    if not text.strip():
        raise TargetUnknown(f"{option} '{text}': names nothing", "is a shell variable unset?")


def suggestion(text: str, forms: str) -> str | None:
    """The likely meaning of ``text`` among ``forms``; None if no form is similar."""
    for word in (_other_form(text), *_names(text)):
        kind, colon, _ = (word or "").partition(":")
        known = word != "tmpfs" if not colon else f"{kind}:" in forms
        if word and word != text and (known or word in forms):
            return word
    return None


def _other_form(text: str) -> str | None:
    """The form for a word with a variant spelling of it, or with only its value."""
    words = (*STORAGE_WORDS, *_KINDS)
    limits = text.replace(":", "=", 1)
    if limits.startswith(("iops=", "throughput=")):
        return f"limits:{limits},latency=0.5ms"
    if (form := _FORM.fullmatch(text)) and (kinds := near_names(form[1], words)):
        return f"{_KINDS.get(kinds[0], kinds[0])}:{form[2]}"
    if times := _TIMES.fullmatch(text):
        return f"factor:{times[1] or times[2]}"
    try:
        parse_latency_s(text)
    except InputError:
        return None
    return f"latency:{text.replace(' ', '')}"


def _names(text: str) -> list[str]:
    """Similar names and paths, the most similar first."""
    if text.strip().lower() in _MEMORY or near_names(text.strip(), ["tmpfs"]):
        return ["tmpfs"]
    home = os.path.expanduser(text)
    path = Path(home) if home != text and os.path.exists(home) else near_path(Path(text))
    names = [] if path is None else [str(path)]
    if "/" not in text and not Path(text).suffix:
        from spillcast.storage.catalogue import nearest

        names += [f"catalogue:{name}" for name in nearest(text)[:1]]
    return names
