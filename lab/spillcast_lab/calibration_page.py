"""The section of docs/accuracy.md on measured constants and how wide intervals are."""

from collections.abc import Sequence
from statistics import fmean, median

from spillcast.calibrated import ANY, Constant, calibrated, constants, residuals_about
from spillcast.forecast.sum.interval import Uncertainty
from spillcast.lab.case import Case
from spillcast.lab.summary import of_evidence
from spillcast.report.table import markdown_table, paragraph
from spillcast.report.verify import share
from spillcast_lab.calibrate import judge, residuals_of

#: A case: what its interval follows from, whether it holds, half of its width.
Row = tuple[Uncertainty, bool, float]


def calibration(cases: Sequence[Case]) -> str:
    """The constants of forecasts, what they rest on, and how well intervals hold other cases."""
    about, made = residuals_about(), calibrated().residuals
    rows = [
        [
            constant.name,
            _value(constant),
            constant.rests_on,
            constant.date,
            constant.machine,
            f"`{constant.command}`",
        ]
        for constant in constants()
    ]
    spreads = (("rest_spread", made.rest_spread), ("io_spread", made.io_spread))
    rows += [
        [name, share(value), about["rests_on"], about["date"], about["machine"],
         f"`{about['command']}`"]
        for name, value in spreads
    ]  # fmt: skip
    measured = markdown_table(("constant", "value", "from", "date", "machine", "command"), rows)
    quantiles = markdown_table(
        ("evidence", "direction", "cases", "factor", *(f"{level:.1%}" for level in made.levels)),
        [
            [constant.kind, constant.direction, f"{constant.cases}", f"{constant.factor:.1f}",
             *(f"{times:.2f}{'' if level <= constant.alone_up_to else '*'}"
               for level, times in zip(made.levels, constant.quantiles, strict=True))]
            for constant in made.categories
        ],
    )  # fmt: skip
    lines = [
        paragraph(
            "`make constants` measures the constants and writes "
            "`python/spillcast/calibrated.toml`. The half-width of an interval is its spread times "
            "a quantile: that of the errors, in spreads, of verified forecasts of the same kind of "
            "evidence and direction ([method](method.md#the-interval)). *factor* is the error of "
            "a kind of evidence relative to whole recordings. Quantiles with an asterisk also use "
            "other categories, because there are too few cases."
        ),
        measured,
        quantiles,
        *judged(cases, cases[0].forecast.confidence),
    ]
    if runs := [held for case in of_evidence(cases) for held in case.runs_covered]:
        single = (
            f"The intervals contain {fmean(runs):.0%} of all single runs on the targets, including "
            "the disturbed runs that do not count."
        )
        lines.append(paragraph(single))
    return "\n\n".join(lines)


def _value(constant: Constant) -> str:
    values = constant.value if isinstance(constant.value, list) else [constant.value]
    return f"{', '.join(f'{value:g}' for value in values)} {constant.unit}"


def judged(cases: Sequence[Case], confidence: float) -> list[str]:
    """The cases in intervals that the other queries make; nothing where there are none."""
    residuals = residuals_of(cases)
    if len({residual.query for residual in residuals}) < 2:
        return []
    made = [
        (residual.residual.uncertainty, residual.held, residual.half_width)
        for residual in judge(residuals, confidence)
    ]
    given = [
        (case.forecast.uncertainty, case.covered, case.half_width)
        for case in cases
        if case.forecast.uncertainty and case.half_width is not None
    ]
    groups = {
        (uncertainty.kind, way) for uncertainty, *_ in made for way in (uncertainty.direction, ANY)
    }
    rows = []
    for group in sorted(groups):
        others, stated = _of(group, made), _of(group, given)
        rows.append([*group, f"{len(others)}", *_figures(others), *_figures(stated)])
    text = (
        f"Each case is tested with a {confidence:.0%} interval made from all other queries, "
        "including cases that were refused because their interval was too wide. The last columns "
        "are the intervals as stated:"
    )
    header = ("evidence", "direction", "cases", "held", "width", "stated: held", "width")
    return [paragraph(text), markdown_table(header, rows)]


def _of(group: tuple[str, str], rows: Sequence[Row]) -> list[Row]:
    kind, way = group
    return [row for row in rows if row[0].kind == kind and way in (ANY, row[0].direction)]


def _figures(rows: Sequence[Row]) -> list[str]:
    if not rows:
        return ["-", "-"]
    held, width = fmean(row[1] for row in rows), median(row[2] for row in rows)
    return [share(held, 0), share(width)]
