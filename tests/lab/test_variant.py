"""How long a query is rehearsed, and how a case stores a forecast made another way."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from cases import cases
from evidence import known
from made_up import case, otherwise
from spillcast.columns import ColumnValues
from spillcast.recording import Recording
from spillcast.recording.schema import WAITS
from spillcast.tables import Table
from spillcast_lab.outcome import is_covered, with_variant
from spillcast_lab.variants import rehearsed_s, with_spinning_as_work

MS = 1_000_000
EMPTY = known(6.0, 0, 0)


def wait(session, start_ns, elapsed_ns, event, cpu_ns):
    spun = event == "spinning"
    return {
        "start_ns": start_ns, "elapsed_ns": elapsed_ns, "session": session, "event": event,
        "op": None if spun else "read", "temp": not spun, "file": None if spun else "/t/x",
        "offset": None if spun else 0, "bytes": None if spun else 4096, "blocked": not spun,
        "cpu_before_ns": cpu_ns,
    }  # fmt: skip


@cases(
    ("starts_s", "elapsed_s", "expected_s"),
    [
        ([1.5, 1.6, 9.0], 20.0, 3.5),
        ([3.0], 100.0, 10.0),
        # Without temp I/O it takes the maximum.
        ([], 200.0, 10.0),
    ],
)
def test_a_rehearsal_continues_for_a_tenth_after_the_first_temp_io(starts_s, elapsed_s, expected_s):
    starts_ns = ColumnValues.of([round(start_s * 1e9) for start_s in starts_s], "int64")
    recording = SimpleNamespace(temp_waits=Table({"start_ns": starts_ns}), elapsed_s=elapsed_s)
    assert rehearsed_s(recording) == pytest.approx(expected_s)


def test_a_variant_replaces_only_the_numbers():
    whole = case(12.0, seed_s=15.0, variants={"rehearsed": otherwise(10.5, ceiling_low_s=3.5)})
    item = with_variant(whole, "rehearsed")
    assert (item.error, is_covered(item), item.seed_error) == (pytest.approx(0.05), True, 0.5)
    assert item.forecast.ceiling_interval_s[0] == 3.5
    assert item.forecast.terms == ()
    assert with_variant(whole, "without cost") is None


def test_a_variant_without_a_number_is_refused():
    item = with_variant(case(12.0, variants={"without machine": otherwise()}), "without machine")
    assert item.error is None
    assert item.forecast.refused


def test_spinning_counted_as_work_is_cpu_time_before_the_next_operation(tmp_path):
    """Samples show 4 s of it between two operations of a thread."""
    rows = [
        wait(1, 0, 10, "pread64", 0),
        wait(1, 10 + MS, 4000 * MS, "spinning", MS),
        wait(2, 20, 5, "pread64", 7),
        wait(1, 5000 * MS, 10, "pread64", 3),
    ]
    recording = Recording(tmp_path, EMPTY)
    rows.sort(key=lambda row: row["start_ns"])
    recording.waits = Table.from_rows(rows, WAITS)
    recording.seconds = recording.samples = recording.waits.take(slice(0))
    capture = replace(EMPTY.capture, spun_s=4.0)
    recording.meta = replace(EMPTY, cpu_s=1.0, capture=capture)
    work = with_spinning_as_work(recording)
    assert work.waits["event"].to_pylist() == ["pread64"] * 3
    assert work.waits["cpu_before_ns"].to_pylist() == [0, 7, 3 + 4000 * MS]
    assert (work.meta.cpu_s, work.meta.capture.spun_s) == (5.0, None)
    assert with_spinning_as_work(work) is work
