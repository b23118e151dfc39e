"""accuracy.md and the README's table: ``python docs/generate_accuracy.py`` writes them.

Both are made from accuracy/cases.parquet. The README's table stands between ``<!-- accuracy -->``
and ``<!-- end of accuracy -->``.
"""

import re
from pathlib import Path

from spillcast.lab.case import read_truth
from spillcast_lab.accuracy import readme_section, write_accuracy

PAGE = Path(__file__).with_name("accuracy.md")
CASES = PAGE.with_name("accuracy") / "cases.parquet"
README = Path(__file__).parents[1] / "README.md"
_MARKED = re.compile(r"(<!-- accuracy -->\n).*?(<!-- end of accuracy -->)", re.DOTALL)


def with_table(text: str, section: str) -> str:
    """The README with this section between its markers."""
    return _MARKED.sub(lambda result: f"{result[1]}\n{section}\n\n{result[2]}", text)


if __name__ == "__main__":
    truth = read_truth(CASES)
    write_accuracy(truth, PAGE)
    README.write_text(with_table(README.read_text(), readme_section(truth)))
