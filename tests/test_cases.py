"""Cases in one test: each is run, with a directory of its own, and those that fail are named."""

import pytest

from cases import cases


@cases("value", [1, 2, 3])
def check(tmp_path, value):
    (tmp_path / "file").touch(exist_ok=False)
    assert value == 2


def test_failures_of_all_cases_are_named(tmp_path):
    with pytest.raises(ExceptionGroup) as raised:
        check(tmp_path=tmp_path)
    notes = [failure.__notes__ for failure in raised.value.exceptions]
    assert notes == [["with {'value': 1}"], ["with {'value': 3}"]]
