"""The page docs/accuracy.md, made from the cases of a verification and nothing else."""

from collections.abc import Mapping, Sequence
from itertools import permutations
from pathlib import Path

from spillcast.errors import InputError
from spillcast.lab.aims import Aim, aims
from spillcast.lab.case import Case, Truth
from spillcast.lab.summary import of_evidence, refusals, worst
from spillcast.lab.variant import REHEARSED_S, REHEARSED_SHARE
from spillcast.report.accuracy_figures import (
    by_direction,
    by_means,
    estimates,
    figures_table,
    headline,
    noise,
    slow_to_fast,
)
from spillcast.report.calibration import calibration
from spillcast.report.draw import need_report_extra
from spillcast.report.table import markdown_table, paragraph
from spillcast.report.verify import (
    EVIDENCE,
    breakdown,
    engine_of,
    percent,
    query_of,
    share,
)
from spillcast.units import format_bytes, format_duration

#: Written by people, shown below the worst cases: in the page's folder.
REASONS = "worst.md"
HEADINGS = {
    "engine": "By engine",
    "threads": "By threads",
    "workload": "By workload",
    "evidence": "By evidence",
}


def write_accuracy(truth: Truth, page: Path) -> None:
    """Write the page, and its charts into the folder beside it that has its name.

    InputError where they cannot be written.
    """
    folder = page.with_suffix("")
    try:
        _write(truth, page, folder)
    except OSError as error:
        hint = "name another with --markdown"
        raise InputError(f"{error.filename or page}: {error.strerror or error}", hint) from error


def _write(truth: Truth, page: Path, folder: Path) -> None:
    need_report_extra("--markdown")
    from spillcast.report.charts import draw_charts

    folder.mkdir(exist_ok=True)
    charts = draw_charts(truth.cases, folder)
    reasons = folder / REASONS
    said = reasons.read_text().strip() if reasons.exists() else ""
    page.write_text(
        accuracy_markdown(truth, {name: f"{folder.name}/{name}" for name in charts}, said)
    )


def accuracy_markdown(truth: Truth, charts: dict[str, str], reasons: str) -> str:
    """The page; ``charts`` are addresses by file name, ``reasons`` explain the worst cases."""
    cases = truth.cases
    whole = of_evidence(cases)
    parts = ["# Accuracy"]
    if cases:
        parts += [headline(whole), _introduction(truth)]
        parts += ["## What was aimed at", _aims(aims(cases))]
        parts += ["## Slow to fast", _reading(), slow_to_fast(whole)]
        parts += [f"![{name.split('.')[0]}]({address})" for name, address in charts.items()]
        parts += ["## By direction", by_direction(whole)]
        parts += ["## By what makes storage slow", _slowed(), by_means(whole)]
        parts += ["## What each estimate brings", _brings(), estimates(whole)]
        parts += ["## What recording costs, and how well a run repeats", _repeats(), noise(whole)]
        groups = breakdown(cases)
        for by, heading in HEADINGS.items():
            parts += [f"## {heading}", figures_table(by, groups[by])]
        parts += ["## Calibration", calibration(cases)]
        parts += ["## The worst ten", _worst(worst(whole)), reasons or _no_reasons()]
        parts += ["## Refused", _refused(refusals(cases))]
    else:
        parts.append(_introduction(truth))
    parts += ["## What was drawn and what was skipped", _drawn(truth)]
    return "\n\n".join(parts) + "\n"


