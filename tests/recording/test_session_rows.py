"""Rows of all sessions are kept by second until those of a query are taken."""

import pytest

from evidence import table
from spillcast.errors import InputError
from spillcast.recording import schema, server
from spillcast.recording.schema import SAMPLES
from spillcast.recording.server import RecordingsFolder, SessionRows
from spillcast.tables import Table

MS = 1_000_000
#: Session, start and duration in ms, and whether it is temp I/O.
WAITS = [
    (1, 500, 10, True),
    (2, 900, 10, False),
    (1, 1990, 20, True),
    (2, 2500, 10, False),
    (1, 3000, 10, False),
    (3, 7000, 10, True),
]


def batch(waits):
    rows = [
        {
            "session": session,
            "start_ns": start * MS,
            "elapsed_ns": elapsed * MS,
            "event": "pread64",
            "op": "read",
            "temp": temp,
            "bytes": 8192,
        }
        for session, start, elapsed, temp in waits
    ]
    return table(rows, schema.WAITS)


@pytest.fixture
def rows(tmp_path):
    made = SessionRows(tmp_path / "rows")
    # In portions with arbitrary ends, as they arrive.
    for portion in (WAITS[:3], WAITS[3:4], WAITS[4:]):
        made.add_waits(batch(portion))
    return made


def starts(tables):
    return [start // MS for rows in tables for start in rows["start_ns"].to_pylist()]


def test_a_window_of_sessions_counts_from_its_start(rows):
    assert starts(rows.waits([1], 0, 10_000 * MS)) == [500, 1990, 3000]
    assert starts(rows.waits({1, 2}, 900 * MS, 2600 * MS)) == [0, 1090, 1600]
    assert starts(rows.waits([2], 0, 2500 * MS)) == [900]


def test_a_wait_across_the_edge_of_a_window_is_cut(rows):
    (late,) = [item for item in rows.waits([1], 2000 * MS, 2500 * MS) if item.num_rows]
    assert late["start_ns"].to_pylist() == [0]
    assert late["elapsed_ns"].to_pylist() == [10 * MS]
    (early,) = [item for item in rows.waits([1], 1000 * MS, 2000 * MS) if item.num_rows]
    assert early["elapsed_ns"].to_pylist() == [10 * MS]


def test_spills_are_found_by_session_and_time(rows):
    assert rows.spilled([1, 2], 0, 400 * MS)
    assert not rows.spilled([2], 0, 9000 * MS)
    assert not rows.spilled([1], 2000 * MS, 9000 * MS)
    assert rows.spilled([2, 3], 7000 * MS, 7100 * MS)


def test_forgotten_rows_are_removed(rows, tmp_path):
    rows.forget(4_500 * MS)
    assert rows.whole_from_ns == 4_000 * MS
    assert starts(rows.waits([1, 2, 3], 0, 10_000 * MS)) == [3000, 7000]
    assert not rows.spilled([1], 0, 3000 * MS)
    rows.forget(20_000 * MS)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_samples_are_selected_by_session_and_time(rows):
    samples = [
        {"time_ns": time * MS, "session": session, "event": "BufFileRead", "weight_us": 50_000}
        for time, session in ((100, 1), (1200, 1), (1200, 2), (1300, 1))
    ]
    rows.add_samples(Table.from_rows(samples, SAMPLES))
    matches = [
        item for part in rows.samples([1], 1000 * MS, 1250 * MS) for item in part.to_pylist()
    ]
    assert [item["time_ns"] for item in matches] == [200 * MS]


def test_too_many_rows_remove_the_oldest(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "ROWS_MAX", 10)
    rows = SessionRows(tmp_path / "rows")
    for second in range(30):
        rows.add_waits(batch([(1, 1000 * second, 1, True)]))
    assert starts(rows.waits([1], 0, 100_000 * MS)) == [1000 * s for s in range(20, 30)]
    assert rows.whole_from_ns == 21_000 * MS
    assert rows.spilled([1], 0, 1000 * MS)
    rows.discard()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_other_files_is_refused_for_recordings(tmp_path):
    (tmp_path / "notes.txt").touch()
    (tmp_path / "run.spill").mkdir()
    (tmp_path / "run.spill" / "meta.json").touch()
    for path, why in (
        (tmp_path, "holds notes.txt"),
        (tmp_path / "notes.txt", "is not a folder of recordings"),
        (tmp_path / "run.spill", "is not a folder of recordings"),
        (tmp_path / "nowhere" / "server.spills", "no directory"),
    ):
        with pytest.raises(InputError, match=why):
            RecordingsFolder(path).check()


def test_the_rest_of_a_killed_recorder_is_removed(tmp_path):
    path = tmp_path / "server.spills"
    (path / "rows.0123abcd.partial" / "waits").mkdir(parents=True)
    (path / "7-1.spill").mkdir()
    (path / "7-1.spill" / "meta.json").touch()
    folder = RecordingsFolder(path)
    folder.check()
    folder.make()
    assert not (path / "rows.0123abcd.partial").exists()
    assert folder.next(7).name == "7-2.spill"
    folder.leave()
    assert path.exists()
