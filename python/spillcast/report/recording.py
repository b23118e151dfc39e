"""Recordings as text: in progress, the summary at the end, and the recordings of a server."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spillcast.forecast import Forecast
from spillcast.forecast.verdict import forecasts_document, verdict
from spillcast.recording import OPS, Recording
from spillcast.recording.calibration import CaptureCost, is_old
from spillcast.recording.completeness import Part, contradictions_of, unrecognised, unspilled
from spillcast.recording.live import Running, Tally
from spillcast.recording.meta import CaptureAccount, Meta
from spillcast.recording.observed import IN_MEMORY, RecordedQuery, Sampling
from spillcast.report.forecast import remaining_table, remaining_text
from spillcast.report.page import sparkline, with_bars, with_drawings
from spillcast.tabular import Column, Table, paragraph, shortened
from spillcast.text import one_line, shell_word
from spillcast.units import format_bytes, format_count, format_duration, format_estimate

if TYPE_CHECKING:
    from spillcast import tables
    from spillcast.recording.server import QueryRecording, ServerRecording

#: Maximum number of wait events in the summary of samples.
WAITS_MAX = 4


def status_line(status: Mapping[str, Any]) -> str:
    """The line of a recording in progress: rate, share of time, latency, size, loss."""
    elapsed_s, temp_s = max(status["elapsed_ns"], 1) / 1e9, status["temp_ns"] / 1e9
    ran, size = format_duration(elapsed_s), format_bytes(status["temp_bytes"])
    if status.get("waiting"):
        return f"attached for {ran}, waiting for the query"
    if "active" in status:
        sessions = f"{format_count(status['active'], 'session')} active"
        recordings = format_count(status["recordings"], "recording")
        text = f"{sessions}, {status['spilling']} spilling  temp I/O {size}  {recordings}"
    else:
        count = status["temp_reads"] + status["temp_writes"]
        mean = format_duration(temp_s / count) if count else "-"
        rate = f"{count / elapsed_s:,.0f}/s  {temp_s / elapsed_s:.0%} of the time"
        text = f"temp I/O {rate}  mean {mean}  {size}"
        if "samples" in status:
            text += f"  {format_count(status['samples'], 'sample')} of {status['processes']}"
    lost = f"  lost {status['lost']:,}" if status["lost"] else ""
    return f"recording {ran}  {text}{lost}"


#: A label and a text; a row without a label continues the one before.
Row = tuple[str, str]


def recording_text(recording: Recording) -> str:
    """The contents of a recording, its overhead, warnings, and the next step."""
    meta, capture, unseen = recording.meta, recording.meta.capture, recording.meta.unseen
    rows: list[Row] = []
    if meta.server is not None:
        rows += _query_rows(meta.engine.query or "", meta.server)
    elif (part := Part.of(meta)) is not None and part.before_s is not None:
        rows.append(("process", f"ran for {format_duration(part.before_s)} before"))
    if meta.captured:
        rows.append(("temp I/O", _temp_io(meta)))
        rows += _kind_rows(meta)
        rows += _place_rows(meta)
        rows.append(("capture", f"{capture.method}: {capture.lost:,} lost"))
        if unseen.causes and not unseen.notable:
            rows.append(("", unseen.text))
        rows.append(("overhead", overhead_words(capture)))
    if faults := capture.file_faults:
        rows.append(("faults", f"{format_count(faults, 'page fault')} read from a file"))
    if meta.sampling is not None:
        rows += _sample_rows(recording.samples, meta.sampling)
    if meta.raw.slices_s is not None:
        waits, slices = format_count(meta.raw.rows, "wait"), len(meta.raw.slices_s)
        rows.append(("kept", f"{waits} in {format_count(slices, 'slice')}"))
    rows += [("warning", text) for text in recording_warnings(recording)]
    command = f"profile {shell_word(recording.path)}" + " --by file" * meta.captured
    if meta.temp.operations or recording.plan_alone is not None:
        command = f"forecast {shell_word(recording.path)} --to DIRECTORY"
    rows.append(("next", f"spillcast {command}"))
    head = f"{recording.path}: {format_duration(recording.elapsed_s)} recorded"
    return "\n".join([head, *_lines(rows)])


def _lines(rows: Iterable[Row]) -> list[str]:
    return [f"  {label:<11}{text}" for label, text in rows]


#: The advice for a machine that was never calibrated.
PROPOSAL = "run `spillcast calibrate` (three minutes) for narrower forecasts"


def calibration_wanted(meta: Meta) -> str | None:
    """Advice to calibrate the machine; None if it is calibrated or has no use for that."""
    calibration = meta.machine.calibration
    if not meta.captured or not meta.temp.operations:
        return None
    if calibration is None:
        return PROPOSAL
    if is_old(calibration.measured_at_s):
        return "the machine was calibrated over 30 days ago: run `spillcast calibrate` again"
    return None


def _temp_io(meta: Meta) -> str:
    temp = meta.temp
    if not temp.operations:
        return f"none: {unspilled(meta)}"
    return (
        f"{format_count(temp.reads, 'read')}, {format_count(temp.writes, 'write')}, "
        f"{format_bytes(temp.bytes)}; {format_duration(temp.total_s)} in all, "
        f"mean {format_duration(temp.total_s / temp.operations)}"
    )


def _kind_rows(meta: Meta) -> list[Row]:
    """The temp I/O by kind of file, if the names of the files show several kinds."""
    texts = []
    for kind in meta.temp_kinds if len(meta.temp_kinds) > 1 else []:
        written = f"{format_count(kind.writes, 'write')}, {format_bytes(kind.written_bytes)}"
        read = f"{format_count(kind.reads, 'read')}, {format_bytes(kind.read_bytes)}"
        if kind.written_bytes and not kind.reads:
            read = "reads unknown, because mapped memory is read without calls"
        texts.append(f"{kind.kind}: {written}; {read}")
    return _labelled("by kind", texts)


def _place_rows(meta: Meta) -> list[Row]:
    texts = []
    for place in meta.temp_places if meta.temp.operations else []:
        device = "memory" if place.filesystem in IN_MEMORY else place.device_name
        on = f"{place.filesystem} on {device}" if device else place.filesystem
        texts.append(f"in {place.directory} ({on})")
    return _labelled("temp files", texts)


def _labelled(label: str, texts: Sequence[str]) -> list[Row]:
    return [("" if index else label, text) for index, text in enumerate(texts)]


def _query_rows(statement: str, query: RecordedQuery) -> list[Row]:
    texts = [one_line(statement, 67)]
    if query.before_recording_s:
        before, total = query.before_recording_s, query.query_elapsed_s or 0.0
        texts.append(f"ran for {format_duration(before)} before, {format_duration(total)} in all")
    rows = _labelled("query", texts)
    if workers := len({worker.pid for worker in query.workers}):
        late = len({worker.pid for worker in query.workers if worker.late})
        attached = f"{late:,} of them late" if late else "attached on arrival"
        rows.append(("workers", f"{format_count(workers, 'parallel worker')}, {attached}"))
    return rows


def _sample_rows(samples: "tables.Table", sampling: Sampling) -> list[Row]:
    totals = Counter[str]()
    events = samples["event"].to_pylist()
    for event, weight_us in zip(events, samples["weight_us"].to_pylist(), strict=True):
        totals[event or "on CPU"] += weight_us
    total_us = totals.total() or 1
    ranked = totals.most_common(WAITS_MAX)
    shares = ", ".join(f"{name} {us / total_us:.0%}" for name, us in ranked)
    cost = f"{format_duration(sampling.client_cpu_s)} here"
    if sampling.server_cpu_s is not None:
        cost += f" and {format_duration(sampling.server_cpu_s)} in the server"
    count = format_count(sampling.samples, "sample")
    rows = [
        ("waits", shares or "none seen"),
        ("sampling", f"{count}, {sampling.rate_hz} a second; cost {cost}"),
    ]
    if sampling.discarded:
        gap = format_duration(sampling.gap_s)
        rows.append(("", f"{sampling.discarded:,} more discarded, after gaps of {gap} in all"))
    return rows


def recording_warnings(recording: Recording) -> list[str]:
    """What weakens a recording: one sentence each, without remedies that a later forecast has."""
    meta = recording.meta
    capture, texts = meta.capture, list[str]()
    failed = [meta.server.failure] if meta.server is not None and meta.server.failure else []
    if not meta.captured:
        return [*failed, f"waits only, no I/O: {capture.absent_because}"]
    if capture.io_uring_depth > 1:
        texts.append(
            f"temp files are read or written through io_uring, up to {capture.io_uring_depth:,} at "
            "once: their times overlap, and there is no forecast"
        )
    if meta.unseen.notable:
        texts.append(f"{meta.unseen.text}; {meta.unseen.remedy}")
    if capture.dropped:
        dropped = format_count(capture.dropped, "single wait")
        texts.append(f"{dropped} dropped; the totals by second are complete")
    texts += [check.text for check in contradictions_of(recording)]
    hidden = unrecognised(recording) if meta.temp.operations else None
    return [*texts, *([] if hidden is None else [hidden]), *failed]


def overhead_words(capture: CaptureAccount) -> str:
    """The time that the observed threads lost, and CPU time and memory of the recorder."""
    # In recordings of earlier versions the CPU time is that of one thread of the recorder.
    recorder = "the recorder" if capture.calls is not None else "the thread that reads events"
    used = f"{format_duration(capture.tracer_cpu_s)} of CPU"
    if capture.recorder_memory_bytes is not None:
        used += f" and {format_bytes(capture.recorder_memory_bytes)} of memory"
    if capture.overhead_s is None:
        return f"not measured for the query; {recorder} used {used}"
    bounds_s = None
    if capture.overhead_low_s is not None and capture.overhead_high_s is not None:
        bounds_s = capture.overhead_low_s, capture.overhead_high_s
    overhead = format_estimate(capture.overhead_s, bounds_s)
    return f"the query ran about {overhead} longer; {recorder} used {used}"


_QUERIES = (
    Column("recording", None),
    Column("whose", None),
    Column("query", None, spare=1),
    Column("elapsed", None, "s"),
    Column("read", None, "bytes"),
    Column("written", None, "bytes"),
    Column("temp I/O", None, "percent"),
)
#: Maximum length of a query in the table, in characters.
QUERY_MAX = 43


def server_recording_text(recording: "ServerRecording", width: int) -> str:
    """The recordings in a table of at most ``width`` columns, warnings, and the next step."""
    elapsed, rows = format_duration(recording.recorded_s), _warnings(recording)
    if not recording.recordings:
        return "\n".join([f"no query did temp I/O in {elapsed}", *_lines(rows)])
    recordings = format_count(len(recording.recordings), "recording")
    table = Table(_QUERIES, [_cells(query) for query in recording.recordings])
    largest = max(recording.recordings, key=lambda query: query.temp_s)
    rows.append(("next", f"spillcast forecast {shell_word(largest.path)} --to DIRECTORY"))
    head = f"{recording.path}: {recordings} of queries that spilled, in {elapsed}"
    return "\n".join([head, "", table.text(width), "", *_lines(rows)])


def _cells(recording: "QueryRecording") -> list[Any]:
    is_known = recording.user or recording.database
    owner = f"{recording.user}@{recording.database}" if is_known else None
    texts = recording.path.name, owner, one_line(recording.query, QUERY_MAX)
    moved = recording.read_bytes, recording.written_bytes
    return [*texts, recording.elapsed_s, *moved, recording.temp_share]


def _warnings(recording: "ServerRecording") -> list[Row]:
    texts = [
        f"nothing kept of process {query.pid}, {query.because}: {one_line(query.query, QUERY_MAX)}"
        for query in recording.unkept
    ]
    if count := recording.unassigned:
        texts.append(f"{format_count(count, 'temp operation')} of no observed query")
    if lost := recording.lost:
        texts.append(f"{recording.method} lost {format_count(lost, 'report')} of all sessions")
    if recording.failure is not None:
        texts.append(recording.failure)
    return [("warning", text) for text in texts]


WATCH_SCHEMA = "spillcast.watch/1"
#: Maximum number of rows of events, and of columns of a bar.
ROWS_MAX, BAR_MAX = 8, 60
#: Events that take a larger share of the elapsed time are of concurrent sessions.
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
    #: What the capture costs the observed threads; None if not known yet.
    cost: CaptureCost | None
    own_cpu_s: float
    #: The forecast, if one is requested, or the reason why there is none.
    forecast: Forecast | None = None
    because: str | None = None
    ended: bool = False
    #: Half the interval's width over the forecast, of each forecast so far; None for a refusal.
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
        """Time by event, the largest total first: of calls and waits, or of samples alone."""
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
    """One line of the form ``spillcast.watch/1``."""
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
    """The view, lines of at most ``width`` columns; ``keys`` says how it is ended."""
    elapsed = format_duration(snapshot.elapsed_s)
    room = width - len(elapsed) - len(keys) - 4
    head = f"{shortened(snapshot.title, max(room, 12))}  {elapsed}"
    parts = [f"{head:<{max(width - len(keys), len(head))}}{keys}".rstrip()]
    if snapshot.status.get("waiting"):
        parts.append("  attached, waiting for the query")
    rows = snapshot.rows()
    parts.append(_events(rows, width) if rows else "  no temp I/O or waits yet")
    spent_s = sum(row["total_us"] for row in rows) / 1e6
    if spent_s > CONCURRENT_SHARE_MIN * snapshot.elapsed_s:
        spent = format_duration(spent_s)
        sentence = f"  shares are of the {spent} that all sessions together spent in {elapsed}"
        parts[-1] += f"\n{paragraph(sentence, '  ', width)}"
    if temp := snapshot.temp():
        parts.append(_latency(snapshot, temp, width))
    parts += _forecast_parts(snapshot, width)
    parts.append(paragraph(f"  {_loss_and_cost(snapshot)}", "  ", width))
    return "\n\n".join(parts)


def _forecast_parts(snapshot: LiveSnapshot, width: int) -> list[str]:
    """The verdict; of a run in progress also what remains, and the width of its interval."""
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
    """The width of the interval, forecast by forecast; empty while there is no number."""
    if not half_widths or half_widths[-1] is None:
        return []
    sentence = f"  interval, by forecast: +/-{half_widths[-1]:.0%}  "
    shown = half_widths[-max(min(width - len(sentence), BAR_MAX), 1) :]
    return [f"{sentence}{sparkline([value or 0.0 for value in shown])}"]


def _events(rows: Sequence[Mapping[str, Any]], width: int) -> str:
    files = {True: " (temp)", False: " (other files)", None: ""}
    shown = [{**row, "event": row["event"] + files[row["temp"]]} for row in rows[:ROWS_MAX]]
    shares = [row["share"] for row in shown]
    text = with_bars(Table.of(_EVENTS, shown), shares, BAR_MAX, width)
    more = len(rows) - ROWS_MAX
    return f"{text}\n  and {more:,} more" if more > 0 else text


def _latency(snapshot: LiveSnapshot, temp: Sequence[Mapping[str, Any]], width: int) -> str:
    """Figures by op, and mean latency second by second."""
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
    table = with_drawings(Table.of(_LATENCY, temp), width, draw)
    return f"{table}\n  last second: {operations}, {busy} in them; {moved} in all"


def _loss_and_cost(snapshot: LiveSnapshot) -> str:
    """Lost waits, samples, and the CPU time that the recording costs."""
    status, elapsed_s, overhead_s = snapshot.status, snapshot.elapsed_s, snapshot.overhead_s
    lost = f"{status['lost'] + status['dropped']:,} lost"
    if "samples" in status:
        lost += f", {format_count(status['samples'], 'sample')}"
    overhead = "" if overhead_s is None else f"{format_duration(overhead_s)} of the process; "
    own_cpu = f"{snapshot.own_cpu_s / elapsed_s:.1%} of a CPU"
    capture = f"{status['tracer_cpu_ns'] / 1e9 / elapsed_s:.1%} to record"
    return f"{lost}; cost: {overhead}{own_cpu}, including {capture}"