def _introduction(truth: Truth) -> str:
    about = truth.about
    machine = about.get("machine", {})
    versions = " and ".join(sorted({case.engine for case in truth.cases})) or "no engine"
    budget_s = about.get("budget_s")
    limit = f" within {budget_s / 60:.0f} minutes" if budget_s else ""
    seed = f", drawn by seed {about['seed']}" if "seed" in about else ""
    how = (
        "Each case is a forecast made with no run on the target, from evidence of a run elsewhere "
        f"and a probe of the target, beside the median of {about.get('repeat', 1)} measured runs "
        "there. Recorded and bare runs on all storages take turns. Those from which other work on "
        "the machine took more than 5 % are repeated: time runnable without a CPU, and CPU time "
        "beyond that of the run with the least of the same query on the same storage. The calmest "
        "count: of the bare runs their median, of the recorded ones the one that is as calm. "
        f"Made by `spillcast verify`{limit}{seed}, begun "
        f"{about.get('started_at', 'at an unknown time')}, with {versions}, on "
        f"{machine.get('cpus')} CPUs, {format_bytes(machine.get('memory_bytes') or 0)} of memory, "
        f"kernel {machine.get('kernel')}."
    )
    again = (
        "This page is made from [cases.parquet](accuracy/cases.parquet), which holds every case "
        "with all its runs ([schema](schema.md#verification)), by"
    )
    command = "spillcast verify --from docs/accuracy/cases.parquet --markdown docs/accuracy.md"
    return "\n\n".join([paragraph(how), paragraph(again), f"```sh\n{command}\n```"])


def _aims(found: Sequence[Aim]) -> str:
    words = {True: "met", False: "**missed**", None: "no cases"}
    rows = [
        [aim.of, aim.what, _asked(aim), _figure(aim, aim.figure), _count(aim), words[aim.met]]
        for aim in found
    ]
    return markdown_table(("of", "figure", "aim", "found", "cases", ""), rows)


def _count(aim: Aim) -> str:
    return f"{aim.cases - aim.refused} of {aim.cases}" if aim.refused else f"{aim.cases}"


def _asked(aim: Aim) -> str:
    least, most = (_figure(aim, bound) for bound in (aim.least, aim.most))
    if aim.least is None:
        return f"at most {most}"
    return f"at least {least}" if aim.most is None else f"{least} to {most}"


def _figure(aim: Aim, value: float | None) -> str:
    if value is None:
        return "-"
    if aim.unit == "share":
        return share(value)
    if aim.unit == "times":
        return f"{value:.1f} times the forecast's"
    return f"{value:.1f} {aim.unit}"


def _reading() -> str:
    return paragraph(
        "Of the *cases* some may have been refused: *28 of 29* had a number. Errors are absolute "
        "and relative to the measured time: their median and 90th percentile. *held* is the share "
        "of the intervals given that hold the measured time, *width* half of their width over the "
        "forecast (median). *below* is the share whose measured time was below the lower end of "
        "what storage without any latency was said to leave. *repeat* is the machine's noise: how "
        "far a run on the target is from the others of the same query there (median). *seed's* is "
        "the median error of the formula that started this, on the same recordings; *ratio* is "
        "that over the forecast's. A storage is slow where every operation takes 0.1 ms or more, "
        "and fast where memory answers: tmpfs, and the disk, whose page cache holds the spill. But "
        "for the table by evidence, all is from whole recordings."
    )


def _slowed() -> str:
    return paragraph(
        "Storage is made slow by a file system that answers late, which takes CPU time on the same "
        "cores, or by the kernel, which holds requests to the disk back."
    )


def _brings() -> str:
    return paragraph(
        "The same recordings and probes, forecast with one estimate left out: *differ* is how many "
        "forecasts that changes. *rehearsed*: with the first seconds of the query run on the "
        "target, until its first temp I/O and from there on for "
        f"{REHEARSED_SHARE:.0%} of what the run took where it was recorded, at most "
        f"{format_duration(REHEARSED_S)} in all, so that it is a part and not the whole run; a "
        "query that came to its end in it does not count, nor one that did no temp I/O. Beside it "
        "the same cases without."
    )


def _repeats() -> str:
    return paragraph(
        "First, how far each run that counts is from the median of the others of the same query on "
        "the same storage. Then the time of a recorded run over the median of the bare ones there, "
        "less 1; and how far the two are apart, either way. No forecast from one recording can be "
        "expected to be nearer than runs are to each other."
    )


