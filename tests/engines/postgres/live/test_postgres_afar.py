"""A statement explained on a server that cannot be observed: the forecast is made from its plan."""

import pytest

from harness import completed, json_of, only_line, refuse_tracing, spillcast
from postgres_rig import JOIN, meta_of

FACTOR = ("--to", "factor:4")


def explained(dsn, output, *options):
    requested = ("--explain", JOIN, "--set", "work_mem=64kB", "-o", output)
    result = completed("record", "--postgres", dsn, *requested, *options, under=refuse_tracing())
    assert meta_of(output)["capture"]["method"] == "none"
    return result


@pytest.fixture(scope="module")
def afar(newest, tmp_path_factory):
    output = tmp_path_factory.mktemp("afar") / "run.spill"
    settings = ("temp_tablespaces=slow", "max_parallel_workers_per_gather=0")
    result = explained(newest.dsn, output, *(word for item in settings for word in ("--set", item)))
    assert f"spillcast forecast {output}" in result.stdout
    return output


def answer(*words):
    return json_of("forecast", *words)


def test_the_recording_matches_the_plan(afar):
    alone = answer(afar / "plan.json", *FACTOR)
    result = answer(afar, *FACTOR)
    numbers = ("baseline_s", "forecast_s", "interval_s", "ceiling_s", "terms")
    assert {name: result[name] for name in numbers} == {name: alone[name] for name in numbers}
    [reported] = [item["message"] for item in result["warnings"] if item["code"] == "counts-only"]
    assert "no I/O was recorded (cannot observe the server's processes" in reported
    assert "so the plan is used" in reported
    # The recording has what the plan does not.
    assert alone["work_memory"]["current_bytes"] is None
    assert result["work_memory"]["current_bytes"] == 64 << 10


def test_it_is_also_a_target_and_a_probe_pattern(afar, tmp_path):
    destination = answer(afar, "--to", afar)
    assert destination["target"] == "run"
    assert destination["forecast_s"] == pytest.approx(destination["baseline_s"])
    room = tmp_path / "room"
    room.mkdir()
    completed("probe", room, "--like", afar, "--budget", "2s", "--json")


def test_options_of_plans_apply(afar):
    assert answer(afar, *FACTOR, "--elapsed", "60s")["baseline_s"] == 60
    assert answer(afar, *FACTOR, "--from", "latency:100us")["warnings"]
    for option, value in (("--temp", "/tmp"), ("--cpus", "2"), ("--cpu-quota", "0.4")):
        refused = spillcast("forecast", afar, *FACTOR, option, value)
        assert only_line(refused, 2).startswith(f"spillcast: {option} ")


def test_a_plan_without_times_is_reported(newest, tmp_path):
    with newest.connect() as connection:
        connection.execute("drop role if exists untimed")
        connection.execute("create role untimed login")
        connection.execute("grant select on t to untimed")
    output = tmp_path / "run.spill"
    try:
        explained(f"{newest.dsn} user=untimed", output)
        warnings = {item["code"]: item["message"] for item in answer(output, *FACTOR)["warnings"]}
        assert "track_io_timing" in warnings["time-unknown"]
        assert answer(output, *FACTOR, "--from", "latency:1us")["forecast_s"] > 0
    finally:
        with newest.connect() as connection:
            connection.execute("drop owned by untimed")
            connection.execute("drop role untimed")
