"""One source -> its rows in the dataset, or the reason for its rejection."""

from collections.abc import Callable, Iterable, Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spillcast.errors import EvidenceUnsuited, FileTooLarge, InputError, Refusal
from spillcast.evidence.find import find_evidence
from spillcast.evidence.oracle.ash import read_ash
from spillcast.fleet import identity
from spillcast.fleet.ash import KINDS as ASH_KINDS
from spillcast.fleet.ash import database_of_export, facts_of_ash
from spillcast.fleet.dataset import FACTS_FOLDER, RUNS_FOLDER
from spillcast.fleet.identity import Identity
from spillcast.fleet.runs import PLAN, RECORDING, pack
from spillcast.fleet.schema import UNKNOWN
from spillcast.fleet.sources import Source, content_hash
from spillcast.fleet.traces import KIND as TRACE
from spillcast.fleet.traces import facts_of_trace, read_trace
from spillcast.gate import COUNT_MAX, damaged, reading
from spillcast.recording import Recording
from spillcast.visible import visible

#: Damaged lines of a source to keep for display.
_DAMAGE_KEPT = 20
#: A CSV export passes through memory whole, at some ten times its size.
_ASH_BYTES_MAX = 64 << 20
#: From this size on a second thread pays off.
_LARGE_BYTES = 16 << 20

_SUMS = ("count", "total_us", "blocks", "blocks_count", "sampled_us", "waits_e6")

#: Folder of parts, database and day: the rows of one part.
Shelf = tuple[str, str, str]


@dataclass(frozen=True)
class Taken:
    """Holds a row of SOURCES without its parts, and rows by shelf; None for a duplicate."""

    source: str
    row: dict[str, Any] | None
    shelves: dict[Shelf, list[dict[str, Any]]] = field(default_factory=dict)


def take(source: Source, known: Set[str], sizes: Set[int], database: str | None) -> Taken:
    """Read one source. OSError if its bytes are unreadable; the row reports any damage.

    ``known`` are the content hashes of what was taken before, ``sizes`` (bytes) may leave out what
    this ingest took. A large source that has none of these sizes is hashed while it is read.
    """
    with source.local() as path:
        if source.bytes < _LARGE_BYTES or source.bytes in sizes:
            content = content_hash(path)
            if content in known:
                return Taken(content, None)
            return _read(source, path, lambda: content, database)
        with ThreadPoolExecutor(1) as beside:
            return _read(source, path, beside.submit(content_hash, path).result, database)


def _read(source: Source, path: Path, content: Callable[[], str], database: str | None) -> Taken:
    row: dict[str, Any] = {
        "name": visible(source.name),
        "bytes": source.bytes,
        "set_aside": None,
        "damaged": 0,
        "damage": [],
    }
    shelves: dict[Shelf, list[dict[str, Any]]] = {}
    try:
        with reading(path):
            by_shelf = _shelves(path, content, database, row)
            for (folder, _, _), rows in by_shelf.items():
                if folder == FACTS_FOLDER:
                    _check_facts(path, rows)
            shelves = by_shelf
    except (InputError, Refusal) as error:
        # The name is stored separately, and that of a downloaded copy is meaningless.
        reason = error.message.removeprefix(f"{path}: ").replace(str(path), source.name)
        hint = f"; {error.hint}" if error.hint else ""
        row["set_aside"] = visible(reason + hint)
    return Taken(content(), {"source": content(), **row}, shelves)


def _shelves(
    path: Path, content: Callable[[], str], database: str | None, row: dict[str, Any]
) -> dict[Shelf, list[dict[str, Any]]]:
    kind = find_evidence([path]).only_kind()
    row["kind"] = kind
    if kind == "traces":
        who = identity.of_trace(path).named(database)
        _name(row, TRACE, who)
        read = read_trace(path)
        damage = [(line["line"], line["what"]) for line in read.damaged()]
        _tell_damage(row, read.damaged_count(), damage)
        return {(FACTS_FOLDER, who.database, who.day): facts_of_trace(read, content(), who)}
    if kind == "ash":
        if path.stat().st_size > _ASH_BYTES_MAX and path.suffix.lower() == ".csv":
            raise FileTooLarge(
                f"an export of more than {_ASH_BYTES_MAX >> 20} MiB", "export each day by itself"
            )
        ash = read_ash(path)
        who = Identity(database or database_of_export(path))
        _name(row, ASH_KINDS[ash.source], who)
        _tell_damage(
            row,
            len(ash.damaged),
            [(damage_line.line, damage_line.text) for damage_line in ash.damaged],
        )
        by_day = facts_of_ash(ash, content(), who)
        return {(FACTS_FOLDER, who.database, day): rows for day, rows in by_day.items()}
    if kind == "recordings":
        recording = Recording.open(path)
        who = identity.of_recording(recording.meta).named(database)
        # Detects damaged tables now rather than in a later forecast.
        _ = recording.seconds, recording.waits, recording.samples
        _name(row, RECORDING, who)
    elif kind == "plans":
        who = Identity().named(database)
        _name(row, PLAN, who)
    elif kind == "figures":
        raise EvidenceUnsuited(
            "figures of a run: spillcast forecast reads them, a dataset does not"
        )
    else:
        raise EvidenceUnsuited("sums over many queries: no single query can be forecast")
    return {(RUNS_FOLDER, who.database, who.day): [pack(path, row["kind"], content(), who)]}


def _check_facts(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """InputError for sums that would make the dataset unreadable."""
    for row in rows:
        for name in _SUMS:
            if not 0 <= row[name] <= COUNT_MAX:
                raise damaged(path, f"{name} of {row['event'] or 'all'} is {row[name]:,}")
        if max(row["latency_ns"], default=0) > COUNT_MAX:
            raise damaged(path, f"a wait for {row['event']} took {max(row['latency_ns']):,} ns")


def _name(row: dict[str, Any], kind: str, who: Identity) -> None:
    row.update(kind=kind, database=who.database, host=who.host, instance=who.instance)


def _tell_damage(row: dict[str, Any], count: int, lines: list[tuple[int, str]]) -> None:
    row["damaged"] = count
    row["damage"] = [{"line": line, "what": problem} for line, problem in lines[:_DAMAGE_KEPT]]


def order_of(source: Source) -> tuple[str, str, str]:
    """Sort by database and day, so that their traces share parts."""
    if source.is_remote or ".trc" not in source.name.lower():
        return UNKNOWN, UNKNOWN, source.name
    try:
        who = identity.of_trace(Path(source.name))
    except OSError:
        return UNKNOWN, UNKNOWN, source.name
    return who.database, who.day, source.name
