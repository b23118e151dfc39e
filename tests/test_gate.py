"""The gate: input that is too long, too deep, or makes no sense is refused by its file name."""

import csv
import json
import pickle
import zipfile

import pytest

from cases import cases
from spillcast import gate
from spillcast.errors import (
    EvidenceDamaged,
    FileUnreadable,
    InputError,
    NoTempIo,
    OptionInvalid,
    PathMissing,
)


def refused(words):
    return pytest.raises(InputError, match=words)


@cases(
    ("text", "words"),
    [
        ('{"a": {"b": NaN}}', "not JSON"),
        ('{"a": {"b": 1e999}}', "out of range"),
        ('{"a": [1, 1' + "0" * 30 + "]}", "a number is above"),
        ('{"a": "\\ud800"}', "not JSON"),
        ("[" * 100_000, "nested deeper than"),
        ("[" * 500 + "]" * 500, "nested deeper than"),
        ('{"a": ', "not JSON"),
        (" ", "empty"),
        ('[{"Total Time": 1.5, "Node": "Sort", "Total Time": 2}]', "two values"),
    ],
)
def test_unusable_json_is_refused(text, words):
    with refused(rf"^cut or damaged: .*{words}"):
        gate.json_of(text)


@cases(
    "text",
    [
        '{"a": 1, "a": 1}',
        '{"Workers": [{"b": 1}], "Workers": [{"c": 2}]}',
        '{"userid": 1, "at": "12:01", "userid": 2, "at": "12:02"}',
        '{"a": "\\ud83d\\ude00", "b": 1e30}',
    ],
)
def test_repeated_names_with_equal_figures_are_read(text):
    """PostgreSQL 12 and earlier print the workers of a sort, and then their buffers."""
    assert gate.json_of(text) == json.loads(text)


def test_json_is_as_deep_as_a_plan_may_be():
    deep = "[" * (gate.DEPTH_MAX - 1) + "]" * (gate.DEPTH_MAX - 1)
    assert json.dumps(gate.json_of(deep)) == deep


@cases("length", [*range(4085, 4100), 20_000])
def test_json_of_any_length_is_found_among_other_text(length):
    values = [["x" * length], {"a": [None] * length, "b": True}, {"a": 1}]
    other = "[2026-11-27] plan: {\nplan = [\n"
    text = other + f"\nplan: {other}".join(json.dumps(value, indent=0) for value in values)
    assert list(gate.json_values(f"{text}\n{other}", mark="nowhere")) == values


@cases("repeats", [False, True])
@cases("value", ['{"a": NaN}', '{"a": -1e999}', '{"a": "\\udc00"}', '{"a": 1, "a": 2}'])
def test_values_among_other_text_are_checked(value, repeats):
    with refused("cut or damaged"):
        list(gate.json_values(f"plan:\n{value}\nend", repeats=repeats))


def test_each_value_of_a_repeated_name_is_checked():
    large = '{"a": {"b": 1' + "0" * 30 + '}, "a": {"b": 1}}'
    deep = '{"a": ' + "[" * 500 + "]" * 500 + ', "a": 1}'
    for text in (large, deep):
        with pytest.raises(EvidenceDamaged):
            list(gate.json_values(text, repeats=True))


def test_json_that_is_too_long_is_not_parsed():
    with refused(r"^more than 32 MiB of JSON$"):
        gate.json_of(" " * (gate.JSON_LENGTH_MAX + 1))
    with refused(r"^more than 1,000,000 lists and objects"):
        gate.json_of("[" + "[]," * gate.JSON_PARTS_MAX + "1]")


def test_text_that_is_too_long_is_not_read():
    assert len(gate.bounded(b"x" * 1025, 1025)) == 1025
    with refused(r"^more than 0 MiB"):
        gate.bounded(b"x" * 1025, 1024)


def test_an_error_names_its_file_once_with_the_remedy():
    with (
        pytest.raises(EvidenceDamaged) as raised,
        gate.reading("folder", "another remedy"),
        gate.reading("a", "make it again"),
    ):
        raise gate.damaged("a line is missing")
    error = raised.value
    assert (str(error), error.message) == ("a: cut or damaged: a line is missing",) * 2
    assert (error.where, error.hint, error.__notes__) == ("a", "make it again", ["make it again"])
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.where, copy.hint) == (str(error), "a", "make it again")


@cases("kind", [NoTempIo, OptionInvalid])
def test_the_remedy_of_a_file_is_not_given_for_other_errors(kind):
    with pytest.raises(kind) as raised, gate.reading("a", "make it again"):
        raise kind("--item 7")
    assert raised.value.hint is None
    assert str(raised.value) == ("a: --item 7" if kind is NoTempIo else "--item 7")


def test_an_unexpected_error_of_a_reader_names_its_file():
    with refused(r"^run\.trc: cut or damaged: it lacks 'x'$"), gate.reading("run.trc"):
        {}["x"]


def test_an_input_error_is_unchanged():
    with refused("^other: is this$"), gate.reading("run.trc"):
        raise InputError("other: is this")


@cases("fault", [AttributeError, TypeError, NameError, AssertionError])
def test_an_internal_error_is_not_damage(fault):
    with pytest.raises(fault), gate.reading("file"):
        raise fault


@cases("damage", [ValueError, KeyError, ZeroDivisionError, EOFError, csv.Error, zipfile.BadZipFile])
def test_an_error_of_a_parser_is_damage(damage):
    with pytest.raises(EvidenceDamaged, match="file"), gate.reading("file"):
        raise damage("unexpected")


def test_a_missing_and_an_unreadable_file_have_separate_codes(tmp_path):
    for path, kind in ((tmp_path / "gone", PathMissing), (tmp_path, FileUnreadable)):
        with pytest.raises(kind):
            gate.text_of(path)
