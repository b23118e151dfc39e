"""A recording in progress: time by event, temp latency, the forecast, and the overhead."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spillcast.forecast import Forecast
from spillcast.forecast.verdict import forecasts_document, verdict
from spillcast.recording import OPS
from spillcast.recording.calibration import CaptureCost
from spillcast.recording.live import Running, Tally
from spillcast.report import sparkline, with_bars, with_drawings
from spillcast.report.forecast import remaining_table, remaining_text
from spillcast.tabular import Column, PrintedTable, paragraph, shortened
from spillcast.units import format_bytes, format_count, format_duration, format_share

WATCH_SCHEMA = "spillcast.watch/1"
#: Maximum number of rows of events, and of columns of a bar.
ROWS_MAX, BAR_MAX = 8, 60
#: Events that take a larger share of the elapsed time come from concurrent sessions.
CONCURRENT_SHARE_MIN = 1.01
_EVENTS = (
    Column("event", "event"),
    Column("total", "total_us", "us"),
    Column("share", "share", "percent1"),
    Column("count", "count", "count", spare=1),
    Column("mean", "mean_us", "us"),
)
_LATENCY = (
    Column("temp", "op"),
    Column("count", "count", "count"),
    Column("bytes", "bytes", "bytes", spare=1),
    Column("mean", "mean_us", "us"),
    Column("p50", "p50_us", "us"),
    Column("p99", "p99_us", "us"),
)


@dataclass(frozen=True)
class LiveSnapshot:
    """A recording in progress. ``own_cpu_s`` is the CPU time of this program since it began."""

    title: str
    running: Running
    status: Mapping[str, Any]
    #: The cost of the capture to the observed threads; None if not yet known.
    cost: CaptureCost | None
    own_cpu_s: float
    #: The forecast, if one is requested, or the reason why there is none.
    forecast: Forecast | None = None
    because: str | None = None
    ended: bool = False
    #: Half of the interval's width, relative to the forecast, of each forecast; None if refused.
    half_widths: Sequence[float | None] = ()

    @property
    def elapsed_s(self) -> float:
        """Time since the recording began."""
        return max(float(self.status["elapsed_ns"]) / 1e9, 1e-3)

    @property
    def overhead_s(self) -> float | None:
        """Estimated time that the observed threads have lost; None if not known."""
        if self.cost is None:
            return None
        return self.cost.overhead_s(self.status["calls"], self.status["switches"])[0]

    def rows(self) -> list[dict[str, Any]]:
        """Time by event, the largest total first: from calls and waits, or only from samples."""
        rows = [
            {"event": event, "temp": temp, **_figures(tally)}
            for (event, _, temp), tally in self.running.tallies.items()
        ]
        waits = self.running.waits().items()
        rows += [{"event": event, "temp": None, **_figures(tally)} for event, tally in waits]
        no_waits = dict.fromkeys(("count", "mean_us", "p50_us", "p99_us"))
        if not rows:
            rows = [
                {"event": event, "temp": None, "total_us": total_us, **no_waits}
                for event, total_us in self.running.sampled_us.items()
            ]
        elif self.status["cpu_ns"] is not None:
            cpu_us = round(self.status["cpu_ns"] / 1e3)
            rows.append({"event": "CPU", "temp": None, "total_us": cpu_us, **no_waits})
        spent_us = max(sum(row["total_us"] for row in rows), self.elapsed_s * 1e6)
        for row in rows:
            row["share"] = row["total_us"] / spent_us
        return sorted(rows, key=lambda row: -row["total_us"])

    def temp(self) -> list[dict[str, Any]]:
        """Latency of temp I/O by op."""
        tallies = self.running.temp()
        return [
            {"op": op, "bytes": tallies[op].bytes, **_figures(tallies[op])}
            for op in OPS
            if op in tallies
        ]


def _figures(tally: Tally) -> dict[str, Any]:
    return {
        "count": tally.count,
        "total_us": round(tally.total_ns / 1e3),
        "mean_us": tally.mean_ns / 1e3,
        "p50_us": tally.quantile_ns(0.5) / 1e3,
        "p99_us": tally.quantile_ns(0.99) / 1e3,
    }


def watch_document(snapshot: LiveSnapshot) -> dict[str, Any]:
    """One line of the schema ``spillcast.watch/1``."""
    status = snapshot.status
    return {
        "schema": WATCH_SCHEMA,
        "elapsed_s": snapshot.elapsed_s,
        "ended": snapshot.ended,
        "waiting": bool(status.get("waiting")),
        "rows": snapshot.rows(),
        "temp": snapshot.temp(),
        "lost": status["lost"],
        "dropped": status["dropped"],
        "overhead_s": snapshot.overhead_s,
        "tracer_cpu_s": status["tracer_cpu_ns"] / 1e9,
        "own_cpu_s": snapshot.own_cpu_s,
        "forecast": snapshot.forecast and forecasts_document([snapshot.forecast]),
        "because": snapshot.because,
        "half_widths": list(snapshot.half_widths),
    }


def live_text(snapshot: LiveSnapshot, width: int, keys: str = "") -> str:
    """The view in ``width`` columns, the forecast first; ``keys`` is the hint on how to end it."""
    elapsed = format_duration(snapshot.elapsed_s)
    room = width - len(elapsed) - len(keys) - 4
    head = f"{shortened(snapshot.title, max(room, 12))}  {elapsed}"
    parts = [f"{head:<{max(width - len(keys), len(head))}}{keys}".rstrip()]
    if snapshot.status.get("waiting"):
        parts.append("  attached, waiting for the query")
    parts += _forecast_parts(snapshot, width)
    rows = snapshot.rows()
    parts.append(_events(rows, width) if rows else "  no temp I/O or waits yet")
    spent_s = sum(row["total_us"] for row in rows) / 1e6
    if spent_s > CONCURRENT_SHARE_MIN * snapshot.elapsed_s:
        spent = format_duration(spent_s)
        sentence = f"  shares are of the {spent} that all sessions together spent in {elapsed}"
        parts[-1] += f"\n{paragraph(sentence, '  ', width)}"
    if temp := snapshot.temp():
        parts.append(_latency(snapshot, temp, width))
    parts.append(paragraph(f"  {_loss_and_cost(snapshot)}", "  ", width))
    return "\n\n".join(parts)


def _forecast_parts(snapshot: LiveSnapshot, width: int) -> list[str]:
    """The verdict; for a run in progress also the remaining work, and the width of its interval."""
    forecast, text_width = snapshot.forecast, min(width, 100)
    parts = []
    if forecast is not None and forecast.forecast_s is not None:
        parts.append(paragraph(f"  {verdict([forecast]).text}", "  ", text_width))
    elif snapshot.because:
        parts.append(paragraph(f"  no forecast yet: {snapshot.because}", "    ", width))
    if forecast is not None and (remaining := forecast.to_come) is not None:
        table = remaining_table(remaining).text(width)
        text = paragraph(f"  {remaining_text(forecast, remaining)}", "  ", text_width)
        parts.append("\n".join([table, "", text, *_interval_widths(snapshot.half_widths, width)]))
    return parts


def _interval_widths(half_widths: Sequence[float | None], width: int) -> list[str]:
    """The width of the interval over all forecasts so far; empty without any number."""
    if not half_widths or half_widths[-1] is None:
        return []
    sentence = f"  interval, by forecast: +/-{format_share(half_widths[-1])}  "
    shown = half_widths[-max(min(width - len(sentence), BAR_MAX), 1) :]
    return [f"{sentence}{sparkline([value or 0.0 for value in shown])}"]


def _events(rows: Sequence[Mapping[str, Any]], width: int) -> str:
    files = {True: " (temp)", False: " (other files)", None: ""}
    shown = [{**row, "event": row["event"] + files[row["temp"]]} for row in rows[:ROWS_MAX]]
    shares = [row["share"] for row in shown]
    text = with_bars(PrintedTable.of(_EVENTS, shown), shares, BAR_MAX, width)
    more = len(rows) - ROWS_MAX
    return f"{text}\n  and {more:,} more" if more > 0 else text


def _latency(snapshot: LiveSnapshot, temp: Sequence[Mapping[str, Any]], width: int) -> str:
    """Figures by op, and mean latency by second."""
    tallies = snapshot.running.temp()
    seconds = [second for tally in tallies.values() for second in tally.recent]

    def draw(room: int) -> list[str]:
        first = max(min(seconds), max(seconds) - min(room, BAR_MAX) + 1)
        lines = ["mean, by second" if room >= 15 else "mean"]
        for row in temp:
            recent = tallies[row["op"]].recent
            sums = [recent.get(second, (0, 0)) for second in range(first, max(seconds) + 1)]
            lines.append(sparkline([total / count if count else 0.0 for count, total in sums]))
        return lines

    last_second = int(snapshot.elapsed_s) - 1
    latest = [tally.recent.get(last_second, (0, 0)) for tally in tallies.values()]
    operations = format_count(sum(count for count, _ in latest), "operation")
    busy = format_duration(sum(total_ns for _, total_ns in latest) / 1e9)
    moved = format_bytes(sum(row["bytes"] for row in temp))
    table = with_drawings(PrintedTable.of(_LATENCY, temp), width, draw)
    last = f"  last second: {operations}, {busy} in them; {moved} in all"
    return f"{table}\n{paragraph(last, '  ', width)}"


def _loss_and_cost(snapshot: LiveSnapshot) -> str:
    """Lost waits, samples, and the CPU time that the recording costs."""
    status, elapsed_s, overhead_s = snapshot.status, snapshot.elapsed_s, snapshot.overhead_s
    lost = f"{status['lost'] + status['dropped']:,} lost"
    if "samples" in status:
        lost += f", {format_count(status['samples'], 'sample')}"
    overhead = "" if overhead_s is None else f"{format_duration(overhead_s)} of the process; "
    own_cpu = f"{format_share(snapshot.own_cpu_s / elapsed_s, 1)} of a CPU"
    capture = f"{format_share(status['tracer_cpu_ns'] / 1e9 / elapsed_s, 1)} to record"
    return f"{lost}; cost: {overhead}{own_cpu}, including {capture}"
