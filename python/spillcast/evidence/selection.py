"""Selects the run of a file that options name, or its only run; an error lists several runs."""

import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Generic, TypeVar

from spillcast.errors import EvidenceAmbiguous, InputError, OptionInvalid, SelectionEmpty
from spillcast.tabular import aligned
from spillcast.text import one_line
from spillcast.units import format_bytes, format_duration, parse_bytes

#: The prefix of an argument that states figures.
FIGURES_PREFIX = "figures:"
#: A hint to state the elapsed time and the spilled bytes of a run.
FIGURES_HINT = (
    "if you know how long one run took, and what it spilled: "
    f"{FIGURES_PREFIX}elapsed=ELAPSED,spilled=SIZE,size=256K"
)
#: Oracle's default size of a block, and the sizes that it supports.
BLOCK_BYTES = 8192
BLOCK_SIZES = tuple(1 << power for power in range(11, 16))
#: The maximum number of runs that an error lists.
LISTED_MAX = 8
Run = TypeVar("Run")


def is_stated(text: str) -> bool:
    """Whether an argument states figures rather than a path."""
    return text.startswith(FIGURES_PREFIX)


def is_address(text: str) -> bool:
    """Whether an argument is an address that fsspec opens, such as ``s3://logs/app-1``."""
    return re.match(r"[a-z][a-z0-9+]+://", text) is not None


def parse_block(text: str) -> int:
    """Bytes from ``16K``. InputError for a size that no Oracle block has."""
    size = parse_bytes(text, "--block")
    if size not in BLOCK_SIZES:
        known = ", ".join(f"{size >> 10}K" for size in BLOCK_SIZES)
        raise OptionInvalid(f"--block {text}: not a block size", f"choose one of {known}")
    return size


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Selects a run of a file, and adds or replaces figures of the file.

    ``elapsed_s`` is the time of the run, ``block`` the size of Oracle's blocks, ``temp_dirs`` the
    directories of a recording's temp files. Times of temp I/O that the file lacks get bounds if
    ``timed``; otherwise they are left out.
    """

    elapsed_s: float | None = None
    timed: bool = True
    item: int | None = None
    queryid: str | None = None
    sql_id: str | None = None
    exec_id: int | None = None
    block: str | None = None
    temp_dirs: str | Path | Sequence[str | Path] = ()

    @property
    def block_bytes(self) -> int:
        """The size of a block, by default 8 KiB. InputError as for ``parse_block``."""
        return BLOCK_BYTES if self.block is None else parse_block(self.block)


#: Selects the only run of a file.
ONLY_RUN = Selection()


@dataclass(frozen=True, kw_only=True)
class Filter:
    """Selects samples of ASH, or a time of traces; None does not restrict.

    ``since`` and ``until`` are inclusive: times as the evidence prints them, times of its day or,
    for a trace, durations since its first line.
    """

    sql_id: str | None = None
    exec_id: int | None = None
    since: str | None = None
    until: str | None = None


NO_FILTER = Filter()


@dataclass(frozen=True)
class SelectableRun(Generic[Run]):
    """A run of a file with its identifiers; ``plan`` is the hash value of its plan.

    ``size_bytes`` is the size of its temp I/O, and ``text`` is its statement.
    """

    run: Run
    elapsed_s: float | None
    sql_id: str | None = None
    exec_id: str | None = None
    plan: str | None = None
    session: str | None = None
    _: KW_ONLY
    size_bytes: int = 0
    text: str = ""


#: The maximum length of a statement in a list.
TEXT_MAX = 48
#: Headings of a list by field of ``SelectableRun``; for sql_id and exec_id, also option names.
_COLUMNS = {
    "sql_id": "sql-id", "exec_id": "exec-id", "plan": "plan hash value", "session": "session",
}  # fmt: skip


def select(
    items: Sequence[SelectableRun[Run]],
    selection: Selection,
    beside: str = "",
    *,
    title: str = "statement",
) -> Run:
    """The selected run, or the only one. InputError lists several, by temp I/O or by time.

    ``beside`` follows a hint and describes other ways to select. ``title`` is the heading of texts.
    """
    left = list(enumerate(items, start=1))
    for name in ("sql_id", "exec_id"):
        wanted = getattr(selection, name)
        if wanted is None:
            continue
        left = [(at, item) for at, item in left if getattr(item, name) == str(wanted)]
        if not left:
            values = dict.fromkeys(getattr(item, name) for item in items)
            few = ", ".join([value for value in values if value][:LISTED_MAX]) or "none"
            raise SelectionEmpty(f"no run has {_COLUMNS[name]} {wanted}", f"there are: {few}")
    if selection.item is not None:
        left = [(at, item) for at, item in left if at == selection.item]
        if not left:
            raise SelectionEmpty(f"there is no item {selection.item}", f"there are {len(items):,}")
    if len(left) == 1:
        return left[0][1].run
    raise _several(left, beside, title)


def ambiguous(
    summary: str, names: Sequence[str], rows: Sequence[Sequence[str]], total: int, hint: str
) -> InputError:
    """The error for several runs, with a list of the first ``rows`` of ``total``."""
    lines = aligned([names, *rows[:LISTED_MAX]], right=True)
    lines += [f"and {total - LISTED_MAX:,} more"] * (total > LISTED_MAX)
    return EvidenceAmbiguous("\n    ".join([summary, *lines]), hint)


def _several(left: Sequence[tuple[int, SelectableRun[Run]]], beside: str, title: str) -> InputError:
    has_size = any(item.size_bytes for _, item in left)
    has_text = any(item.text for _, item in left)
    largest = sorted(left, key=lambda pair: (-pair[1].size_bytes, -(pair[1].elapsed_s or 0.0)))
    names = [name for name in _COLUMNS if any(getattr(item, name) for _, item in left)]
    rows = [
        (
            f"{at}",
            *(getattr(item, name) or "-" for name in names),
            "-" if item.elapsed_s is None else format_duration(item.elapsed_s),
            *[format_bytes(item.size_bytes)] * has_size,
            *[one_line(item.text, TEXT_MAX)] * has_text,
        )
        for at, item in largest[:LISTED_MAX]
    ]
    # An option is a remedy if it has a different value for each run.
    options = [
        f"--{_COLUMNS[name]}"
        for name in names
        if name in ("sql_id", "exec_id") and len({getattr(i, name) for _, i in left}) == len(left)
    ]
    columns = [*(_COLUMNS[name] for name in names), "elapsed"]
    columns += ["temp I/O"] * has_size + [title] * has_text
    spilling = sum(item.size_bytes > 0 for _, item in left)
    count = f"{len(left):,} runs"
    if 0 < spilling < len(left):
        count += f", of which {spilling:,} spill"
    order = "the most temp I/O" if has_size else "the longest"
    hint = f"name one with {options[0] if options else '--item'}{beside}"
    return ambiguous(f"{count}, {order} first:", ("item", *columns), rows, len(left), hint)
