"""The results of fleet and ingest: which databases and statements gain most."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from spillcast.document import PrintedDocument, key

INGEST_SCHEMA = "spillcast.ingest/1"
Interval = tuple[float, float]


@dataclass(frozen=True)
class FleetStatement:
    """A statement of a database. Times (s) are sums over all its evidence."""

    database: str = key("its database", example="erp")
    sql: str = key("statement; empty where not known", example="4q7zf0d2m8kcx")
    evidence: str = key("kinds of evidence, with commas", example="ash, traces")
    sources: int = key("files with evidence of it", example=2)
    elapsed_s: float = key("elapsed time", unit="s", example=25.5)
    temp_s: float = key("of it, in temp I/O", unit="s", example=12.1)
    forecast_s: float | None = key(
        "elapsed time on the target; null where refused, or where only its interval is known",
        unit="s",
    )
    interval_s: Interval | None = key("its interval", unit="s")
    saved_s: float | None = key(
        "`elapsed_s` less `forecast_s`; 0 below a thousandth", unit="s", signed=True
    )
    saved_interval_s: Interval | None = key("its interval", unit="s", signed=True)
    p50_us: float | None = key(
        "median latency of what would change; null without single waits", unit="us", example=2007.04
    )
    p95_us: float | None = key("95th percentile of it", unit="us")
    refused: str | None = key("why there is no number; else null", default=None, example=None)
    share: float = key("of all savings", default=0.0, signed=True, example=0.095)
    cumulative_share: float = key("of all savings, with those before it", default=0.0)
    spills: bool = key("whether it spills", default=True, example=True, later=True)


@dataclass(frozen=True)
class DatabaseRow:
    """The sums of all statements of a database."""

    database: str = key("its name", example="erp")
    statements: int = key("statements that spill", example=3)
    elapsed_s: float = key("time of all its statements, those that do not spill too", unit="s")
    temp_s: float = key("of it, in temp I/O", unit="s")
    saved_s: float | None = key(
        "what its statements save, where known; null where it is known of none",
        unit="s",
        signed=True,
    )
    saved_interval_s: Interval | None = key(
        "the sums of the bounds of its statements; null where none has any", unit="s", signed=True
    )
    share: float = key("of all savings", signed=True)


@dataclass(frozen=True)
class DayRow:
    """The sums of all statements on a day."""

    day: str = key("a date, or `unknown`", example="2026-03-02")
    temp_s: float = key("time in temp I/O", unit="s")
    saved_s: float | None = key(
        "what is saved of it, where known; null where it is known of none", unit="s", signed=True
    )
    saved_interval_s: Interval | None = key(
        "the sums of the bounds of what is saved; null where none are known",
        unit="s",
        signed=True,
        default=None,
        later=True,
    )


@dataclass(frozen=True, kw_only=True)
class Fleet(PrintedDocument):
    """The result for a fleet, in descending order of savings."""

    SCHEMA = "spillcast.fleet/1"

    dataset: str = key("where it is", example="fleet")
    target: str = key("storage of `--to`", example="latency:150us")
    boost: str = key("pattern of the events that change", example="direct path*temp")
    confidence: float = key("level of the intervals", example=0.9)
    elapsed_s: float = key("time of all statements", unit="s", example=1042.1)
    temp_s: float = key("of it, in temp I/O", unit="s", example=300.2)
    saved_s: float = key("the sum of all known savings", unit="s", signed=True, example=270.3)
    saved_interval_s: Interval = key(
        "the sums of all bounds, also of those without a known saving", unit="s", signed=True
    )
    statements_for_most: int = key("how many statements bring `most` of all savings", example=2)
    most: float = key("a share of all savings", example=0.8)
    cost: float | None = key("price of the target for 30 days; null without", example=598.2)
    cost_per_saved_hour: float | None = key(
        "price of the days seen over the hours saved on them; null where nothing is saved"
    )
    sources: int = key("files in the dataset", example=60)
    set_aside: int = key("files that are set aside", example=0)
    statements: Sequence[FleetStatement] = key(
        "the largest saving first; if only bounds are known, their middle counts"
    )
    databases: Sequence[DatabaseRow] = key("in the order of statements")
    days: Sequence[DayRow] = key("by date")
    warnings: Sequence[str] = key("texts of the warnings", example=[])


@dataclass
class Ingested:
    """The outcome of one ingest."""

    dataset: str
    files: int = 0
    bytes: int = 0
    #: Usable files whose content was already in the dataset.
    seen_before: int = 0
    damaged_lines: int = 0
    #: ``file`` and ``what`` of each file without usable evidence.
    set_aside: list[dict[str, str]] = field(default_factory=list)
    #: The same for unreadable files; the next ingest tries them again.
    unread: list[dict[str, str]] = field(default_factory=list)
    #: ``file``, ``line`` and ``what`` of the first damaged lines of each file.
    damaged: list[dict[str, Any]] = field(default_factory=list)

    def add(self, row: dict[str, Any]) -> None:
        """Counts a source that is now in the log."""
        if row["set_aside"] is not None:
            self.set_aside.append({"file": row["name"], "what": row["set_aside"]})
            return
        self.files += 1
        self.bytes += row["bytes"]
        self.damaged_lines += row["damaged"]
        self.damaged += [{"file": row["name"], **damage} for damage in row["damage"]]

    def add_again(self, name: str, set_aside: str | None) -> None:
        """Counts a source whose content was already in the log, with its ``set_aside`` there."""
        if set_aside is None:
            self.seen_before += 1
        else:
            self.set_aside.append({"file": name, "what": set_aside})

    def to_json(self) -> dict[str, Any]:
        """The document that docs/schema.md describes."""
        return {"schema": INGEST_SCHEMA, **vars(self)}
