"""The page docs/accuracy.md, made only from the cases of a verification."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import permutations
from pathlib import Path

from spillcast.errors import OutputUnwritable
from spillcast.lab.case import Case, Truth
from spillcast.report.checks import percent
from spillcast.tabular import markdown_table, paragraph
from spillcast.units import format_bytes, format_count, format_duration
from spillcast_lab.accuracy_figures import (
    aims,
    aims_table,
    by_means,
    draw_charts,
    estimates,
    figures_table,
    headline,
    noise,
)
from spillcast_lab.calibrate import calibration
from spillcast_lab.outcome import delay_share, engine_name
from spillcast_lab.summary import EVIDENCE, breakdown, of_evidence, query_of, refusals, worst
from spillcast_lab.variants import REHEARSED_S, REHEARSED_SHARE

#: File in the page's folder with the reasons for the largest errors, written by hand.
REASONS = "worst.md"
NO_REASONS = f"Their reasons appear here after they have been written to `docs/accuracy/{REASONS}`."
READING = (
    "*cases*: *28 of 29* means that one forecast was refused. *median* and *90th*: median and "
    "90th percentile of the absolute error, relative to the measured time. *bias*: median of "
    "the signed errors, above 0 where forecasts are too long. *signs*: p-value of a sign test: "
    "the probability of at least as many errors of one sign without a bias. *held*: share of "
    "the intervals that contain the measured time. *width*: half-width of the interval over "
    "the forecast (median). *formula*: median error of the blog post's formula on the same "
    "recordings. *ratio*: that error over the forecast's. A storage is slow if every operation "
    "takes 0.1 ms or more, and fast if memory answers: tmpfs, and the disk, whose page cache holds "
    "the spill. All tables but the one by evidence are for whole recordings."
)
SLOWED = (
    "Storage is slowed by a file system that delays its answers, which takes CPU time on the "
    "same cores, or by the kernel, which delays requests to the disk."
)
ESTIMATES = (
    "The same recordings and probes, forecast without one of the estimates; *differ* is the "
    "number of forecasts that change. *rehearsed*: the start of the query is run on the "
    f"target, until its first temp I/O and then for {REHEARSED_SHARE:.0%} of its recorded "
    f"time, at most {format_duration(REHEARSED_S)} in all, so that it is a part of the run. "
    "Queries that ended in this time, or did no temp I/O, do not count. *with previous runs on "
    "other storage*: the recordings on the query's other storages are given as `--history`. "
    "The next row has the same cases without that."
)
COST = (
    "First, the difference between each run that counts and the median of the other runs of "
    "the same query on the same storage. Then the time of a recorded run relative to the "
    "median of the bare runs there, and the absolute difference of the two. A forecast from "
    "one recording cannot be expected to be more accurate than runs repeat."
)


def write_accuracy(truth: Truth, page: Path) -> None:
    """Write the page, and its charts into the folder of the same name.

    InputError if they cannot be written.
    """
    from spillcast_lab.spark.page import is_of_spark, spark_markdown

    folder = page.with_suffix("")
    try:
        if is_of_spark(truth):
            page.write_text(spark_markdown(truth))
        else:
            folder.mkdir(exist_ok=True)
            charts = [f"{folder.name}/{name}" for name in draw_charts(truth.cases, folder)]
            reasons = folder / REASONS
            written = reasons.read_text().strip() if reasons.exists() else ""
            page.write_text(accuracy_markdown(truth, charts, written))
    except OSError as error:
        hint = "name another with --page"
        raise OutputUnwritable(
            f"{error.filename or page}: {error.strerror or error}", hint
        ) from error


def accuracy_markdown(truth: Truth, charts: Sequence[str], reasons: str) -> str:
    """The page; ``charts`` are addresses of pictures, ``reasons`` explain the worst cases."""
    cases = truth.cases
    whole, groups = of_evidence(cases), breakdown(cases)
    parts = ["# Accuracy", *([headline(whole)] if cases else []), _introduction(truth)]
    if cases:
        parts += ["## Aims", aims_table(aims(cases))]
        parts += ["## By direction", *(f"![{Path(chart).stem}]({chart})" for chart in charts)]
        parts += [paragraph(READING)]
        parts += [figures_table("direction", groups["direction"])]
        parts += ["## By cause of slowness", paragraph(SLOWED), by_means(whole)]
        parts += ["## Effect of each estimate", paragraph(ESTIMATES), estimates(whole)]
        parts += ["## Cost of recording, and repeatability of runs", paragraph(COST), noise(whole)]
        for by in ("workload", "evidence"):
            parts += [f"## By {by}", figures_table(by, groups[by])]
        parts += ["## Calibration", calibration(cases)]
        parts += ["## The ten largest errors", _worst(worst(whole)), reasons or NO_REASONS]
        parts += ["## Refused", _refused(refusals(cases))]
    parts += ["## Which cases were verified", _drawn(truth)]
    return "\n\n".join(parts) + "\n"


def _introduction(truth: Truth) -> str:
    about = truth.about
    machine = about.get("machine", {})
    versions = " and ".join(sorted({case.engine for case in truth.cases})) or "no engine"
    budget_s = about.get("budget_s")
    limit = f" within {budget_s / 60:.0f} minutes" if budget_s else ""
    seed = f", drawn by seed {about['seed']}" if "seed" in about else ""
    how = (
        "Each case compares a forecast with the median of "
        f"{format_count(about.get('repeat', 1), 'measured run')} on the target. The forecast is "
        "made from evidence of a run elsewhere and a probe of the target; no run there is used. "
        "Recorded and bare runs alternate over all storages. A run is repeated if other work on "
        "the machine took more than 5 % of it, by the time it was runnable but not scheduled and "
        "by its CPU time above the least of the same query on the same storage. The runs with "
        "the least disturbance count: the median of the bare ones, and a recorded one that was "
        "disturbed as little. "
        f"Made by `spillcast verify`{limit}{seed}, started "
        f"{about.get('started_at', 'at an unknown time')}, with {versions}, on "
        f"{machine.get('cpus')} CPUs, {format_bytes(machine.get('memory_bytes') or 0)} of memory, "
        f"kernel {machine.get('kernel')}."
    )
    again = (
        "This command makes the page from [cases.parquet](accuracy/cases.parquet), which holds "
        "every case with all its runs ([schema](schema.md#verification)):"
    )
    command = "spillcast verify --from docs/accuracy/cases.parquet --page docs/accuracy.md"
    return "\n\n".join([paragraph(how), paragraph(again), f"```sh\n{command}\n```"])


def _worst(cases: Sequence[Case]) -> str:
    rows = [
        [
            f"{engine_name(case)} {query_of(case)}",
            f"{case.source} to {case.target}",
            f"{case.forecast.forecast_s or 0.0:.3g} s",
            f"{case.measured_to_s:.3g} s",
            percent(case.error),
            "; ".join(
                f"{term.name} {term.baseline_s:.3g} to {term.forecast_s:.3g}"
                for term in case.forecast.terms_by_name
            ),
            ", ".join(
                f"{share:.0%}"
                for share in (
                    case.evidence.run_queue_delay_s / case.evidence.covers_s,
                    delay_share(case.on_source),
                    delay_share(case.on_target),
                )
            ),
        ]
        for case in cases
    ]
    header = ("query", "storages", "forecast", "measured", "error", "terms, s", "delay")
    note = paragraph(
        "For whole recordings. *delay*: share of the time runnable but not scheduled, in the "
        "recorded run and in the least disturbed runs on source and target, summed over threads."
    )
    return markdown_table(header, rows) + "\n\n" + note


def _refused(by_reason: Mapping[str, Sequence[Case]]) -> str:
    if not by_reason:
        return "No forecast was refused."
    rows = [
        [
            reason,
            f"{len(cases)}",
            ", ".join(sorted({EVIDENCE[case.evidence.name] for case in cases})),
            ", ".join(sorted({f"{engine_name(case)} {query_of(case)}" for case in cases})),
        ]
        for reason, cases in by_reason.items()
    ]
    return markdown_table(
        ("reason, with the figures of one case", "cases", "evidence", "queries"), rows
    )


def _drawn(truth: Truth) -> str:
    about = truth.about
    storages = about.get("storages", [])
    count = len(storages)
    names = [
        [s["name"], s["what"] + (f"; not drawn: {s['why']}" if "why" in s else "")]
        for s in storages
    ]
    left_out, drawn = about.get("left_out", []), about.get("drawn", [])
    # An engine of several versions has a query several times, each with different storages.
    whys = {(*_cell(cell), *cell["storages"]): cell["why"] for cell in left_out if cell["storages"]}
    rows, directed = list[list[str]](), list[tuple[str, ...]]()
    for cell in sorted(drawn, key=_cell):
        why = whys.get((*_cell(cell), *cell["storages"]), "")
        rows.append([*_cell(cell), ", ".join(cell["storages"]), why])
        if not why:
            directed += map(tuple, cell.get("pairs") or permutations(cell["storages"], 2))
    undrawn = Counter(str(cell["why"]) for cell in left_out if not cell["storages"])
    cells = len(drawn) + undrawn.total()
    text = (
        f"{len(set(directed))} of {count * (count - 1)} directions between two storages were "
        f"verified, each with some of the queries: {len(directed)} of "
        f"{cells * count * (count - 1)} possible cases. A seed draws the storages of each "
        "query, each about equally often, with at least half of the pairs from slow to fast. "
        "DuckDB's merge join is its ASOF join, which sorts both sides."
    )
    for why, times in undrawn.items():
        text += (
            f" Of {cells} queries, each with its threads and cache, {times} were skipped: {why}."
        )
    header = ("engine", "query", "threads", "storages", "skipped because")
    tables = [markdown_table(("storage", "description"), names), markdown_table(header, rows)]
    return f"{tables[0]}\n\n{paragraph(text)}\n\n{tables[1]}"


def _cell(document: dict[str, object]) -> tuple[str, str, str]:
    return str(document["engine"]), str(document["workload"]), str(document["threads"])
