"""Which run of a file is meant: by an option, or the only one."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Generic, TypeVar

from spillcast.errors import EvidenceAmbiguous, InputError, SelectionEmpty
from spillcast.tabular import aligned
from spillcast.text import one_line
from spillcast.units import format_bytes, format_duration, parse_bytes

#: Bare figures on the command line begin so.
WORD = "figures:"
BLOCK_BYTES = 8192
LISTED = 8
Run = TypeVar("Run")


def is_word(text: str) -> bool:
    """Whether an argument is bare figures and no file."""
    return text.startswith(WORD)


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which run of a file is meant, and what is known better than the file knows it.

    ``elapsed_s`` is the time of the run, ``block`` the size of Oracle's blocks, ``temp_dirs`` the
    directories of a recording's temp files. Times of temp I/O that the file lacks have bounds if
    ``timed``, else they are left out.
    """

    elapsed_s: float | None = None
    timed: bool = True
    item: int | None = None
    queryid: str | None = None
    sql_id: str | None = None
    exec_id: int | None = None
    block: str | None = None
    temp_dirs: Sequence[str | Path] = ()

    @property
    def block_bytes(self) -> int:
        """The size of a block, by default 8 KiB."""
        return BLOCK_BYTES if self.block is None else parse_bytes(self.block, "--block")


#: The only run of a file.
ONLY = Selection()


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """What is asked of samples of ASH, or by time of traces; None leaves all.

    ``since`` and ``until`` are times as the evidence has them, both included, times of its day or,
    of a trace, how long after its first line.
    """

    sql_id: str | None = None
    exec_id: int | None = None
    since: str | None = None
    until: str | None = None


#: All of the evidence.
ALL = Chosen()


@dataclass(frozen=True)
class Item(Generic[Run]):
    """A run of a file with what it is known by; ``plan`` is the hash value of its plan.

    ``size_bytes`` is that of its temp I/O, and ``text`` its statement.
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


#: Characters of a statement in a list.
TEXT_MAX = 48
#: Columns of a list, and the option that each is chosen with.
_COLUMNS = {
    "sql_id": "sql-id", "exec_id": "exec-id", "plan": "plan hash value", "session": "session",
}  # fmt: skip


def pick(
    path: Path,
    items: Sequence[Item[Run]],
    selection: Selection,
    beside: str = "",
    *,
    title: str = "statement",
) -> Run:
    """The selected run, or the only one. InputError lists several by temp I/O or by time.

    ``beside`` is what else selects one, and follows a hint. ``title`` heads the column of texts.
    """
    left = list(enumerate(items, start=1))
    for name in ("sql_id", "exec_id"):
        wanted = getattr(selection, name)
        if wanted is None:
            continue
        left = [(at, item) for at, item in left if getattr(item, name) == str(wanted)]
        if not left:
            known = dict.fromkeys(getattr(item, name) for item in items)
            names = ", ".join([name for name in known if name][:LISTED]) or "none"
            raise SelectionEmpty(
                f"{path}: no run has {_COLUMNS[name]} {wanted}", f"there are: {names}"
            )
    if selection.item is not None:
        left = [(at, item) for at, item in left if at == selection.item]
        if not left:
            raise SelectionEmpty(
                f"{path}: there is no item {selection.item}", f"there are {len(items):,}"
            )
    if len(left) == 1:
        return left[0][1].run
    raise _several(path, left, beside, title)


def ambiguous(
    summary: str, names: Sequence[str], rows: Sequence[Sequence[str]], total: int, hint: str
) -> InputError:
    """An error that asks to select a run, with a list of the first rows."""
    lines = aligned([names, *rows[:LISTED]], right=True)
    lines += [f"and {total - LISTED:,} more"] * (total > LISTED)
    return EvidenceAmbiguous("\n    ".join([summary, *lines]), hint)


def _several(
    path: Path, left: Sequence[tuple[int, Item[Run]]], beside: str, title: str
) -> InputError:
    by_size, by_text = (any(getattr(item, of) for _, item in left) for of in ("size_bytes", "text"))
    largest = sorted(left, key=lambda its: (-its[1].size_bytes, -(its[1].elapsed_s or 0.0)))
    names = [name for name in _COLUMNS if any(getattr(item, name) for _, item in left)]
    rows = [
        (
            f"{at}",
            *(getattr(item, name) or "-" for name in names),
            "-" if item.elapsed_s is None else format_duration(item.elapsed_s),
            *[format_bytes(item.size_bytes)] * by_size,
            *[one_line(item.text, TEXT_MAX)] * by_text,
        )
        for at, item in largest[:LISTED]
    ]
    telling = [
        f"--{_COLUMNS[name]}"
        for name in names
        if name in ("sql_id", "exec_id") and len({getattr(i, name) for _, i in left}) == len(left)
    ]
    columns = [*(_COLUMNS[name] for name in names), "elapsed"]
    columns += ["temp I/O"] * by_size + [title] * by_text
    spilling = sum(item.size_bytes > 0 for _, item in left)
    count = f"{len(left):,} runs"
    if 0 < spilling < len(left):
        count += f", of which {spilling:,} spill"
    order = "the most temp I/O" if by_size else "the longest"
    hint = f"name one with {telling[0] if telling else '--item'}{beside}"
    return ambiguous(f"{path}: {count}, {order} first:", ("item", *columns), rows, len(left), hint)
