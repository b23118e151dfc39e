"""Bar charts as shares of their axes, which the template draws as HTML for any width."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from spillcast.forecast import Forecast
from spillcast.recording.event_names import OPS
from spillcast.units import format_duration

#: Parts of a run, and their colours in style.css.
PART_COLOURS = {"before the recording": "now", "recorded": "target", "remaining": "band"}
#: Changes below this share of the elapsed time are not drawn.
_SMALL = 0.002
#: Bars that differ by a larger factor are drawn as shares.
_APART = 5.0
#: Ends of intervals are drawn up to so many times the whole.
_REACH_MAX = 3.0
_STEPS_S = (1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200)
DAY_S = 86_400.0
#: Widths of a page, of a letter and of a tick's words, px: they decide how many ticks fit.
WIDE_PX, NARROW_PX, _LETTER_PX, _TICK_PX = 720, 344, 7.7, 76
_NAME_WIDE_PX, _NAME_NARROW_PX = 240, 112


@dataclass(frozen=True)
class Tick:
    """A label at a share of an axis; ``narrow`` if a phone has room for it."""

    at: float
    text: str
    narrow: bool = True


@dataclass(frozen=True)
class Span:
    """From one share of an axis to another, in a colour."""

    low: float
    high: float
    colour: str = "text"


@dataclass(frozen=True)
class Rule:
    """A line across a plot at a share of its width, with words to its right or left."""

    at: float
    text: str = ""
    colour: str = "muted"
    right: bool = True
    height: float = 1.0
    solid: bool = False


@dataclass(frozen=True)
class Bar:
    """A row: its parts, and words after ``end`` or, if ``above``, over them."""

    name: str
    parts: Sequence[Span]
    text: str
    end: float
    interval: Span | None = None
    point: float | None = None
    above: bool = False


@dataclass(frozen=True)
class Bars:
    """Horizontal bars below each other; ``room`` is how many letters stand to their right."""

    rows: Sequence[Bar]
    ticks: Sequence[Tick]
    room: int
    legend: Sequence[tuple[str, str, str]] = ()
    rules: Sequence[Rule] = ()
    band: Span | None = None
    title: str = ""
    kind: str = "bars"

    @property
    def label(self) -> str:
        """Its rows in words."""
        return "; ".join(f"{row.name}: {row.text}" for row in self.rows) + "."


def duration_ticks(most_s: float, count: int = 6) -> list[float]:
    """Round durations (s) from 0 to ``most_s``, about ``count`` of them."""
    wanted = max(most_s, 1e-9) / count
    if wanted < 1:
        step = _round_up(wanted)
    elif wanted <= _STEPS_S[-1]:
        step = next(float(s) for s in _STEPS_S if s >= wanted * 0.999)
    else:
        step = DAY_S * _round_up(wanted / DAY_S)
    return [round(step * n, 10) for n in range(int(most_s / step + 1e-9) + 1)]


def _round_up(value: float) -> float:
    """The next of 1, 2, 5 or 10 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(power * times for times in (1, 2, 5, 10) if power * times >= value * 0.999)


def clock(seconds: float) -> str:
    """A tick of a duration: ``1 min 30 s``, ``20 min``, ``2.5 s``."""
    if seconds < 60:
        return format_duration(seconds) if seconds else "0"
    hours, rest = divmod(round(seconds), 3600)
    minutes, left = divmod(rest, 60)
    parts = [(hours, "h"), (minutes, "min"), (left, "s")]
    return " ".join(f"{number} {unit}" for number, unit in parts if number)


def percent_ticks(most: float = 1.0, count: int = 4) -> list[Tick]:
    """Round shares from 0 on, in percent."""
    steps = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5, 1.0)
    step = next((step for step in steps if most / step <= count), 1.0)
    return [
        Tick(step * n / most, f"{100 * step * n:.3g} %") for n in range(int(most / step + 1e-9) + 1)
    ]


def durations(most_s: float, width_px: float, narrow_px: float, count: int = 6) -> list[Tick]:
    """Ticks of an axis of durations that has these widths on a desk and on a phone."""
    count = max(1, min(count, int(width_px / _TICK_PX)))
    return thinned([Tick(s / most_s, clock(s)) for s in duration_ticks(most_s, count)], narrow_px)


