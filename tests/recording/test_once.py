"""A notice is new once for a user, and again where that cannot be kept."""

import pytest

from spillcast.workspace import is_new


@pytest.fixture
def state(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def test_each_notice_is_new_once(state):
    assert [is_new(notice) for notice in ("a", "b a", "a", "b a", "b")] == [
        True, True, False, False, True,
    ]  # fmt: skip


@pytest.mark.parametrize("content", [None, b"\xff\xfe\n"])
def test_it_is_new_where_nothing_can_be_kept(state, content):
    if content is None:
        state.write_bytes(b"no folder")
    else:
        (state / "spillcast").mkdir(parents=True)
        (state / "spillcast" / "notices").write_bytes(content)
    assert is_new("a")
    assert is_new("a")
