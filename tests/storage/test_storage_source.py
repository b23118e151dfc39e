"""The source of a storage is kept with it: in a file, and in a cache that contains it."""

import json
from dataclasses import replace

import pytest

from cases import cases
from evidence import recording, storage, warned
from harness import only_line, spillcast
from spillcast.forecast import forecast
from spillcast.forecast.ask import ask
from spillcast.storage import Storage
from spillcast.storage.source import ASSUMED, GRID, PROBE, RECORDING, cache, catalogue, source_of
from spillcast.storage.target import resolve

K = 1 << 10
LATENCIES = {("write", 256 * K): 400_000, ("read", 256 * K): 300_000}
BROCHURE = catalogue(2.0, "a brochure")


@pytest.fixture
def run(tmp_path, monkeypatch):
    """25 s, mostly temp I/O on a disk, so that the uncertainty of a target is visible."""
    monkeypatch.chdir(tmp_path)
    loads = [("write", 256 * K, 2000, 4_000_000), ("read", 256 * K, 2000, 6_000_000)]
    return recording(tmp_path / "run.spill", loads, elapsed_s=25.0, cpu_s=5.0)


def test_a_scaled_storage_is_unchanged_by_saving_and_loading(tmp_path):
    """Its means have fractions of a nanosecond, multiplied by the factor."""
    made = storage(LATENCIES)
    groups = [replace(group, total_ns=group.total_ns + group.count - 1) for group in made.groups]
    slowed = replace(made, groups=groups).scaled(77.0, "slowed")
    slowed.save(tmp_path / "slowed.json")
    assert Storage.load(tmp_path / "slowed.json").groups == slowed.groups


def test_a_cache_of_a_volume_is_no_more_certain_than_the_volume(run):
    volume = "catalogue:aws-gp3"
    alone = forecast(run, resolve(volume, run))
    inside = forecast(run, resolve(f"cache:{volume}+{volume}?size=2T", run))
    assert inside.forecast_s == pytest.approx(alone.forecast_s, rel=0.01)
    assert inside.interval_s == pytest.approx(alone.interval_s, rel=0.01)
    matches = [
        [w for w in answer.warnings if w.code == "not-measured"] for answer in (alone, inside)
    ]
    assert matches[0] == matches[1]
    assert len(matches[0]) == 1
    # As certain as the measured storage alone.
    storage(LATENCIES).save(run.path.with_name("flash.json"))
    measured = forecast(run, resolve("cache:flash.json+flash.json?size=2T", run))
    assert "not-measured" not in warned(measured)
    mixed = forecast(run, resolve(f"cache:flash.json+{volume}?size=2T", run))
    assert "not-measured" in warned(mixed)

    def width(answer):
        return (answer.interval_s[1] - answer.interval_s[0]) / answer.forecast_s

    assert min(width(mixed), width(alone)) > 1.3 * width(measured)


def test_the_least_certain_part_defines_the_certainty_of_a_cache():
    assert cache([PROBE, GRID]).noise == GRID.noise
    assert cache([PROBE, GRID]).measured
    assert not cache([PROBE, BROCHURE]).measured
    assert cache([BROCHURE, BROCHURE]).warnings == BROCHURE.warnings
    assert cache([GRID, BROCHURE]).warnings == (*GRID.warnings, *BROCHURE.warnings)
    assert cache([cache([PROBE, BROCHURE]), GRID]).noise == BROCHURE.noise


def test_storages_with_equal_names_are_shown_by_their_paths(run):
    """A directory that was probed by day and by night has the same name in both files."""
    for name in ("day.json", "night.json"):
        storage(LATENCIES).save(run.path.with_name(name))
    targets = ["day.json", "catalogue:aws-gp3", "night.json"]
    answers = ask([run.path], targets)
    assert [answer.target for answer, _ in answers] == targets
    [(alone, _)] = ask([run.path], ["day.json"])
    assert alone.target == storage(LATENCIES).name


def test_the_spread_of_a_row_is_a_90_percent_interval():
    # exp(1.645 sigma) = 2
    assert BROCHURE.noise == pytest.approx(0.4214, abs=1e-4)


@cases("source", [PROBE, GRID, RECORDING, ASSUMED])
def test_a_source_is_unchanged_by_saving_and_loading(source, tmp_path):
    path = tmp_path / "storage.json"
    Storage("x", source, []).save(path)
    assert json.loads(path.read_text())["source"] == source.name
    assert Storage.load(path).source == source


def test_a_cache_is_unchanged_by_saving_and_loading(run, tmp_path):
    storage(LATENCIES).save(tmp_path / "flash.json")
    target = resolve("cache:flash.json+catalogue:aws-gp3?size=2T", run)
    target.save(tmp_path / "cache.json")
    again = Storage.load(tmp_path / "cache.json")
    assert again.source == target.source
    assert again.to_json() == target.to_json()
    # A cache of an earlier version: nothing is known of its parts.
    assert source_of("cache", {}).warnings == ()


@cases(
    ("word", "facts", "answer"),
    [
        ("crystal ball", {}, "source is 'crystal ball', not one of probe, grid"),
        ("catalogue", {}, "spread"),
        ("catalogue", {"spread": 0.5, "source": "x"}, "spread"),
        ("catalogue", {"spread": "wide", "source": "x"}, "wide"),
        ("catalogue", {"spread": 2.0}, "source"),
        ("cache", {"parts": [{"source": "grid"}]}, "facts"),
        ("cache", {"parts": 5}, "damaged"),
    ],
)
def test_an_invalid_source_is_refused_in_one_line(run, word, facts, answer):
    target = storage(LATENCIES)
    document = target.to_json() | {"source": word, "facts": facts}
    run.path.with_name("there.json").write_text(json.dumps(document))
    line = only_line(spillcast("forecast", run.path, "--to", "there.json"), 2)
    assert "there.json: " in line
    assert "damaged: " in line
    assert answer in line


@cases("source", [PROBE, GRID])
def test_null_facts_are_not_shown(run, source):
    """A document may contain null for what is unknown."""
    document = storage(LATENCIES).to_json() | {"source": source.name}
    names = ("steps_replayed", "cells", "threads", "filesystem", "directory", "like")
    for cells in (None, 9):
        known = {"steps_skipped": 5, "cells_without_time": 3, "cells": cells}
        document["facts"] = dict.fromkeys(names) | known
        run.path.with_name("target.json").write_text(json.dumps(document))
        shown = spillcast("storage", "show", "target.json").stdout
        assert shown
        assert "None" not in shown
