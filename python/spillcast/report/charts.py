"""The charts of docs/accuracy.md, as SVG."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spillcast.errors import InputError
from spillcast.lab.case import Case
from spillcast.lab.summary import of_evidence, summarise
from spillcast.report.verify import breakdown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: One colour and one mark for each thread count; told apart without colour too.
MARKS = {1: ("#1b6ca8", "o"), 2: ("#d1812f", "s"), 4: ("#7a3e9d", "^")}
AIM, GREY = (0.85, 0.95), "#888888"
#: The same picture from the same cases: SVG names its parts by a hash.
STYLE: dict[Any, Any] = {"svg.hashsalt": "spillcast", "svg.fonttype": "none", "font.size": 9}


def draw_charts(cases: Sequence[Case], folder: Path) -> list[str]:
    """Draw what there is to draw; names of the files. InputError where matplotlib is missing."""
    whole = [case for case in of_evidence(cases) if case.forecast.forecast_s is not None]
    if not whole:
        return []
    try:
        import matplotlib as mpl
    except ImportError as error:
        hint = "install it: pip install matplotlib"
        raise InputError("the charts of --markdown want matplotlib", hint) from error
    mpl.use("svg")
    import matplotlib.pyplot as plt

    drawn = []
    with mpl.rc_context(STYLE):
        for name, draw, size in (
            ("forecast.svg", _forecasts, (5.5, 5.0)),
            ("coverage.svg", _coverage, (6.5, 5.0)),
        ):
            figure, axes = plt.subplots(figsize=size, layout="constrained")
            draw(axes, cases)
            figure.savefig(folder / name, metadata={"Date": None, "Creator": None})
            plt.close(figure)
            drawn.append(name)
    return drawn


def _forecasts(axes: "Axes", cases: Sequence[Case]) -> None:
    """Each forecast from a whole recording against the measured time."""
    whole = [case for case in of_evidence(cases) if case.forecast.forecast_s is not None]
    ends = [s for case in whole for s in (case.measured_to_s, case.forecast.forecast_s or 1.0)]
    span = min(ends) / 1.3, max(ends) * 1.3
    axes.plot(span, span, color=GREY, linewidth=1)
    for factor in (0.9, 1.1):
        axes.plot(span, [s * factor for s in span], color=GREY, linewidth=0.7, linestyle=":")
    for threads, (colour, mark) in MARKS.items():
        of = [case for case in whole if case.threads == threads]
        words = "one thread or process" if threads == 1 else f"{threads} threads or processes"
        axes.scatter(
            [case.measured_to_s for case in of],
            [case.forecast.forecast_s or 1.0 for case in of],
            s=16, marker=mark, facecolors="none", edgecolors=colour, label=f"{words} ({len(of)})",
        )  # fmt: skip
    axes.set(xscale="log", yscale="log", xlim=span, ylim=span, aspect="equal")
    axes.set_xlabel("measured elapsed time, s")
    axes.set_ylabel("forecast, s")
    axes.set_title("Forecast against measured time; dotted: 10 % off")
    ticks = [t for t in (0.5, 1, 2, 5, 10, 20, 50, 100) if span[0] <= t <= span[1]]
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.set_ticks([], minor=True)
    axes.legend(frameon=False, loc="upper left")


def _coverage(axes: "Axes", cases: Sequence[Case]) -> None:
    """The share of intervals that hold the truth, group by group, with what chance does to it."""
    rows: list[tuple[str, list[Case]]] = []
    for groups in breakdown(cases).values():
        rows += [*groups.items(), ("", [])]
    rows.pop()
    confidence = cases[0].forecast.confidence
    axes.axvspan(*AIM, color="#dfeedd", zorder=0)
    axes.axvline(confidence, color=GREY, linewidth=1, zorder=1)
    for height, (_, of) in enumerate(rows):
        found = summarise(of)
        if found.coverage is None:
            continue
        low, high = _chance(found.coverage, found.cases - found.refused)
        axes.plot([low, high], [height, height], color=MARKS[1][0], linewidth=1)
        axes.plot(found.coverage, height, "o", color=MARKS[1][0], markersize=4)
    given = [sum(case.forecast.interval_s is not None for case in of) for _, of in rows]
    labels = [
        f"{row[0]} ({count})" if row[0] else "" for row, count in zip(rows, given, strict=True)
    ]
    axes.set_yticks(range(len(rows)), labels)
    axes.tick_params(axis="y", length=0)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.02)
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:.0%}")
    axes.set_title(f"Share of {confidence:.0%} intervals that hold the measured time", loc="left")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def _chance(coverage: float, cases: int) -> tuple[float, float]:
    """Where the true share lies, 90 % sure, if cases were independent: Wilson's interval."""
    z = 1.645
    middle = (coverage + z * z / (2 * cases)) / (1 + z * z / cases)
    half = z * ((coverage * (1 - coverage) + z * z / (4 * cases)) / cases) ** 0.5
    half /= 1 + z * z / cases
    return middle - half, middle + half
