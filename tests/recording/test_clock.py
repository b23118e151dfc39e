"""Times count from the start of the run, on disk and in memory, if recording started earlier."""

from itertools import chain

from cases import cases
from evidence import known, seconds, table
from spillcast.columns import Field
from spillcast.recording import Recording, schema
from spillcast.recording.live import Running
from spillcast.recording.schema import SAMPLES, SECONDS
from spillcast.recording.writer import RecordingWriter, TimeShift

S = 1_000_000_000
#: The run starts this long after the recording.
ZERO_NS = 2_600_000_000
#: Start, duration and preceding CPU time in seconds; and the same on the run's clock.
WAITS = [
    ((0.5, 1.0, 0.1), None),
    ((2.0, 0.6, 0.1), None),
    ((2.5, 0.3, 0.1), (0.0, 0.2, 0.0)),
    ((2.6, 0.0, 0.0), (0.0, 0.0, 0.0)),
    ((2.9, 0.1, 0.05), (0.3, 0.1, 0.05)),
    ((3.2, 0.5, 1.5), (0.6, 0.5, 0.6)),
    ((4.0, 0.5, None), (1.4, 0.5, None)),
]
EXPECTED = [after for _, after in WAITS if after]


def ns(seconds):
    return None if seconds is None else round(seconds * S)


def fed(sink):
    rows = [
        {
            "start_ns": ns(start), "elapsed_ns": ns(elapsed), "session": 1, "event": "pread64",
            "op": "read", "temp": True, "file": "/t/spill", "offset": 0, "bytes": 8192,
            "cpu_before_ns": ns(cpu),
        }
        for (start, elapsed, cpu), _ in WAITS
    ]  # fmt: skip
    sink.add_waits(table(rows, schema.WAITS))
    [row] = seconds([("read", 8192, 1, 100)], 1).to_pylist()
    sink.add_seconds(table([row | {"second": second} for second in range(5)], SECONDS))
    samples = [
        {"time_ns": ns(at), "session": 1, "weight_us": 20_000} for at in (0.0, 2.5, 2.6, 4.0)
    ]
    sink.add_samples(table(samples, SAMPLES))
    return sink


def on_disk(folder, clock, **options):
    finished = fed(RecordingWriter(folder / "run.spill", **options)).finish(known(2, 7, 0), clock)
    return Recording.open(finished.path)


def in_memory(_folder, clock):
    return fed(Running()).finish(known(2, 7, 0), clock)


def times_of(recording):
    columns = [recording.waits[n].to_pylist() for n in ("start_ns", "elapsed_ns", "cpu_before_ns")]
    return list(zip(*columns, strict=True))


@cases("made", [on_disk, in_memory])
def test_waits_and_seconds_before_the_run_are_dropped(tmp_path, made):
    recording = made(tmp_path, TimeShift.of(10 * S, 10 * S + ZERO_NS))
    assert times_of(recording) == [tuple(map(ns, row)) for row in EXPECTED]
    # Time zero lies within the third second.
    assert recording.seconds["second"].to_pylist() == [0, 1, 2]
    raw = recording.meta.raw
    assert (raw.rows, raw.rows_seen, raw.whole) == (len(EXPECTED), len(EXPECTED), True)


@cases("made", [on_disk, in_memory])
@cases("started_ns", [None, 9 * S])
def test_a_run_with_an_earlier_or_unknown_start_counts_from_the_recording(
    tmp_path, made, started_ns
):
    recording = made(tmp_path, TimeShift.of(10 * S, started_ns))
    assert times_of(recording) == [tuple(map(ns, row)) for row, _ in WAITS]
    assert recording.seconds["second"].to_pylist() == [0, 1, 2, 3, 4]


def test_samples_before_the_run_are_dropped(tmp_path):
    samples = on_disk(tmp_path, TimeShift(ZERO_NS)).samples
    assert samples["time_ns"].to_pylist() == [0, ns(1.4)]
    assert samples.fields == tuple(Field(f.name, f.type, f.nullable) for f in SAMPLES)


def test_slices_use_the_same_clock(tmp_path):
    recording = on_disk(tmp_path, TimeShift(ZERO_NS), slices=3)
    raw, starts_ns = recording.meta.raw, recording.waits["start_ns"].to_pylist()
    assert 0 < raw.rows < raw.rows_seen
    ends = list(chain.from_iterable(raw.slices_s))
    assert ends == sorted(ends)
    assert ends[0] >= 0
    for start_ns in starts_ns:
        assert any(begin - 1e-9 <= start_ns / S < end for begin, end in raw.slices_s)
