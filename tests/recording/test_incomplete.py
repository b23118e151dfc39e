"""Incomplete recordings: rows are compared with the counts of meta.json."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cases import cases
from evidence import recording
from harness import completed, only_line, spillcast
from spillcast.errors import EvidenceDamaged
from spillcast.recording import Recording

LOADS = [("write", 65_536, 40, 900_000), ("read", 65_536, 60, 300_000)]
LATENCY = ("--to", "latency:1ms")


def complete(folder):
    """A new recording."""
    return recording(folder / "run.spill", LOADS, elapsed_s=1.0, cpu_s=0.5).path


def older(folder):
    """A new recording without the sums of its rows."""
    run = complete(folder)
    change(run, sums=None)
    return run


@pytest.fixture
def run(tmp_path):
    return complete(tmp_path)


def change(path, **parts):
    """Sets other values in meta.json."""
    file = path / "meta.json"
    document = json.loads(file.read_text())
    for name, value in parts.items():
        document[name] = document[name] | value if isinstance(value, dict) else value
    file.write_text(json.dumps(document))


def rewrite(path, change):
    pq.write_table(change(pq.read_table(path)), path)


def with_values(table, name, values):
    return table.set_column(
        table.schema.get_field_index(name), name, pa.array(values, table[name].type)
    )


def test_a_complete_recording_is_read(run):
    completed("forecast", run, *LATENCY, "--json")


def test_a_recording_replaced_by_another_is_not_read(tmp_path):
    first = recording(tmp_path / "run.spill", LOADS, elapsed_s=1.0)
    recording(tmp_path / "run.spill", [(*load[:3], 2 * load[3]) for load in LOADS], elapsed_s=1.0)
    with pytest.raises(EvidenceDamaged):
        _ = first.waits


@cases("verb", [("forecast", *LATENCY), ("profile",), ("export", "--format",
                                  "perfetto"), ("cache",)])  # fmt: skip
@cases("kept", [0, 50])
def test_missing_waits_are_damage(tmp_path, verb, kept):
    run = complete(tmp_path)
    rewrite(run / "waits.parquet", lambda rows: rows.slice(0, kept))
    message = only_line(spillcast(verb[0], run, *verb[1:]), 2)
    words = f"cut or damaged: it holds {kept} waits, and meta.json counts 100"
    assert f"run.spill/waits.parquet: {words}" in message
    assert "  copy the whole folder again from where it was recorded, or record again" in message


@cases("verb", [("forecast", *LATENCY), ("profile", "--sql", "from seconds")])
@cases(
    ("made", "words"),
    [
        (complete, "it holds 1 rows, and meta.json counts 2"),
        (older, "it holds 0 "),
    ],
)
def test_missing_seconds_are_damage(tmp_path, made, verb, words):
    run = made(tmp_path)
    rewrite(run / "seconds.parquet", lambda rows: rows.slice(0, 1))
    name, *more = verb
    arguments = (name, run, *more)
    message = only_line(spillcast(*arguments), 2)
    assert f"run.spill/seconds.parquet: cut or damaged: {words}" in message


@cases(
    ("table", "column", "factor", "words"),
    [
        ("seconds", "bytes", 2, "it holds 13,107,200 bytes, and meta.json counts 6,553,600"),
        ("seconds", "total_ns", 2, "108,000,000 ns of waits, and meta.json counts 54,000,000"),
        ("waits", "elapsed_ns", 3, "162,000,000 ns of waits, and meta.json counts 54,000,000"),
        ("seconds", "count", -1, "count is -60 in some row"),
    ],
)
def test_rows_with_other_values_are_damage(tmp_path, table, column, factor, words):
    run = complete(tmp_path)
    rewrite(
        run / f"{table}.parquet",
        lambda rows: with_values(
            rows, column, [factor * value for value in rows[column].to_pylist()]
        ),
    )
    assert words in only_line(spillcast("forecast", run, *LATENCY), 2)


def test_rows_after_the_end_are_damage(run):
    change(run, recorded_s=1.0)
    rewrite(
        run / "waits.parquet",
        lambda rows: with_values(rows, "start_ns", [t + 10**10 for t in range(len(rows))]),
    )
    message = only_line(spillcast("forecast", run, *LATENCY), 2)
    assert "waits.parquet: cut or damaged: a row at 10.0 s of a recording of 1.0 s" in message


@cases(
    ("parts", "place"),
    [
        ({"cpu_s": -3}, "$.cpu_s"),
        ({"capture": {"lost": -5}}, "$.capture.lost"),
        ({"temp": {"reads": -1}}, "$.temp.reads"),
        ({"elapsed_s": 1e300}, "$.elapsed_s"),
    ],
)
def test_impossible_figures_are_damage(tmp_path, parts, place):
    run = complete(tmp_path)
    change(run, **parts)
    with pytest.raises(EvidenceDamaged) as damaged:
        Recording.open(run).meta.to_json()
    assert "meta.json" in damaged.value.message
    assert place in damaged.value.message


def test_a_recording_without_sums_is_read(tmp_path):
    assert spillcast("forecast", older(tmp_path), *LATENCY).returncode == 0


def test_a_recording_without_later_columns_is_read(run):
    rewrite(run / "waits.parquet", lambda rows: rows.drop_columns(["line", "object", "sql_id"]))
    assert spillcast("forecast", run, *LATENCY).returncode == 0


def test_the_sums_of_the_recorder_agree_with_its_rows(spilled):
    assert spillcast("forecast", spilled.path, *LATENCY).returncode == 0
    completed("profile", spilled.path, "--sql", "select count(*) from waits where temp", "--json")
