"""The page docs/accuracy-spark.md, made from the cases of ``verify --engine spark`` alone."""

from collections.abc import Mapping, Sequence
from math import log, sqrt
from statistics import fmean, median

from spillcast.forecast.spark.forecast import MODEL_SPREAD, RUN_SPREAD
from spillcast.lab.case import Case, Truth
from spillcast.report.checks import percent, share
from spillcast.tabular import markdown_table, paragraph
from spillcast.units import format_bytes, format_count
from spillcast_lab.spark.verify import LOG, LOG_AND_RECORDING, NAIVE, SPARKLENS
from spillcast_lab.summary import forecast_with, grouped, of_evidence, summarise
from spillcast_lab.verify_page import EVIDENCE, by_way, case_row

#: By evidence, the bounds that forecasts are to keep: of the median error and its 90th percentile.
AIMS = {LOG: (0.12, 0.30), LOG_AND_RECORDING: (0.08, 0.20)}
#: Of the share of intervals that hold.
HELD_BOUNDS = (0.85, 0.95)
#: Storage is no part of a case in which it moves less of the time than this.
MOVED_MIN = 0.1
_FIGURES = (
    "evidence", "cases", "median", "90th", "bias", "held", "width",
    "naive, median", "90th", "Sparklens, median", "90th",
)  # fmt: skip


def is_of_spark(truth: Truth) -> bool:
    """Whether all cases were made from event logs."""
    return bool(truth.cases) and all(case.evidence.name in AIMS for case in truth.cases)


def spark_markdown(truth: Truth) -> str:
    """The page."""
    cases = truth.cases
    parts = [
        "# Accuracy: Spark",
        _headline(cases),
        _method(truth),
        "## Aims",
        _aims(cases),
        *(_spread(some, name) for name, some in _by_evidence(cases).items()),
        "## By direction",
        _table("", {"all": cases, **by_way(cases)}),
        "## By storage",
        _table("from, to", grouped(cases, lambda case: f"{case.source}, {case.target}")),
        "## By job",
        _table("job", grouped(cases, lambda case: case.workload)),
        "## Measured times",
        _measured(truth),
        "## All forecasts",
        _all_cases(cases),
    ]
    if left_out := truth.about.get("left_out"):
        rows = [[job["workload"], job["why"]] for job in left_out]
        parts += ["## Left out", markdown_table(("job", "why"), rows)]
    return "\n\n".join(parts) + "\n"


def _by_evidence(cases: Sequence[Case]) -> dict[str, list[Case]]:
    """Cases by evidence in the order of AIMS."""
    return {name: some for name in AIMS if (some := of_evidence(cases, name))}


def _headline(cases: Sequence[Case]) -> str:
    sentences = []
    for name, some in _by_evidence(cases).items():
        summary = summarise(some)
        sentences.append(
            f"{format_count(summary.cases, 'forecast')} by {EVIDENCE[name]}: median error "
            f"{share(summary.median)}, 90th percentile {share(summary.p90)}; "
            f"{share(summary.coverage, 0)} of the intervals hold."
        )
    first = next(iter(_by_evidence(cases).values()))
    others = [
        f"{words} median {share(other.median)}, 90th percentile {share(other.p90)}"
        for name, words in (
            (NAIVE, "time off the CPU scaled by the ratio of bandwidths:"),
            (SPARKLENS, "each task scaled so and scheduled again:"),
        )
        if (other := summarise(forecast_with(first, name))).cases
    ]
    return paragraph(f"{' '.join(sentences)} Other ways: {'; '.join(others)}.")


def _overhead(cases: Sequence[Case]) -> str:
    """What recording cost the runs, as a sentence."""
    shares = [
        case.evidence.overhead_s / case.evidence.covers_s
        for case in of_evidence(cases, LOG_AND_RECORDING)
        if case.evidence.overhead_s is not None
    ]
    if not shares:
        return ""
    return (
        "Every run is recorded, which by the recordings' own measure cost its threads "
        f"{share(median(shares), 2)} of its time in the median, at most {share(max(shares), 2)}."
    )


def _method(truth: Truth) -> str:
    about, machine = truth.about, truth.about["machine"]
    engines = " and ".join(sorted({case.engine for case in truth.cases}))
    cache = format_bytes(about["page_cache_bytes"])
    text = (
        f"Made by `spillcast verify --engine spark --seed {about['seed']} --repeat "
        f"{about['repeat']}`, started {about['started_at']}, with {engines}, on "
        f"{machine['cpus']} CPUs, kernel {machine['kernel']}. Each job runs with its local "
        "directories on every storage, and each run is forecast for the others: by its event log, "
        f"and by log and recording. {_overhead(truth.cases)} The "
        f"memory of a control group bounds the page cache to {cache}, and a limit of the device "
        "bounds dirty pages to 20 % of it, as vm.dirty_ratio does. A forecast is told the page "
        "cache, the bandwidth of limited devices and the result of `probe --grid` of the disk; the "
        "storage of the run itself only where there is no recording. "
        "*naive*: all time in which tasks were not on a CPU, times the ratio of bandwidths. "
        "*Sparklens*: the same for each task, with tasks scheduled again."
    )
    rows = [[storage["name"], storage["what"]] for storage in about["storages"]]
    again = "`spillcast verify --from accuracy/spark.parquet --page FILE` makes this page."
    return "\n\n".join([paragraph(text), markdown_table(("storage", "what"), rows), again])


