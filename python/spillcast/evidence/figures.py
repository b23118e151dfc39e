"""Reads figures of a run that the user states, and refuses plans that count only bytes."""

import re
import tomllib
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spillcast.document import key
from spillcast.document import read as read_document
from spillcast.errors import (
    ChoiceUnknown,
    EvidenceContradictory,
    EvidenceDamaged,
    EvidenceIncomplete,
    EvidenceUnsuited,
    NoTempIo,
)
from spillcast.evidence.counts import FIGURES, Counts, OpCounts, TempCounts, counts_of_figures
from spillcast.evidence.numbers import number_of, quantity_of, with_decimal_points
from spillcast.evidence.other_engines import BYTE_COUNTERS, COUNTER_HEADING
from spillcast.evidence.selection import FIGURES_PREFIX, Selection
from spillcast.evidence.table_rows import rows_of
from spillcast.evidence.text import text_of
from spillcast.evidence.unwrap import LEFT_OUT, unwrapped
from spillcast.gate import object_of, reading
from spillcast.recording import OPS
from spillcast.units import parse_bytes, parse_duration_s

_BYTES_MAX = 1 << 20
HINT = (
    "it holds elapsed_s, and count, bytes and time_s below reads and writes; threads, cpu_s and "
    "io_s where they are known"
)
_EXAMPLE = (
    "for example figures:elapsed=773s,io=430s,reads=46450,read-bytes=11G,writes=43478,"
    "write-bytes=10G"
)

#: The usual size of an operation.
_SIZE = "256K"
_FLAGS = re.IGNORECASE | re.MULTILINE
#: A comma between figures; one within a number precedes a digit.
_SEPARATOR = re.compile(r",(?!\d)")
_UNIT = re.compile("[A-Zi-z%]")
#: A line with a member of an object in JSON.
_MEMBER = re.compile(r'^[ \t]*+"\w++"\s*+:', re.MULTILINE)


@dataclass(frozen=True)
class StatedOps:
    """The reads or the writes of temp files."""

    bytes: float | None = key(
        "what they moved; default: count * operation_bytes", unit="bytes", example=11796480000,
        optional=True,
    )  # fmt: skip
    count: int | None = key(
        "number of operations; default: bytes / operation_bytes", example=46450,
        optional=True,
    )  # fmt: skip
    time_s: float | None = key(
        "how long they took, summed over all threads", unit="s", example=418.0, optional=True
    )


@dataclass(frozen=True)
class StatedFigures:
    """A file of bare figures."""

    elapsed_s: float = key("time of the whole run by the clock", unit="s", example=773.0)
    reads: StatedOps | None = key("", optional=True)
    writes: StatedOps | None = key("", optional=True)
    io_s: float | None = key(
        "time of all temp I/O, summed over all threads, if reads and writes are not separate",
        unit="s", example=430.0, optional=True,
    )  # fmt: skip
    cpu_s: float | None = key(
        "CPU time, summed over all threads", unit="s", example=338.0, optional=True
    )
    spilled_bytes: float | None = key(
        "bytes that were written to temp files once and read once, in place of reads and writes",
        unit="bytes", example=12884901888.0, optional=True,
    )  # fmt: skip
    operation_bytes: float | None = key(
        "mean size of an operation, where counts or bytes are missing", unit="bytes",
        example=262144.0, optional=True,
    )  # fmt: skip
    threads: float = key("mean number of threads at work", example=1.0, default=1.0, optional=True)


@reading(hint=HINT)
def read(path: Path, selection: Selection) -> Counts:
    """The counts of a file. InputError for damaged or impossible figures."""
    text = text_of(path, bytes_max=_BYTES_MAX)
    document = object_of(text) if text.lstrip().startswith("{") else tomllib.loads(text)
    return _counts(read_document(StatedFigures, document), selection)


def counts_of_argument(argument: str, selection: Selection) -> Counts:
    """The counts of ``figures:elapsed=62.4s,threads=8.78,reads=1792,...``. InputError."""
    with reading(argument, _EXAMPLE):
        stated = read_document(StatedFigures, _document(argument))
        return _counts(stated, selection).of_file(Path(argument))


def _document(argument: str) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for figure in _SEPARATOR.split(argument.removeprefix(FIGURES_PREFIX)):
        name, _, value = (text.strip() for text in figure.partition("="))
        if name not in _PLACES:
            raise ChoiceUnknown(
                f"{argument}: {name}: there is no such figure; figures are {', '.join(_PLACES)}",
                _EXAMPLE,
            )
        (*above, field), parse = _PLACES[name]
        part = document.setdefault(above[0], {}) if above else document
        if field in part:
            raise EvidenceContradictory(f"{name} is given twice", "give it once", argument)
        part[field] = parse(value, f"{argument}: {name}")
    return document


def _threads(value: str, where: str) -> float:
    number = number_of(value)
    # A size or a time is no count, and a comma may be a decimal one.
    if number is None or _UNIT.search(value) or "," in value:
        raise EvidenceDamaged(f"{value!r} is not a number", _EXAMPLE, where)
    return number.value


def _operations(value: str, where: str) -> int:
    number = number_of(value)
    # 8M may be bytes, and 46.450 a count with a point between its thousands.
    if number is None or _UNIT.search(value) or not number.is_count:
        hint = "write all its digits, such as reads=46450; bytes are read-bytes and write-bytes"
        raise EvidenceDamaged(f"{value!r} is not a number of operations", hint, where)
    return round(number.value)


