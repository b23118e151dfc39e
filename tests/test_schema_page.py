"""The tables of docs/schema.md are those of the types."""

import importlib.util

from oracle_files import ROOT

SPEC = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate_schema.py")
generate = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(generate)


def test_the_tables_are_those_of_the_types():
    text = generate.PAGE.read_text()
    assert generate.with_tables(text) == text, "write them with: python docs/generate_schema.py"
    for name, lines in generate.tables().items():
        assert f"<!-- types: {name} -->" in text
        assert len(lines) > 5


def test_another_meaning_is_seen():
    text = generate.PAGE.read_text().replace("wall time of the run", "time")
    assert "wall time of the run" in generate.with_tables(text)
