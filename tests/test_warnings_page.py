"""Each warning code of the program is explained on a page of the docs, and no other code."""

import re
from pathlib import Path

from harness import generator
from spillcast.forecast.caveat import explanations
from spillcast.storage.source import ASSUMED, GRID, PROBE, RECORDING, catalogue

ROOT = Path(__file__).parents[1]
generate = generator("warnings")
#: How code writes a warning code: in a class, in a document, or in evidence after a condition.
CODE = re.compile(
    r'(?:Caveat\(\s*|\bUnknown\([^,]*?|"code": |Note\(code=|warnings\.append\(\s*\(\s*)'
    r'"([a-z_-]+)"(?=[,)}])'
)
SOURCES = (PROBE, GRID, RECORDING, ASSUMED, catalogue(2.0, "a brochure"))


def test_exactly_the_codes_of_the_program_are_explained():
    result = {code for source in SOURCES for code, _ in source.warnings}
    for path in (ROOT / "python" / "spillcast").rglob("*.py"):
        result.update(CODE.findall(path.read_text()))
    assert len(result) > 50
    assert result == set(explanations())


def test_the_page_is_up_to_date():
    assert generate.PAGE.read_text() == generate.page(), "python docs/generate_warnings.py"


def test_each_code_has_a_short_title_a_cause_and_a_next_step():
    for code, about in explanations().items():
        assert len(about.title) <= 48, code
        assert not about.title.endswith("."), code
        assert about.cause.endswith("."), code
        assert about.next_step.endswith("."), code
