"""The result of a profile: rows of time, grouped by a key."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from spillcast.document import internal, later, written
from spillcast.tabular import Column, Display, Tabular
from spillcast.units import format_duration

if TYPE_CHECKING:
    from spillcast.tables import Table


PROFILE_SCHEMA = "spillcast.profile/1"
#: Shares of the operations below which the quantile columns lie.
QUANTILES = {"p50_us": 0.5, "p95_us": 0.95, "p99_us": 0.99}
_LATENCIES = ("mean_us", *QUANTILES, "max_us")
#: Rows that sum to so much more than the elapsed time are of sessions side by side.
_SIDE_BY_SIDE = 0.01
#: What rows may be counted by, and what it is called in a trace.
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
#: What waits of a trace may be counted by besides: columns of theirs, as they are called there.
COLUMNS = {
    name: name for name in ("idle", "temp", "blocks", "bytes", "cursor", "p1", "p2", "p3")
} | {"sql_id": "sql"}
#: By which plan lines are counted, and calls of a trace: with other rows than waits.
ROW_SOURCE, CALL = "row-source", "call"
#: By which the CPU time of a recording is counted, from samples of stacks.
FUNCTION = "function"


class Figures(TypedDict, total=False):
    """The keys of a row that every kind of evidence has, None where they are unknown."""

    count: int | None
    total_us: float | None
    share: float | None
    mean_us: float | None
    p50_us: float | None
    p95_us: float | None
    p99_us: float | None
    max_us: float | None
    latency_us: float | None


#: A row as the program has it; it also has the columns that rows are counted by.
Row = Annotated[dict[str, Any], Figures]
#: Latencies (ns) and how many waits there are of each.
LatencyCounts = tuple[Sequence[int], Sequence[int]]


@dataclass(frozen=True, repr=False)
class Profile(Tabular):
    """Rows of time, the largest total first.

    Every row has the keys of ``by``, ``op``, ``idle``, ``count``, ``total_us``, ``share`` (of
    ``elapsed_s``), ``min_us``, ``mean_us``, quantiles, ``max_us`` and ``longest_at``; rows of ASH
    also have ``latency_us`` and ``n_est``. ``histograms`` has one per row; ASH has none.
    ``executions`` are those of the ASH samples, if there are several. Rows of plan lines and of
    calls have other columns; ``words`` are conclusions in words.
    """

    by: Sequence[str]
    elapsed_s: float
    rows: "Sequence[Row]"
    damaged: Sequence[dict[str, Any]] = later(())
    warnings: Sequence[str] = later(())
    executions: Sequence[dict[str, Any]] = later(())
    words: Sequence[str] = later(())
    histograms: Sequence[LatencyCounts] = internal(())

    def elapsed_words(self) -> str:
        """The time that shares refer to, and the sum of the rows if that is more."""
        return elapsed_words(self.elapsed_s, self.rows)

    def sorted(self) -> "Profile":
        """The same rows with their histograms, the largest total first."""
        ranked = sorted(range(len(self.rows)), key=lambda at: -self.rows[at]["total_us"])
        return replace(
            self,
            rows=[self.rows[at] for at in ranked],
            histograms=[self.histograms[at] for at in ranked],
        )

    def top(self, rows: int | None) -> "Profile":
        """Only the first ``rows`` rows; None for all."""
        return replace(self, rows=self.rows[:rows], histograms=self.histograms[:rows])

    def to_json(self) -> dict[str, Any]:
        """The document of docs/schema.md."""
        return {"schema": PROFILE_SCHEMA, **written(self)}

    def to_arrow(self) -> "Table":
        """The rows, with the columns of a profile's rows in docs/schema.md."""
        from spillcast import columns
        from spillcast.tables import Table

        names = dict.fromkeys(name for row in self.rows for name in row)
        return Table(
            {
                name: columns.Column.of([row.get(name) for row in self.rows], _column_type(name))
                for name in names
            }
        )

    def display(self) -> Display:
        """The rows of a profile as a table, statistics as they are."""
        if any("value" in row for row in self.rows):
            headline, columns = None, [Column(name, name, "raw") for name in self.rows[0]]
        else:
            headline = self.elapsed_words()
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


def elapsed_words(elapsed_s: float, rows: Sequence[Mapping[str, Any]]) -> str:
    """The elapsed time, and the sum over parallel sessions that the rows of a profile add up to."""
    busy_s = sum(row.get("total_us") or 0 for row in rows if not row.get("idle")) / 1e6
    words = f"{format_duration(elapsed_s)} of elapsed time"
    if busy_s <= (1 + _SIDE_BY_SIDE) * elapsed_s:
        return words
    spent = format_duration(busy_s)
    shares = [row["share"] for row in rows if row.get("share") and not row.get("idle")]
    of = spent if shares and sum(shares) <= 1 + _SIDE_BY_SIDE else format_duration(elapsed_s)
    return f"{words}; sessions side by side spent {spent}; shares are of the {of}"


def with_shares(rows: Sequence[dict[str, Any]], elapsed_s: float) -> list[dict[str, Any]]:
    """Rows with their shares of what sessions spent, which is no less than ``elapsed_s``.

    Waits of idle threads are not part of it.
    """
    busy_us = max(sum(row["total_us"] for row in rows if not row["idle"]), elapsed_s * 1e6)
    return [
        row | {"share": row["total_us"] / busy_us if busy_us and not row["idle"] else None}
        for row in rows
    ]


def bare_row(total_us: float, elapsed_us: float) -> dict[str, Any]:
    """A row of time that is not made of timed operations, without its keys."""
    nothing = dict.fromkeys(
        ("count", "min_us", "mean_us", *QUANTILES, "max_us", "longest_at"), None
    )
    share = total_us / elapsed_us if elapsed_us else None
    return {
        "op": None,
        "idle": False,
        **nothing,
        "total_us": round(total_us),
        "share": share,
    }


def _column_type(name: str) -> str | None:
    """The fixed type of a column; None if its values decide."""
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
    """The parts between commas that are not within brackets or quotes."""
    parts, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append("")
            continue
        parts[-1] += letter
    return [part.strip() for part in parts]
