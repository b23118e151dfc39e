"""Frozen dataclasses with shared methods behave as Python's."""

import dataclasses

import pytest

from spillcast.dataclasses import FrozenInstanceError, dataclass, field, replace


def declared(decorator):
    @decorator(frozen=True)
    class Row:
        size: int
        name: str = "a"
        note: str = field(default="", compare=False, repr=False)

    return Row


@pytest.mark.parametrize("Row", [declared(dataclass), declared(dataclasses.dataclass)])
def test_frozen_instances_are_values(Row):
    row = Row(1, "b", "x")
    assert row == Row(1, "b", "y")
    assert row != Row(2, "b", "x")
    assert row != (1, "b")
    assert hash(row) == hash(Row(1, "b", "y")) == hash((1, "b"))
    assert repr(row) == "declared.<locals>.Row(size=1, name='b')"
    assert replace(row, size=2) == Row(2, "b")
    for name in ("size", "unknown"):
        with pytest.raises(FrozenInstanceError):
            setattr(row, name, 2)
        with pytest.raises(FrozenInstanceError):
            delattr(row, name)
    assert row == Row(1, "b")