#: The keys of a figure in a file, and its parser, by its name in an argument.
_PLACES: Mapping[str, tuple[tuple[str, ...], Callable[[str, str], float]]] = {
    **{name: ((f"{name}_s",), parse_duration_s) for name in ("elapsed", "io", "cpu")},
    "threads": (("threads",), _threads),
    "spilled": (("spilled_bytes",), parse_bytes),
    "size": (("operation_bytes",), parse_bytes),
    **{f"{op}s": ((f"{op}s", "count"), _operations) for op in OPS},
    **{f"{op}-bytes": ((f"{op}s", "bytes"), parse_bytes) for op in OPS},
    **{f"{op}-time": ((f"{op}s", "time_s"), parse_duration_s) for op in OPS},
}


def _counts(stated: StatedFigures, selection: Selection) -> Counts:
    notes = ["stated figures cannot be checked"]
    sides = stated.reads, stated.writes
    if stated.spilled_bytes is not None:
        if any(sides):
            raise EvidenceContradictory("spilled_bytes beside reads or writes", "give one")
        spilled = StatedOps(stated.spilled_bytes)
        sides = spilled, spilled
        notes.append("what was spilled is assumed to be written once and read once")
    if any(side is not None and side.count is None for side in sides):
        notes.append("the number of operations follows from the stated size of one")
    reads, writes = (_moved(side, stated.operation_bytes) for side in sides)
    if stated.io_s is not None:
        if any(side is not None and side.time_s is not None for side in sides):
            raise EvidenceContradictory("io_s beside the times of reads and writes", "give one")
        byte_s = stated.io_s / max(reads.bytes + writes.bytes, 1)
        reads, writes = (
            OpCounts.timed(ops.count, ops.bytes, byte_s * ops.bytes) for ops in (reads, writes)
        )
        notes.append("reads and writes are assumed to be equally fast per byte")
    return counts_of_figures(
        selection,
        TempCounts(reads, writes),
        elapsed_s=stated.elapsed_s,
        source=FIGURES,
        cpu_s=stated.cpu_s,
        threads=stated.threads,
        notes=notes,
    )


def _moved(stated: StatedOps | None, operation_bytes: float | None) -> OpCounts:
    if stated is None:
        return OpCounts()
    count, moved_bytes = stated.count, stated.bytes
    if count is None and moved_bytes is None:
        raise EvidenceIncomplete(
            "operations without their count and bytes", "give one of them, such as reads=46450"
        )
    if None in (count, moved_bytes) and not operation_bytes:
        raise EvidenceContradictory(
            "a count of operations or their bytes without the other",
            "give the size of one, such as size=256K on the command line",
        )
    size_bytes = operation_bytes or 0.0
    count = max(1, round((moved_bytes or 0.0) / size_bytes)) if count is None else count
    moved_bytes = count * size_bytes if moved_bytes is None else moved_bytes
    return OpCounts.timed(count, round(moved_bytes), stated.time_s)


def _sizes_by_storage(text: str, counter: str, engine: str) -> dict[str, list[float]]:
    """Bytes by the name of the storage; counters of queries and of their nodes may both occur."""
    sizes = defaultdict[str, list[float]](list)
    for match in re.finditer(counter, text, _FLAGS):
        number = re.sub(r"[\s,]", "", match[1])
        if re.fullmatch(r"\d+\.0*[1-9]\d*", number):
            # A fraction is not a number of bytes: it is another number in a sentence.
            continue
        size = re.sub(r"(?<=\d)$", "B", number)
        storage = re.search(r"to[ _](?:local|remote)|datasize", match[0].lower())
        sizes[storage[0] if storage else ""].append(quantity_of(parse_bytes, size, engine))
    return sizes


def _is_part_of_json(text: str) -> bool:
    """Whether a text begins within an object of JSON."""
    braces = re.sub("[^{}]++", "", text)
    return braces.startswith("}") or (not braces and _MEMBER.search(text) is not None)


def refuse_byte_counts(path: Path, _selection: Selection) -> Counts:
    """Raises an InputError with the figures to give in place of the plan."""
    text = unwrapped(text_of(path))
    if (heading := re.search(COUNTER_HEADING, text, _FLAGS)) is not None:
        rows = rows_of(text[heading.start() :])
        text = "\n".join(f"{name}: {cell}" for row in rows for name, cell in row.items())
    text = with_decimal_points(text)
    for engine, counter, time in BYTE_COUNTERS:
        sizes = _sizes_by_storage(text, counter, engine)
        if not sizes:
            continue
        spilled_bytes = int(sum(map(sum, sizes.values())))
        times = [match[1].replace(" ", "") for match in re.finditer(time, text, _FLAGS)]
        is_cut = LEFT_OUT.search(text) is not None or text.count("{") != text.count("}")
        # Beside a counter of the whole query is its time.
        is_cut |= not times and _is_part_of_json(text)
        # The largest size may be a rounded sum of the others; in JSON, stages are sums, too.
        limits = ((9 if "data" in name else 2.1, each) for name, each in sizes.items() if name)
        is_cut |= any(max(each) < sum(each) <= limit * max(each) for limit, each in limits)
        if not spilled_bytes and not is_cut:
            raise NoTempIo(f"this query of {engine} does not spill")
        # With several runs, the right one is unknown. A number without a unit is in milliseconds.
        is_known = len(times) == 1 and not re.fullmatch(r"\d*+\.0*+[1-9]\d*+", times[0])
        elapsed = re.sub(r"^[\d.]+$", r"\g<0>ms", times[0]) if is_known else "ELAPSED"
        spilled = "SIZE" if is_cut or len(times) > 1 else spilled_bytes
        raise EvidenceUnsuited(
            f"{engine} counts bytes of temp files and no operations",
            f"give its figures and the size of an operation: "
            f"{FIGURES_PREFIX}elapsed={elapsed},spilled={spilled},size={_SIZE}",
        )
    raise ValueError("no counter of spilled bytes")