def thinned(ticks: Sequence[Tick], narrow_px: float) -> list[Tick]:
    """On a phone every second, third or later tick has words."""
    gap_px = narrow_px * (ticks[-1].at - ticks[0].at) / max(len(ticks) - 1, 1)
    every = max(1, math.ceil(_TICK_PX / max(gap_px, 1.0)))
    return [replace(tick, narrow=at % every == 0) for at, tick in enumerate(ticks)]


def _bars(
    rows: Sequence[Bar], most: float, *, title: str = "", shares: bool = False, **more: Any
) -> Bars:
    """Rows whose positions are values up to ``most``: they become shares of the axis."""
    room = max((len(row.text) for row in rows if not row.above), default=0) + 1
    names_px = _LETTER_PX * max((len(row.name) for row in rows), default=0)
    room_px = _LETTER_PX * room
    wide_px = WIDE_PX - min(names_px, _NAME_WIDE_PX) - room_px
    narrow_px = NARROW_PX - min(names_px, _NAME_NARROW_PX) - room_px
    most = most or 1.0
    if shares:
        ticks = thinned(percent_ticks(most, 4), narrow_px)
    else:
        ticks = durations(most, wide_px, narrow_px)

    def scaled(span: Span | None) -> Span | None:
        if span is None:
            return None
        low, high = sorted(min(end / most, 1.0) for end in (span.low, span.high))
        return Span(low, high, span.colour)

    placed = [
        replace(
            row,
            parts=[span for part in row.parts if (span := scaled(part))],
            end=row.end / most,
            interval=scaled(row.interval),
            point=None if row.point is None else row.point / most,
        )
        for row in rows
    ]
    rules = [replace(rule, at=rule.at / most) for rule in more.pop("rules", ())]
    band = scaled(more.pop("band", None))
    return Bars(placed, ticks, room, rules=rules, band=band, title=title, **more)


def time_bars(rows: Sequence[tuple[str, float, str, str]]) -> Bars:
    """A bar for each name, seconds, words and colour."""
    return _bars(
        [Bar(name, [Span(0, s, colour)], text, s) for name, s, text, colour in rows],
        max((s for _, s, _, _ in rows), default=0.0),
    )


def drawn_as_shares(totals_s: Sequence[float]) -> bool:
    """Whether the longest bar would make the shortest illegible."""
    return max(totals_s) > _APART * min(totals_s)


def stacked(bars: Sequence[tuple[str, Mapping[str, float]]], colours: Mapping[str, str]) -> Bars:
    """A bar for each name, of parts in seconds; or in shares of each, if they differ too much."""
    shares, rows = drawn_as_shares([sum(parts.values()) for _, parts in bars]), []
    for name, parts_s in bars:
        total_s = sum(parts_s.values())
        unit_s = (total_s or 1.0) if shares else 1.0
        spans, end = [], 0.0
        for part, s in parts_s.items():
            spans.append(Span(end, end + s / unit_s, colours[part]))
            end += s / unit_s
        rows.append(Bar(name, spans, format_duration(total_s), end))
    legend = [(part, colour, "square") for part, colour in colours.items()]
    return _bars(rows, max(row.end for row in rows), shares=shares, legend=legend)


def changes(forecast: Forecast) -> list[tuple[str, float, float]]:
    """Seconds now and on the target by the name of a term, over all sizes of operations."""
    sums: dict[str, tuple[float, float]] = {}
    for term in forecast.terms:
        now_s, target_s = sums.get(term.name, (0.0, 0.0))
        sums[term.name] = now_s + term.baseline_s, target_s + term.forecast_s
    return [(name, *pair) for name, pair in sums.items()]


