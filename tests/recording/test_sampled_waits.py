"""A sample of a recording: the waits of some windows, with the file sizes of all waits."""

import numpy as np
import pyarrow as pa
import pytest

from large_recording import write_large_recording
from spillcast.errors import EvidenceDamaged
from spillcast.recording import Recording
from spillcast.recording.derived import PARTS, WINDOWS, parts_of, sampled

WAITS, ROWS = 60_000, 20_000


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_large_recording(tmp_path_factory.mktemp("sample") / "some.spill", WAITS)


def test_a_sample_has_all_waits_of_its_windows_and_no_others(path):
    sample, whole = sampled(Recording.open(path), ROWS), Recording.open(path)
    edges = np.array(sample.slices_s).ravel()
    assert len(edges) == 2 * WINDOWS
    assert (np.diff(edges) > 0).all()
    start_s = whole.waits["start_ns"].to_numpy() / 1e9
    its = [((start_s >= low - 1e-10) & (start_s < high - 1e-10)).sum() for low, high in
           sample.slices_s]  # fmt: skip
    assert sum(its) == len(sample.waits)
    assert len(sample.waits) == pytest.approx(ROWS, rel=0.05)
    assert pa.table(sample.seconds) == pa.table(whole.seconds)
    # Each window lies in another part of the waits, all of equal count.
    share = np.searchsorted(start_s, edges[::2]) / WAITS * WINDOWS
    assert (np.abs(share - np.arange(WINDOWS) - 0.5) <= 0.51).all()


def test_the_parts_of_a_sample_add_up_to_it(path):
    sample = sampled(Recording.open(path), ROWS)
    parts = parts_of(sample)
    assert len(parts) == PARTS
    starts = np.concatenate([part.waits["start_ns"].to_numpy() for part in parts])
    assert np.array_equal(np.sort(starts), sample.waits["start_ns"].to_numpy())
    assert not parts_of(Recording.open(path))


def test_files_are_those_of_the_whole_recording(path):
    sample, whole = sampled(Recording.open(path), ROWS), Recording.open(path)
    assert sample.held_bytes == whole.held_bytes
    assert sample.other_files == whole.other_files
    assert sample.whole is not sample
    assert whole.whole is whole


def test_a_sample_for_a_page_cache_has_the_sizes_of_temp_files(tmp_path, monkeypatch):
    path = write_large_recording(tmp_path / "cached.spill", WAITS, page_cached=True)
    held = Recording.open(path).held_bytes
    assert held > 1 << 26
    sample = sampled(Recording.open(path), ROWS, 1 << 28)
    monkeypatch.setattr(Recording, "scan", None)
    assert sample.held_bytes == held


def test_the_first_waits_of_a_window_have_no_known_predecessor(path):
    """The file's waits are consecutive: all with a known pattern are sequential."""
    whole, sample = Recording.open(path), sampled(Recording.open(path), ROWS)
    assert whole.work.sequential["write", 8192] == pytest.approx(
        sample.work.sequential["write", 8192], abs=0.001
    )


def test_time_outside_of_windows_is_not_counted(path):
    """Neither as waiting for a CPU nor as blocked: a window has only what lies in it."""
    sample = sampled(Recording.open(path), ROWS)
    trace, whole = sample.work.trace, Recording.open(path).work.trace
    known_ns = sum(high - low for low, high in sample.slices_s) * 1e9
    reported = trace.cpu_ns + trace.ready_ns + trace.wait_ns
    for thread in range(trace.threads):
        assert reported[trace.thread == thread].sum() == pytest.approx(known_ns, rel=0.02)
    share = len(sample.waits) / WAITS
    for name in ("cpu_ns", "ready_ns"):
        of_all = getattr(whole, name).sum() * share
        assert getattr(trace, name).sum() == pytest.approx(of_all, rel=0.03)


def test_a_damaged_file_is_refused_for_any_windows(path, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    for file in path.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    rows = pq.read_table(path / "waits.parquet")
    pq.write_table(rows.slice(1), tmp_path / "waits.parquet")
    with pytest.raises(EvidenceDamaged, match="59,999 waits"):
        sampled(Recording.open(tmp_path), ROWS)
    bytes_ = pa.array([-1, *[8192] * (len(rows) - 1)], pa.int64())
    column = rows.schema.get_field_index("bytes")
    pq.write_table(rows.set_column(column, "bytes", bytes_), tmp_path / "waits.parquet")
    with pytest.raises(EvidenceDamaged, match="bytes is -1"):
        sampled(Recording.open(tmp_path), ROWS)
