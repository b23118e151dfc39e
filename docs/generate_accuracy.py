"""accuracy.md and the README's table: ``python docs/generate_accuracy.py`` writes them.

Both are made from accuracy/cases.parquet. The README's table stands between ``<!-- accuracy -->``
and ``<!-- end of accuracy -->``.
"""

import re
from pathlib import Path

from spillcast.lab.case import Truth, read_truth
from spillcast.tabular import markdown_table, paragraph
from spillcast_lab.accuracy import write_accuracy
from spillcast_lab.outcome import FALLING
from spillcast_lab.summary import (
    SUMMARY_HEADER,
    by_direction_and_threads,
    of_evidence,
    summarise,
    summary_row,
)

PAGE = Path(__file__).with_name("accuracy.md")
CASES = PAGE.with_name("accuracy") / "cases.parquet"
README = Path(__file__).parents[1] / "README.md"
_MARKED = re.compile(r"(<!-- accuracy -->\n).*?(<!-- end of accuracy -->)", re.DOTALL)


def readme_section(truth: Truth) -> str:
    """A table of the cases by direction, and from slow to fast by engine, below its legend."""
    about = truth.about
    engines = " and ".join(sorted({case.engine for case in truth.cases}))
    text = (
        f"`spillcast verify --seed {about.get('seed', 0)}` of "
        f"{str(about.get('started_at', ''))[:10]}, with {engines}: errors of forecasts for storage "
        "on which the queries had not run, relative to the measured time. *signs*: p-value of a "
        "sign test of the errors. *held*: share of the intervals that hold the measured time. "
        "*width*: half-width of the intervals. *formula*: median error of the blog post's formula."
    )
    rows = [
        summary_row(", ".join(names), summarise(group))[:-1]
        for names, group in by_direction_and_threads(of_evidence(truth.cases)).items()
        if len(names) == (2 if names[0] == FALLING else 1)
    ]
    table = markdown_table(("forecasts", *SUMMARY_HEADER[1:-1]), rows)
    return f"{paragraph(text)}\n\n{table}"


def with_table(text: str, section: str) -> str:
    """The README with this section between its markers."""
    return _MARKED.sub(lambda result: f"{result[1]}\n{section}\n\n{result[2]}", text)


if __name__ == "__main__":
    truth = read_truth(CASES)
    write_accuracy(truth, PAGE)
    README.write_text(with_table(README.read_text(), readme_section(truth)))
