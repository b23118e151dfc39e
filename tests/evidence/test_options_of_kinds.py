"""An option that evidence of a kind cannot use is refused, whichever verb reads the evidence."""

from contextlib import suppress
from pathlib import Path

import pytest

from cases import cases
from fuzz.figure_shapes import figures
from spillcast.errors import InputError, OptionConflict, Refusal
from spillcast.evidence.open import EvidenceFiles
from spillcast.evidence.recognise import KINDS, recognise
from spillcast.evidence.selection import Selection
from spillcast.forecast.ask import ask
from spillcast.forecast.question import Question
from spillcast.forecast.remaining import RemainingWorkHints

#: Options that every reader takes.
GENERAL = {"elapsed_s", "timed"}


class Watched(Selection):
    """A selection that records which of its fields were read."""

    def __getattribute__(self, name):
        if name in Selection.__dataclass_fields__:
            self.__dict__.setdefault("fields_read", set()).add(name)
        return super().__getattribute__(name)


def fields_read(kind, paths, **selected):
    selection = Watched(**selected)
    selection.__dict__.pop("fields_read", None)
    with suppress(InputError, Refusal):
        kind.read(paths, selection)
    return selection.__dict__.get("fields_read", set()) - GENERAL


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The files of each kind of figures, by name."""
    room, made = tmp_path_factory.mktemp("figures"), {}

    def shape(name, *_commands, write):
        place = room / name.removeprefix("figures-")
        place.mkdir()
        write(place)
        made[place.name] = sorted(place.iterdir())

    figures(shape)
    return made


def test_the_fuzzer_covers_each_reader(files):
    """The fuzzer has a shape for each, except for ``refuse_byte_counts``, which only refuses."""
    readers = {kind.reader for kind in KINDS if kind.reader} - {"figures.refuse_byte_counts"}
    damaged = {recognise(path).reader for paths in files.values() for path in paths}
    assert readers - damaged == set(), "tests/fuzz/figure_shapes.py"


def test_a_reader_uses_only_fields_that_its_kind_declares(files):
    for name, paths in files.items():
        kind = recognise(paths[0])
        read = fields_read(kind, paths) | fields_read(kind, paths, sql_id="4p7vm0hhw6u1v")
        generic = {"item", "sql_id", "exec_id"} if {"item", "sql_id"} & kind.selects else set()
        assert read - generic <= kind.selects, name


@cases("name, option, value", [
    ("run-toml", "queryid", "1"),
    ("run-toml", "item", 1),
    ("sort-sqlplan", "queryid", "0x1"),
    ("sort-sqlplan", "sql_id", "4p7vm0hhw6u1v"),
    ("query_stats-csv", "block", "16K"),
    ("tkprof-txt", "exec_id", 1),
    ("tkprof-txt", "lenient", True),
    ("monitor-txt", "exact", True),
    ("awr-txt", "queryid", "1"),
    ("awr-txt", "item", 1),
])  # fmt: skip
def test_figures_refuse_options_of_other_evidence(files, name, option, value):
    with pytest.raises(OptionConflict) as error:
        ask(files[name], ["factor:2"], Question(**{option: value}))
    assert f"--{option.replace('_', '-')} " in str(error.value)


@cases("kind, usable, unusable", [
    ("statements", {"queryid": "1", "item": 1}, {"sql_id": "x"}),
    ("plans", {"item": 1}, {"queryid": "1"}),
    ("traces", {"lenient": True, "sql_id": "x"}, {"exec_id": 1}),
    ("ash", {"exec_id": 1, "since": "20:30"}, {"item": 1}),
    ("recordings", {"exact": True, "cpus": 2}, {"lenient": True}),
    ("spark", {"job": 1, "origin": "tmpfs"}, {"elapsed_s": 9.0}),
])  # fmt: skip
def test_each_kind_has_its_options(kind, usable, unusable):
    evidence = EvidenceFiles(**{kind: [Path("x")]})
    Question(**usable).check(evidence)
    with pytest.raises(OptionConflict):
        Question(**unusable).check(evidence)


def test_an_inapplicable_option_is_named_whatever_its_value():
    hints = RemainingWorkHints(written_bytes=0.0)
    with pytest.raises(OptionConflict, match=r"^--written "):
        Question(known=hints).check(EvidenceFiles(plans=[Path("x")]))
