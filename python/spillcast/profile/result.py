"""What a profile says: rows of time by what they have in common."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


PROFILE_SCHEMA = "spillcast.profile/1"
#: Shares of the operations below which the quantile columns lie.
QUANTILES = {"p50_us": 0.5, "p95_us": 0.95, "p99_us": 0.99}
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
}


#: Latencies (ns) and how many waits there are of each.
LatencyCounts = tuple[Sequence[int], Sequence[int]]


@dataclass(frozen=True)
class Profile:
    """Rows of time, the largest total first.

    Every row has the keys of ``by``, ``op``, ``idle``, ``count``, ``total_us``, ``share`` (of
    ``elapsed_s``), ``min_us``, ``mean_us``, quantiles, ``max_us`` and ``longest_at``; rows of ASH
    have ``latency_us`` and ``n_est`` besides. ``histograms`` stand row by row; ASH has none.
    """

    by: Sequence[str]
    elapsed_s: float
    rows: list[dict[str, Any]]
    damaged: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    histograms: list[LatencyCounts] = field(default_factory=list)

    def sorted(self) -> "Profile":
        """The same rows, the largest total first; their histograms with them."""
        ranked = sorted(range(len(self.rows)), key=lambda at: -self.rows[at]["total_us"])
        return replace(
            self,
            rows=[self.rows[at] for at in ranked],
            histograms=[self.histograms[at] for at in ranked],
        )

    def top(self, rows: int | None) -> "Profile":
        """Only the first so many rows; None for all."""
        return replace(self, rows=self.rows[:rows], histograms=self.histograms[:rows])

    def to_json(self) -> dict[str, Any]:
        """The document of docs/schema.md."""
        return {
            "schema": PROFILE_SCHEMA,
            "by": list(self.by),
            "elapsed_s": self.elapsed_s,
            "rows": self.rows,
            "damaged": self.damaged,
            "warnings": self.warnings,
        }

    def to_arrow(self) -> "pa.Table":
        """The rows as an Arrow table."""
        import pyarrow as pa

        return pa.Table.from_pylist(self.rows)


def bare_row(event: str, total_us: float, elapsed_us: float) -> dict[str, Any]:
    """A row of time that is not made of timed operations."""
    nothing = dict.fromkeys(
        ("count", "min_us", "mean_us", *QUANTILES, "max_us", "longest_at"), None
    )
    share = total_us / elapsed_us if elapsed_us else None
    return {
        "event": event,
        "op": None,
        "idle": False,
        **nothing,
        "total_us": round(total_us),
        "share": share,
    }
