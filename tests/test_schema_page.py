"""The tables of docs/schema.md match the types."""

import json

import pytest
from jsonschema import Draft202012Validator, ValidationError

from evidence import recording, storage
from harness import generator, spillcast
from spillcast.forecast.ask import ask
from spillcast.forecast.question import Question

generate = generator("schema")


def test_the_tables_match_the_types():
    text = generate.PAGE.read_text()
    assert generate.with_tables(text) == text, "write them with: python docs/generate_schema.py"
    for name, lines in generate.tables().items():
        assert f"<!-- types: {name} -->" in text
        assert len(lines) > 5


def test_the_json_schemas_match_the_types():
    files = {path.name: path.read_text() for path in generate.SCHEMAS.iterdir()}
    assert files == generate.schemas(), "write them with: python docs/generate_schema.py"


def test_documents_are_valid_by_their_json_schemas(tmp_path):
    made = recording(tmp_path / "run.spill", [("read", 8192, 9, 1000)], elapsed_s=1.0, cpu_s=0.5)
    [(forecast, _)] = ask([made.path], ["latency:1ms"], Question())
    measured = storage({("read", 8192): 300_000})
    for name, document in {"forecast": forecast.to_json(), "storage": measured.to_json()}.items():
        document = json.loads(json.dumps(document))
        valid = Draft202012Validator(json.loads(generate.schemas()[f"{name}.json"]))
        valid.validate(document)
        for wrong in (document | {"name": 1, "target": 1}, {}):
            with pytest.raises(ValidationError):
                valid.validate(wrong)


def test_forecasts_of_each_shape_are_valid_by_their_json_schema(tmp_path):
    paths = [
        recording(tmp_path / name, [("read", 8192, 9, 1000)], elapsed_s=1.0, cpu_s=0.5).path
        for name in ("a.spill", "b.spill")
    ]
    valid = Draft202012Validator(json.loads(generate.schemas()["forecast.json"]))
    two = ("--to", "latency:1ms", "--to", "latency:2ms")
    several = json.loads(spillcast("forecast", paths[0], *two, "--json").stdout)
    each = json.loads(spillcast("forecast", tmp_path, *two, "--json").stdout)
    for document, of in ((several, several), (each, each["recordings"][1])):
        valid.validate(document)
        of["targets"][1]["baseline_s"] = "fast"
        with pytest.raises(ValidationError):
            valid.validate(document)


def test_a_changed_description_is_detected():
    text = generate.PAGE.read_text().replace("wall time of the run", "time")
    assert "wall time of the run" in generate.with_tables(text)
