"""How much temp files held and how sequential their I/O was, on hand-written recordings."""

from evidence import known, table
from spillcast.recording.schema import SECONDS, WAITS
from spillcast.recording.writer import RecordingWriter

K = 1024


def recorded(path, calls):
    """A recording of temp calls in order of time: (op, file, offset, bytes)."""
    waits, seconds = [], []
    for number, (op, file, offset, size) in enumerate(calls):
        waits.append(
            {"start_ns": number * 100, "elapsed_ns": 10, "session": 1, "event": op, "op": op,
             "temp": True, "file": file, "offset": offset, "bytes": size}
        )  # fmt: skip
        seconds.append(
            {"second": 0, "op": op, "temp": True, "size_class_bytes": 8 * K, "count": 1,
             "bytes": size, "total_ns": 10, "latency_ns": [10], "latency_count": [1]}
        )  # fmt: skip
    writer = RecordingWriter(path)
    writer.add_waits(table(waits, WAITS))
    writer.add_seconds(table(seconds, SECONDS))
    return writer.finish(known(1.0, 0, 0))


def test_the_size_of_a_file_is_its_largest_end(tmp_path):
    calls = [
        ("write", "a", 0, 8 * K),
        ("write", "a", 0, 8 * K),
        ("write", "a", 64 * K, 8 * K),
        ("write", "b", 0, 100),
        ("read", "b", 0, 100),
    ]
    assert recorded(tmp_path / "r.spill", calls).held_bytes == 72 * K + 100


def test_without_offsets_all_written_bytes_count(tmp_path):
    calls = [("write", None, None, 5000), ("write", "a", 0, 100), ("read", None, None, 5000)]
    assert recorded(tmp_path / "r.spill", calls).held_bytes == 5100


def test_an_operation_is_sequential_to_the_last_of_its_op_and_file(tmp_path):
    calls = [
        ("write", "a", 0, 8 * K),  # the first of its kind on the file
        ("write", "b", 0, 8 * K),  # likewise
        ("write", "a", 8 * K, 8 * K),  # sequential, although a call on another file came between
        ("read", "a", 0, 8 * K),  # the first read
        ("write", "a", 16 * K, 8 * K),  # sequential to the last write, whatever is read
        ("write", "a", 0, 8 * K),  # back to the start
        ("read", "a", 16 * K, 8 * K),  # skips 8 KiB
        ("read", "a", 24 * K, 256 * K),  # sequential, of another size
    ]
    shares = recorded(tmp_path / "r.spill", calls).work.sequential
    assert shares == {("write", 8 * K): 4 / 5, ("read", 8 * K): 1 / 2, ("read", 256 * K): 1.0}


def test_without_offsets_sequentiality_is_unknown(tmp_path):
    assert recorded(tmp_path / "r.spill", [("write", None, None, 5)]).work.sequential == {}