def _aims(cases: Sequence[Case]) -> str:
    low, high = HELD_BOUNDS
    rows = []
    for name, some in _by_evidence(cases).items():
        (median_max, p90_max), summary = AIMS[name], summarise(some)
        rows += [
            [EVIDENCE[name], "median error", f"at most {share(median_max, 0)}",
             share(summary.median), _met((summary.median or 0) <= median_max)],
            ["", "90th percentile", f"at most {share(p90_max, 0)}",
             share(summary.p90), _met((summary.p90 or 0) <= p90_max)],
            ["", "intervals that hold", f"{share(low, 0)} to {share(high, 0)}",
             share(summary.coverage, 0), _met(low <= (summary.coverage or 0) <= high)],
        ]  # fmt: skip
    return markdown_table(("evidence", "figure", "aim", "measured", ""), rows)


def _spread(cases: Sequence[Case], evidence: str) -> str:
    """The constants of the interval, and what they would be by these cases."""
    moved, still = list[float](), list[float]()
    for case in cases:
        forecast = case.forecast
        if forecast.forecast_s is None:
            continue
        error = log(case.measured_to_s / forecast.forecast_s)
        share_moved = abs(1 - forecast.ceiling_s / max(forecast.baseline_s, forecast.forecast_s))
        if share_moved > MOVED_MIN:
            moved.append((error**2 - RUN_SPREAD**2) / share_moved**2)
        else:
            still.append(error**2)
    spreads = [sqrt(max(fmean(squares), 0.0)) if squares else None for squares in (moved, still)]
    shown = ["-" if spread is None else f"{spread:.3f}" for spread in spreads]
    return paragraph(
        f"Intervals by {EVIDENCE[evidence]} follow from two constants: MODEL_SPREAD "
        f"{MODEL_SPREAD}, by these cases {shown[0]}; RUN_SPREAD {RUN_SPREAD}, by the "
        f"{len(still)} cases in which storage is less than {share(MOVED_MIN, 0)} of the time "
        f"{shown[1]}."
    )


def _met(met: bool) -> str:
    return "met" if met else "**missed**"


def _table(of: str, groups: Mapping[str, Sequence[Case]]) -> str:
    """A row for each evidence of each group."""
    rows = []
    for group, in_group in groups.items():
        for name, cases in _by_evidence(in_group).items():
            summary = summarise(cases)
            others = [summarise(forecast_with(cases, other)) for other in (NAIVE, SPARKLENS)]
            rows.append([
                group, EVIDENCE[name], f"{summary.cases}", share(summary.median),
                share(summary.p90), percent(summary.bias), share(summary.coverage, 0),
                share(summary.half_width),
                *(share(figure) for other in others for figure in (other.median, other.p90)),
            ])  # fmt: skip
    return markdown_table((of, *_FIGURES), rows)


def _measured(truth: Truth) -> str:
    """Seconds by job and storage."""
    names = [storage["name"] for storage in truth.about["storages"]]
    rows = []
    for job, cases in grouped(truth.cases, lambda case: case.workload).items():
        measured_s = {case.source: case.measured_from_s for case in cases}
        rows.append([job, *(f"{measured_s[name]:.1f}" for name in names)])
    return markdown_table(("job, s", *names), rows)


def _all_cases(cases: Sequence[Case]) -> str:
    """A row for each pair of storages of each job."""
    pairs = grouped(cases, lambda case: f"{case.workload}, {case.source}, {case.target}")
    rows = []
    for pair in pairs.values():
        by_evidence, first = _by_evidence(pair), pair[0]
        others = [first.otherwise(name) for name in (NAIVE, SPARKLENS)]
        forecasts = list[str]()
        for name in AIMS:
            row = case_row(by_evidence[name][0]) if name in by_evidence else [None] * 8
            *_, forecast, bounds, _, error, missed = (cell or "" for cell in row)
            forecasts += [forecast, bounds, f"{error} {missed}".strip()]
        errors = [percent(other.error if other else None) for other in others]
        measured = f"{first.measured_to_s:.1f}"
        rows.append([first.workload, first.source, first.target, measured, *forecasts, *errors])
    header = ("job", "from", "to", "measured, s", "by log, s", "interval", "error",
              "by log and recording, s", "interval", "error", "naive", "Sparklens")  # fmt: skip
    note = "`!`: the measured time is outside of the interval."
    return f"{markdown_table(header, rows)}\n\n{note}"
