"""The result of a profile: rows of time, grouped by a key."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from spillcast.document import PrintedDocument, internal, later
from spillcast.tabular import Column, Display, Tabular
from spillcast.units import format_duration

if TYPE_CHECKING:
    from spillcast.tables import Table


#: Columns of quantiles of latencies.
QUANTILES = {"p50_us": 0.5, "p95_us": 0.95, "p99_us": 0.99}
_LATENCIES = ("mean_us", *QUANTILES, "max_us")
#: Sessions count as parallel if the sum of the rows exceeds the elapsed time by this share.
_SIDE_BY_SIDE = 0.01
#: Names that rows may be grouped by, and their names in a trace.
DIMENSIONS = {
    "event": None,
    "op": "op",
    "size": "blocks",
    "file": "file",
    "object": "object",
    "sql": "sql",
    "session": "session",
    "second": "second",
    "minute": "minute",
}
#: Further columns by which waits of a trace may be grouped, and their names in a trace.
COLUMNS = {
    name: name for name in ("idle", "temp", "blocks", "bytes", "cursor", "p1", "p2", "p3")
} | {"sql_id": "sql"}
#: Names whose rows are not waits: lines of a plan, calls of a trace, and functions in samples of
#: stacks.
ROW_SOURCE, CALL, FUNCTION = "row-source", "call", "function"


class ExecutionFigures(TypedDict, total=False):
    """The keys of an execution in ASH samples that are figures."""

    elapsed_s: float | None
    samples: int | None


class RowFigures(TypedDict, total=False):
    """The keys of a row for all kinds of evidence; None for unknown figures."""

    count: int | None
    count_share: float | None
    total_us: float | None
    share: float | None
    min_us: float | None
    mean_us: float | None
    p50_us: float | None
    p95_us: float | None
    p99_us: float | None
    max_us: float | None
    latency_us: float | None
    n_est: float | None
    size: int | None
    rows: int | None
    starts: int | None
    temp_read_bytes: int | None
    temp_written_bytes: int | None
    temp_share: float | None
    cpu_us: float | None
    reads: int | None
    consistent_gets: int | None
    current_gets: int | None
    misses: int | None
    with_callees_us: float | None
    with_callees_share: float | None
    value: float | None
    per_second_max: float | None
    accumulated: float | None


#: A row: its figures, and the columns by which rows are grouped.
ProfileRow = Annotated[dict[str, Any], RowFigures]
ExecutionRow = Annotated[dict[str, Any], ExecutionFigures]
#: Latencies (ns), and the number of waits with each.
LatencyCounts = tuple[Sequence[int], Sequence[int]]


@dataclass(frozen=True, repr=False)
class Profile(PrintedDocument, Tabular):
    """Rows of time, in descending order of total time, idle ones last.

    Every row has the keys of ``by``, ``op``, ``idle``, ``count``, ``total_us``, ``share`` (of
    ``elapsed_s``), ``min_us``, ``mean_us``, quantiles, ``max_us`` and ``longest_at``; rows of ASH
    also have ``latency_us`` and ``n_est``. ``histograms`` has one for each row, or none for ASH.
    ``executions`` are the executions in ASH samples, if there are several. Rows of plan lines and
    of calls have other columns. ``words`` are conclusions in sentences.
    """

    SCHEMA = "spillcast.profile/1"
    by: Sequence[str]
    elapsed_s: float
    rows: "Sequence[ProfileRow]"
    damaged: Sequence[dict[str, Any]] = later(())
    warnings: Sequence[str] = later(())
    executions: "Sequence[ExecutionRow]" = later(())
    words: Sequence[str] = later(())
    histograms: Sequence[LatencyCounts] = internal(())

    def elapsed_text(self) -> str:
        """The elapsed time, and the sum of the rows if sessions ran in parallel."""
        active = [row for row in self.rows if not row.get("idle")]
        # If rows were cut off, a share gives the total of all rows.
        wholes_s = [row["total_us"] / row["share"] / 1e6 for row in active if row.get("share")]
        whole_s = next(iter(wholes_s), 0.0)
        busy_s = max(sum(row.get("total_us") or 0 for row in active) / 1e6, whole_s)
        elapsed, busy = format_duration(self.elapsed_s), format_duration(busy_s)
        words = f"{elapsed} of elapsed time"
        if busy_s <= (1 + _SIDE_BY_SIDE) * self.elapsed_s:
            return words
        whole = busy if whole_s > (1 + _SIDE_BY_SIDE) * self.elapsed_s else elapsed
        return f"{words}; parallel sessions spent {busy}; shares are of the {whole}"

    def sorted(self) -> "Profile":
        """The same rows and histograms, in descending order of total time, idle ones last."""
        keys = [(bool(row.get("idle")), -row["total_us"]) for row in self.rows]
        ranked = sorted(range(len(keys)), key=keys.__getitem__)
        histograms = [self.histograms[at] for at in ranked] if self.histograms else ()
        return replace(self, rows=[self.rows[at] for at in ranked], histograms=histograms)

    def top(self, rows: int | None) -> "Profile":
        """The first ``rows`` rows; None for all."""
        return replace(self, rows=self.rows[:rows], histograms=self.histograms[:rows])

    def to_arrow(self) -> "Table":
        """The rows, with the columns of a profile's rows in docs/schema.md."""
        from spillcast import columns
        from spillcast.tables import Table

        names = dict.fromkeys(name for row in self.rows for name in row)
        return Table(
            {
                name: columns.ColumnValues.of(
                    [row.get(name) for row in self.rows], _column_type(name)
                )
                for name in names
            }
        )

    def display(self) -> Display:
        """The rows as a table; statistics have all their columns."""
        if any("value" in row for row in self.rows):
            headline, columns = None, [Column(name, name, "raw") for name in self.rows[0]]
        else:
            headline = self.elapsed_text()
            columns = [Column(name, name, "size" if name == "size" else "text") for name in self.by]
            columns += [
                Column("total", "total_us", "us"),
                Column("share", "share", "percent1"),
                Column("count", "count", "count"),
                *(Column(name.removesuffix("_us"), name, "us") for name in _LATENCIES),
                Column("unbiased", "latency_us", "us"),
            ]
        rows = [[row.get(column.key or "") for column in columns] for row in self.rows]
        return Display(headline, columns, rows, [f"Warning: {text}" for text in self.warnings])


