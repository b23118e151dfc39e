"""A profile as a table, and its latencies as histograms."""

from collections.abc import Sequence
from typing import Any

from spillcast.profile import Profile
from spillcast.profile.result import BYTES_FROM
from spillcast.report.histogram import histogram_text
from spillcast.report.table import table_text
from spillcast.units import format_bytes, format_duration


def profile_text(profile: Profile, *, histogram: bool = False, width: int = 80) -> str:
    """Rows of time; idle events below, for they are nobody's fault. ``width`` is of histograms."""
    if profile.rows and "value" in profile.rows[0]:
        return _statistics(profile)
    busy = [row for row in profile.rows if not row["idle"]]
    idle = [row for row in profile.rows if row["idle"]]
    lines = [f"{format_duration(profile.elapsed_s)} of elapsed time", ""]
    lines.append(_table(profile.by, busy))
    if idle:
        lines += ["", "  idle", _table(profile.by, idle)]
    if histogram:
        for row, buckets in zip(profile.rows, profile.histograms, strict=False):
            if sum(buckets[1]):
                title = ", ".join(str(row[name]) for name in profile.by)
                lines += ["", f"  {title}", histogram_text(*buckets, width=width)]
    lines += [f"  warning: {text}" for text in profile.warnings]
    lines += [
        f"  damaged: {damage['file']}:{damage['line']}: {damage['what']}"
        for damage in profile.damaged[:10]
    ]
    if len(profile.damaged) > 10:
        lines.append(f"  ... and {len(profile.damaged) - 10:,} more, see --json")
    return "\n".join(lines)


def _statistics(profile: Profile) -> str:
    keys = ("value", "per_second_max", "accumulated")
    rows = [
        [row["event"], *("" if row[key] is None else f"{row[key]:,}" for key in keys)]
        for row in profile.rows
    ]
    return table_text(["statistic", "growth", "per second, at most", "since logon"], rows)


def _table(by: Sequence[str], rows: Sequence[dict[str, Any]]) -> str:
    unbiased = any("latency_us" in row for row in rows)
    last = "unbiased" if unbiased else "longest at"
    header = [*by, "total", "share", "count", "mean", "p50", "p95", "p99", "max", last]
    return table_text(
        header,
        [
            [
                *(_key(name, row[name]) for name in by),
                format_duration(row["total_us"] / 1e6),
                "" if row["share"] is None else f"{row['share']:.2%}".replace("%", " %"),
                "" if row["count"] is None else f"{row['count']:,}",
                *(_us(row[key]) for key in ("mean_us", "p50_us", "p95_us", "p99_us", "max_us")),
                _us(row["latency_us"]) if unbiased else str(row["longest_at"] or ""),
            ]
            for row in rows
        ],
        left=(*range(len(by)), len(header) - 1),
    )


def _key(name: str, value: Any) -> str:
    if value is None:
        return "-"
    return format_bytes(value) if name == "size" and value >= BYTES_FROM else str(value)


def _us(value: float | None) -> str:
    return "" if value is None else format_duration(value / 1e6)
