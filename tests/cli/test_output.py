"""JSON in pieces is what the standard library writes at once."""

import json
from pathlib import Path

import pytest

from spillcast.cli.output import emit

DOCUMENTS = [
    {},
    {"rows": [], "none": {}, "text": 'ä\n"', "flat": [1, 2.5, None, True, float("inf")]},
    {"rows": [{"a": 1, "b": {"c": [(1, 2), {"d": Path("/x")}]}}, {"e": []}], 3: [[]], None: 1},
    {"path": Path("/x"), "many": [{"n": n, "of": "x" * n} for n in range(3_000)]},
    {"rows": [{"text": "},\n    {", "},\n    {": n} for n in range(600)] + [{"a": [1]}, {"b": 2}]},
    {"rows": [{"a": 1}, {}, {"b": True}], "more": [{"a": Path("/x")}, {"b": None}]},
    {True: {"deep": [[[{"er": [1]}], []]]}, 'quoted "key"': {"a": {1}}},
]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_as_the_standard_library_writes_it(document, capsys):
    emit(document)
    assert capsys.readouterr().out == json.dumps(document, indent=2, default=str) + "\n"