def with_shares(rows: Sequence[dict[str, Any]], elapsed_s: float) -> list[dict[str, Any]]:
    """Rows with their shares of the time of all sessions, which is at least ``elapsed_s``.

    Waits of idle threads have no share.
    """
    busy_us = max(sum(row["total_us"] for row in rows if not row["idle"]), elapsed_s * 1e6)
    return [
        row | {"share": row["total_us"] / busy_us if busy_us and not row["idle"] else None}
        for row in rows
    ]


def bare_row(total_us: float, elapsed_us: float) -> dict[str, Any]:
    """The figures of a row of time without timed operations."""
    unknown = dict.fromkeys(("count", "min_us", "mean_us", *QUANTILES, "max_us", "longest_at"))
    share = total_us / elapsed_us if elapsed_us else None
    return {"op": None, "idle": False, **unknown, "total_us": round(total_us), "share": share}


def _column_type(name: str) -> str | None:
    """The type of a column; None if it is derived from the values."""
    if name in {"event", "op", "file", "sql", "longest_at"}:
        return "string"
    if name in {"size", "object", "session", "second", "minute", "count"}:
        return "int64"
    if name == "idle":
        return "bool"
    if name.endswith("_us") or name in {"share", "share_of_sql", "count_share", "n_est"}:
        return "float64"
    return None


def split_by(text: str) -> list[str]:
    """The parts between commas outside brackets and quotes."""
    parts, depth, quote = [""], 0, ""
    for char in text:
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append("")
            continue
        parts[-1] += char
    return [part.strip() for part in parts]