def waterfall(forecast: Forecast, words_of: Callable[[float], str]) -> Bars:
    """From the time now, term by term, to the time on the target with its interval."""
    now_s, target_s = forecast.baseline_s, forecast.forecast_s or 0.0
    rows = [Bar("now", [Span(0, now_s, "now")], format_duration(now_s), now_s)]
    at_s = now_s
    for name, before_s, after_s in sorted(changes(forecast), key=lambda row: row[2] - row[1]):
        change_s = after_s - before_s
        if abs(change_s) >= _SMALL * now_s:
            part = Span(at_s, at_s + change_s, "saved" if change_s < 0 else "lost")
            rows.append(Bar(name, [part], words_of(change_s), max(at_s, at_s + change_s)))
            at_s += change_s
    low, high = forecast.interval_s or (target_s, target_s)
    rows.append(
        Bar("there", [Span(0, target_s, "target")], format_duration(target_s),
            max(high, target_s), Span(low, high))
    )  # fmt: skip
    most_s = max(now_s, high, *(row.end for row in rows))
    rules = [Rule(forecast.ceiling_s)]
    return _bars(rows, most_s, rules=rules, band=_ceiling([forecast]))


def _ceiling(forecasts: Sequence[Forecast]) -> Span | None:
    """The interval of the time without latency, over all that know one."""
    bounds = [f.ceiling_interval_s for f in forecasts if f.ceiling_interval_s]
    if not bounds:
        return None
    return Span(min(low for low, _ in bounds), max(high for _, high in bounds))


def choices(forecasts: Sequence[Forecast]) -> Bars:
    """Each target's forecast with its interval, beside the time now and that without latency."""
    now_s, ceiling_s = forecasts[0].baseline_s, min(f.ceiling_s for f in forecasts)
    rows = []
    for f in forecasts:
        s = f.forecast_s or 0.0
        low, high = f.interval_s or (s, s)
        interval = Span(low, high, "target")
        rows.append(Bar(f.target, [], format_duration(s), max(now_s, high), interval, s))
    most_s = max(row.end for row in rows)
    rows = [replace(row, end=most_s) for row in rows]
    rules = [
        Rule(ceiling_s, "zero latency", right=ceiling_s >= now_s or ceiling_s < most_s / 3),
        Rule(now_s, "now", right=ceiling_s < now_s),
    ]
    return _bars(rows, most_s, title="elapsed time", rules=rules, band=_ceiling(forecasts))


@dataclass(frozen=True)
class Track:
    """A measure of a run seen in part, all in one unit; ``low`` to ``high`` may remain."""

    name: str
    before: float
    recorded: float
    remaining: float
    low: float
    high: float
    text: str


def phases(tracks: Sequence[Track]) -> Bars:
    """Each track as shares of its whole, with a line over where its end may be."""
    rows = []
    for track in tracks:
        whole = (track.before + track.recorded + track.remaining) or 1.0
        spans, end = [], 0.0
        for part, colour in zip(
            (track.before, track.recorded, track.remaining), PART_COLOURS.values(), strict=True
        ):
            spans.append(Span(end, end + part / whole, colour))
            end += part / whole
        done = (track.before + track.recorded) / whole
        low, high = (min(done + x / whole, _REACH_MAX) for x in (track.low, track.high))
        rows.append(Bar(track.name, spans, track.text, max(1.0, high), Span(low, high), above=True))
    legend = [(part, colour, "square") for part, colour in PART_COLOURS.items()]
    return _bars(rows, max(row.end for row in rows), shares=True, legend=legend)


def io_sizes(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str], best: Mapping[str, Any] | None
) -> Bars:
    """Time of reads and writes, one after the other, by setting."""
    bars = []
    for row, name in zip(rows, names, strict=True):
        reads_s, writes_s = ((row.get(f"{op}s") or {}).get("total_s", 0) for op in OPS)
        keys = ("min_bytes", "max_bytes")
        is_best = best is not None and all(row[key] == best[key] for key in keys)
        text = format_duration(row["total_s"]) + ("  ◀ best" if is_best else "")
        spans = [Span(0, reads_s, "read"), Span(reads_s, reads_s + writes_s, "write")]
        bars.append(Bar(name, spans, text, max(row["total_s"], reads_s + writes_s)))
    legend = [("reads", "read", "square"), ("writes", "write", "square")]
    most_s = max(bar.end for bar in bars)
    return _bars(bars, most_s, title="time of all temp I/O", legend=legend)
