"""Calibrated constants: each states its evidence, in a file that is read back."""

import tomllib
from dataclasses import fields
from datetime import date

from bench.calibrate import GROUPS, toml

from cases import cases
from spillcast.calibrated import ANY, Calibrated, calibrated, document
from spillcast.forecast.workload import KINDS


def test_every_constant_states_its_evidence():
    assert document().keys() == {field.name for field in fields(Calibrated)}
    for name, item in document().items():
        assert name == "residuals" or item["unit"]
        date.fromisoformat(item["date"])
        assert item["machine"]
        assert item["rests_on"]
        command, _, group = item["command"].rpartition(" ")
        assert command == "python -m bench calibrate"
        assert group in GROUPS


def test_every_kind_of_evidence_has_an_interval():
    for kind in KINDS:
        result = calibrated().residuals.category(kind, "from nowhere to nowhere")
        assert (result.kind, result.direction) == (kind, ANY)


def test_quantiles_grow_with_their_levels():
    residuals = calibrated().residuals
    assert list(residuals.levels) == sorted(residuals.levels)
    for item in residuals.categories:
        assert list(item.quantiles) == sorted(item.quantiles)
        assert len(item.quantiles) == len(residuals.levels)


def test_the_written_calibration_is_read_back():
    assert tomllib.loads(toml(document())) == document()


@cases(
    ("mean_s", "size", "memory"), [(5e-6, 8192, True), (1e-3, 8192, False), (2e-4, 1 << 20, True)]
)
def test_memory_answers_take_microseconds_and_the_time_to_copy(mean_s, size, memory):
    assert (mean_s <= calibrated().in_memory_s(size)) == memory
