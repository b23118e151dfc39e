"""The page docs/accuracy-spark.md, made only from the cases of ``verify --engine spark``."""

from collections.abc import Mapping, Sequence
from statistics import median

from spillcast.lab.case import Case, Truth
from spillcast.report.checks import share
from spillcast.tabular import markdown_table, paragraph
from spillcast.units import format_bytes, format_count
from spillcast_lab.accuracy_figures import Bounds, aims_of, aims_table, errors_within
from spillcast_lab.spark.verify import LOG, LOG_AND_RECORDING, NAIVE, SPARKLENS
from spillcast_lab.summary import (
    EVIDENCE,
    SUMMARY_HEADER,
    by_direction,
    forecast_with,
    grouped,
    of_evidence,
    summarise,
    summary_row,
)

#: Bounds of the figures of forecasts, by evidence.
AIMS: Mapping[str, Bounds] = {
    LOG: {**errors_within(0.12, 0.30), "coverage": (0.85, 0.95)},
    LOG_AND_RECORDING: {**errors_within(0.08, 0.20), "coverage": (0.85, 0.95)},
}
_HEADER = (
    "evidence", *SUMMARY_HEADER[1:8], "naive, median", "90th", "Sparklens, median", "90th",
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
        aims_table(
            aim
            for name, of_name in _by_evidence(cases).items()
            for aim in aims_of(EVIDENCE[name], of_name, AIMS[name])
        ),
        "## By direction",
        _table("", {"all": cases, **by_direction(cases)}),
        "## By storage",
        _table("from, to", grouped(cases, lambda case: f"{case.source}, {case.target}")),
        "## By job",
        _table("job", grouped(cases, lambda case: case.workload)),
    ]
    if left_out := truth.about.get("left_out"):
        rows = [[job["workload"], job["why"]] for job in left_out]
        parts += ["## Left out", markdown_table(("job", "why"), rows)]
    return "\n\n".join(parts) + "\n"


def _by_evidence(cases: Sequence[Case]) -> dict[str, list[Case]]:
    """Cases by evidence in the order of AIMS."""
    return {name: of_name for name in AIMS if (of_name := of_evidence(cases, name))}


def _headline(cases: Sequence[Case]) -> str:
    sentences = []
    for name, of_name in _by_evidence(cases).items():
        summary = summarise(of_name)
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
    """A sentence about the cost of recording."""
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
        "bounds dirty pages to 20 % of it, as vm.dirty_ratio does. A forecast is given the page "
        "cache, the bandwidth of limited devices and the result of `probe --grid` of the disk; the "
        "storage of the run itself only where there is no recording. "
        "*naive*: all time in which tasks were not on a CPU, times the ratio of bandwidths. "
        "*Sparklens*: the same for each task, with tasks scheduled again."
    )
    rows = [[storage["name"], storage["what"]] for storage in about["storages"]]
    again = "`spillcast verify --from accuracy/spark.parquet --page FILE` makes this page."
    return "\n\n".join([paragraph(text), markdown_table(("storage", "what"), rows), again])


def _table(of: str, groups: Mapping[str, Sequence[Case]]) -> str:
    """A row for each evidence of each group."""
    rows = []
    for group, in_group in groups.items():
        for name, cases in _by_evidence(in_group).items():
            others = [summarise(forecast_with(cases, other)) for other in (NAIVE, SPARKLENS)]
            errors = [share(figure) for other in others for figure in (other.median, other.p90)]
            figures = summary_row("", summarise(cases))[1:8]
            rows.append([group, EVIDENCE[name], *figures, *errors])
    return markdown_table((of, *_HEADER), rows)