def _worst(cases: Sequence[Case]) -> str:
    rows = [
        [
            f"{engine_of(case)} {query_of(case)}",
            f"{case.source} to {case.target}",
            f"{case.forecast.forecast_s or 0.0:.3g} s",
            f"{case.measured_to_s:.3g} s",
            percent(case.error),
            "; ".join(
                f"{name} {here_s:.3g} to {there_s:.3g}"
                for name, (here_s, there_s) in _terms(case).items()
            ),
            ", ".join(
                f"{share:.0%}"
                for share in (
                    case.evidence.run_queue_delay_s / case.evidence.covers_s,
                    case.here.delay_share,
                    case.there.delay_share,
                )
            ),
        ]
        for case in cases
    ]
    header = ("query", "storages", "forecast", "measured", "error", "terms, s", "delay")
    note = paragraph(
        "Of whole recordings. *delay* is the share of the time runnable without a CPU: of the "
        "recorded run, and of the calmest runs on source and target; of several threads it is "
        "their sum."
    )
    return markdown_table(header, rows) + "\n\n" + note


def _terms(case: Case) -> dict[str, tuple[float, float]]:
    """Seconds here and there by the name of a term, over all sizes of operations."""
    found: dict[str, tuple[float, float]] = {}
    for term in case.forecast.terms:
        here_s, there_s = found.get(term.name, (0.0, 0.0))
        found[term.name] = here_s + term.baseline_s, there_s + term.forecast_s
    return found


def _no_reasons() -> str:
    return (
        f"Their reasons stand here once somebody has written them into `docs/accuracy/{REASONS}`."
    )


def _refused(by_reason: Mapping[str, Sequence[Case]]) -> str:
    if not by_reason:
        return "No forecast was refused."
    rows = [
        [
            reason,
            f"{len(found)}",
            ", ".join(sorted({EVIDENCE[case.evidence.name] for case in found})),
            ", ".join(sorted({f"{engine_of(case)} {query_of(case)}" for case in found})),
        ]
        for reason, found in by_reason.items()
    ]
    return markdown_table(("reason, with the figures of one", "cases", "evidence", "queries"), rows)


def _what(storage: Mapping[str, str]) -> str:
    """What a storage is, and why it was not drawn where it cannot be made."""
    why = storage.get("why")
    return storage["what"] if why is None else f"{storage['what']}; not drawn: {why}"


def _drawn(truth: Truth) -> str:
    about = truth.about
    storages = about.get("storages", [])
    count = len(storages)
    names = [[one["name"], _what(one)] for one in storages]
    left_out = {_cell(one): one["why"] for one in about.get("left_out", [])}
    drawn = {_cell(one): one["storages"] for one in about.get("drawn", [])}
    directed = [
        [tuple(pair) for pair in one.get("pairs") or permutations(one["storages"], 2)]
        for one in about.get("drawn", [])
        if _cell(one) not in left_out
    ]
    rows = [
        [*cell, ", ".join(drawn.get(cell, [])), left_out.get(cell, "")]
        for cell in sorted({*drawn, *left_out})
    ]
    pairs = {pair for of_cell in directed for pair in of_cell}
    done = sum(map(len, directed))
    text = (
        f"Of {count * (count - 1)} directions between two storages {len(pairs)} were verified, "
        f"each with some of the queries: {done} of the {len(rows) * count * (count - 1)} that all "
        "queries and all storages would make. The rest was skipped for want of time. Which "
        "storages a query gets is drawn by a seed, so that each comes about equally often; at "
        "least half of the pairs are from slow to fast. DuckDB's merge join is its ASOF join, "
        "which sorts both sides."
    )
    header = ("engine", "query", "threads", "storages", "skipped because")
    tables = [markdown_table(("storage", "what it is"), names), markdown_table(header, rows)]
    return f"{tables[0]}\n\n{paragraph(text)}\n\n{tables[1]}"


def _cell(one: dict[str, object]) -> tuple[str, str, str]:
    return str(one["engine"]), str(one["workload"]), str(one["threads"])
