"""A storage looked at: its figures, how its latencies are spread, what that may mean."""

from collections.abc import Sequence
from string import ascii_uppercase

from spillcast.report.histogram import histogram_text
from spillcast.report.page import Drawn, Page, Part, Words
from spillcast.report.storage import figures, measured_parts
from spillcast.report.storage_words import (
    ability_words,
    limits_words,
    origin_words,
    provenance_words,
)
from spillcast.report.table import Column, Table
from spillcast.storage import Group, Storage
from spillcast.storage.description import Shape, ability, shape
from spillcast.storage.model import Estimate, Model
from spillcast.units import format_bytes, format_count, format_duration

#: So many other groups of several peaks are told of.
OTHERS_MAX = 8


def show_page(storage: Storage, ops: Sequence[str], size_bytes: int | None) -> Page:
    """Everything about some ops; histograms of ``size_bytes``, or where most time went."""
    only = Storage(storage.name, storage.source, _groups(storage, ops), storage.facts)
    parts: list[Part] = []
    if storage.source.stated:
        parts.append(
            Words([f"{storage.name} ({origin_words(storage)})", *_facts_text(storage)], "  ")
        )
        parts += [_stated(storage, ops), Words(["  one operation at a time"])]
    else:
        parts += measured_parts(only)
        origins = filter(None, (origin_words(storage), provenance_words(storage)))
        parts.append(Words([f"  {words}" for words in origins], "  "))
        for op in ops:
            parts += _op_parts(storage, op, size_bytes)
    if size_bytes is not None:
        lines = [text for op in ops if (text := _size_words(storage, op, size_bytes))]
        parts += [Words(lines)] if lines else []
    if limits := limits_words(storage):
        parts.append(Words([f"limits: {limits}"], "  "))
    if not storage.source.stated:
        words = [text for op in ops if (text := ability_words(op, ability(storage, op)))]
        parts += [Words(words, "  ")] if words else []
    return Page(parts, figures(only))


def _shown_group(storage: Storage, op: str, size_bytes: int | None) -> Group | None:
    """The group whose histogram stands for an op, of a size where one is given.

    Of what was recorded that with the most time. Of a grid the smallest size and depth, which show
    the storage's own latency best; buffered before direct, random before sequential.
    """
    groups = [g for g in _groups(storage, [op]) if size_bytes in (None, g.size_class_bytes)]

    def order(group: Group) -> tuple[bool, bool, int, int, int]:
        recorded = group.pattern == "recorded"
        return (
            group.access != "buffered",
            group.pattern == "sequential",
            0 if recorded else group.size_class_bytes,
            0 if recorded else group.depth,
            -group.total_ns,
        )

    return min(groups, key=order, default=None)


def _groups(storage: Storage, ops: Sequence[str]) -> list[Group]:
    return [group for op in ops for group in storage.of(op) if group.count]


def _facts_text(storage: Storage) -> list[str]:
    """What the catalogue says of a storage."""
    facts = storage.facts
    lines = [str(facts[key]) for key in ("description", "source") if key in facts]
    return [*lines, *(f"assumed: {text}" for text in facts.get("assumed", ()))]


def _op_parts(storage: Storage, op: str, size_bytes: int | None) -> list[Part]:
    group = _shown_group(storage, op, size_bytes)
    if group is None:
        return []
    op_shape = shape(group)
    many = len(op_shape.peaks) > 1
    letters = dict(zip(ascii_uppercase, op_shape.peaks, strict=False)) if many else {}
    marks = {peak.mode_s * 1e9: letter for letter, peak in letters.items()}

    def draw(width: int) -> str:
        bars = histogram_text(group.latency_ns, group.latency_count, width=width, marks=marks)
        return f"{_title(group)}: {format_count(group.count, 'operation')}\n{bars}"

    lines = [*_shape_lines(op_shape, "".join(letters)), *_others(storage, op, group)]
    return [Drawn(draw), *([Words(lines)] if lines else [])]


def _title(group: Group) -> str:
    """Such as ``read 256 KiB, random, direct, depth 4``, as far as it tells groups apart."""
    parts = [f"{group.op} {format_bytes(group.size_class_bytes)}"]
    if group.pattern != "recorded":
        parts += [group.pattern, group.access, f"depth {group.depth}"]
    return ", ".join(parts)


def _shape_lines(shape: Shape, letters: str) -> list[str]:
    named = f"{', '.join(letters)}: " if letters else ""
    return [f"  {named}{shape.words}", *([f"  {shape.cause}"] if shape.cause else [])]


def _others(storage: Storage, op: str, shown: Group) -> list[str]:
    """Groups besides the one shown that have several peaks."""
    others = [g for g in _groups(storage, [op]) if g is not shown]
    several = [other for other in map(shape, others) if len(other.peaks) > 1]
    lines = [f"  {_title(other.group)}: {other.words}" for other in several[:OTHERS_MAX]]
    if len(several) > OTHERS_MAX:
        more = len(several) - OTHERS_MAX
        lines.append(f"  and {more:,} more of several peaks, see --json")
    return lines


def _size_words(storage: Storage, op: str, size_bytes: int) -> str:
    """What a size takes that may not have been measured; nothing where the table has it."""
    estimate = Model(storage).latency(op, size_bytes)
    if estimate.measured:
        return ""
    return (
        f"  {op} {format_bytes(size_bytes)}: about {format_duration(estimate.mean_s)}, "
        f"{_known_words(estimate, storage)}"
    )


def _known_words(estimate: Estimate, storage: Storage) -> str:
    """Where an estimate comes from, and its error."""
    if estimate.measured:
        return "stated" if storage.source.stated else "measured"
    where = "beyond the measured" if estimate.extrapolated else "between the measured"
    if storage.source.stated:
        where = where.replace("measured", "stated")
    return f"{where}, give or take {100 * estimate.error:.0f} %"


_STATED = (
    Column("op", None),
    Column("size", None, "bytes"),
    Column("sequential", None, "s"),
    Column("random", None, "s"),
)


def _stated(storage: Storage, ops: Sequence[str]) -> Table:
    """Mean latencies by op and size, sequential and random, one operation at a time."""
    model = Model(storage)
    sizes = sorted({g.size_class_bytes for g in _groups(storage, ops)})
    rows = [
        [op, size, *(model.latency(op, size, sequential=order).mean_s for order in (True, False))]
        for op in ops
        for size in sizes
    ]
    return Table(_STATED, rows)
