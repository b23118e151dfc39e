"""No value shown beside the floor, which no storage beats, lies below it."""

import re
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cases import cases
from evidence import change, recording, storage
from oracle_files import READ, WRITE, blocks, write_trace
from spillcast.errors import InputError, Refusal
from spillcast.forecast import ask, forecast
from spillcast.forecast.question import Question
from spillcast.recording.meta import CpuCache, Machine
from spillcast.report.forecast import forecast_page
from spillcast.report.html.inputs import Inputs
from spillcast.report.html.write import compose
from spillcast.storage.source import ASSUMED, GRID, PROBE, RECORDING, catalogue
from spillcast.units import format_duration, parse_duration_s

ROOT = Path(__file__).parents[3]
FLOOR = re.compile(r"bring\s+it\s+under\s+([\d.]+ \w+(?: \d+ \w+)?)")
SIZES = (8192, 262144)
KEYS = [(op, size) for op in ("read", "write") for size in SIZES]
SOURCES = (PROBE, GRID, RECORDING, ASSUMED, catalogue(1.5, "x"), catalogue(4.0, "a brochure"))
LATENCY_NS = st.integers(1_000, 20_000_000)


def floors_said(forecasts):
    """The floors in seconds, as printed, on the terminal, on a page and in each sentence."""
    result = forecasts
    page = Inputs()
    for number, item in enumerate(forecasts):
        page.add_document(f"{number}.json", item.to_json())
    together = [forecast_page(result, in_full=True).text(200), " ".join(compose(page).answer)]
    for texts, reported in (
        (together, forecasts),
        *(([item.sentence()], [item]) for item in forecasts),
    ):
        for text in texts:
            for floor in FLOOR.findall(text):
                yield parse_duration_s(floor), reported


def check(forecasts):
    """Compares interval ends and forecasts as printed; returns whether a floor was shown."""
    answer = list(floors_said(forecasts))
    for floor_s, reported in answer:
        for item in reported:
            if item.interval_s is not None:
                for seconds in (*item.interval_s, item.forecast_s):
                    assert parse_duration_s(format_duration(seconds)) >= floor_s * (1 - 1e-12)
    return bool(answer)


@st.composite
def baselines(draw):
    """A recording: a whole run or a part, one thread or more, busy or idle, cold or warm."""
    loads = draw(
        st.dictionaries(
            st.sampled_from(KEYS), st.tuples(st.integers(5, 60), LATENCY_NS), min_size=1
        )
    )
    parts = [(op, size, times, ns) for (op, size), (times, ns) in loads.items()]
    io_s = sum(times * ns for _, _, times, ns in parts) / 1e9
    # From a query that is only temp I/O to one with a hundred times as much other work.
    elapsed_s = io_s * draw(st.floats(1.0, 100.0)) + 1e-3
    sessions = draw(st.integers(1, 3))
    with tempfile.TemporaryDirectory() as name:
        run = recording(
            Path(name) / "run.spill", parts, elapsed_s=elapsed_s, sessions=sessions,
            cpu_s=draw(st.none() | st.floats(0, 1).map(lambda share: share * elapsed_s)),
            run_queue_delay_s=draw(st.floats(0, 0.5)) * elapsed_s,
        )  # fmt: skip
        assert run.waits.num_rows > 0
        assert run.seconds.num_rows > 0
    if draw(st.booleans()):
        cold_ns = draw(st.integers(1_000, 3_000_000))
        change(run, machine=Machine(caches=[CpuCache(8 << 20, 100_000, [(1_000_000, cold_ns)])]))
    return run, draw(st.none() | st.floats(1.0, 20.0).map(lambda times: times * elapsed_s))


TARGETS = st.lists(
    st.tuples(
        st.fixed_dictionaries(dict.fromkeys(KEYS, LATENCY_NS | st.just(0))),
        st.sampled_from(SOURCES),
    ),
    min_size=1,
    max_size=4,
)


@given(baselines(), TARGETS, st.sampled_from((0.5, 0.8, 0.9, 0.99)))
@settings(max_examples=20)
def test_no_interval_of_a_recording_is_below_the_floor(baseline, targets, confidence):
    run, elapsed_s = baseline
    matches = [
        forecast(run, replace(storage(latencies), source=source), elapsed_s=elapsed_s,
                 confidence=confidence)
        for latencies, source in targets
    ]  # fmt: skip
    check(matches)


# Its I/O alone took 183 ms.
@given(
    st.floats(0.2, 100.0),
    st.lists(st.sampled_from(("catalogue:aws-gp3", "latency:20us", "latency:2ms", "factor:5")),
             min_size=1, unique=True),
)  # fmt: skip
@settings(max_examples=8)
def test_no_interval_of_a_plan_is_below_the_floor(elapsed_s, targets):
    plan = ROOT / "examples" / "work-memory" / "plan.json"
    answers = ask([plan], targets, Question(elapsed_s=elapsed_s))
    check([answer for answer, _ in answers])


@given(
    st.floats(0.0, 20_000.0), st.floats(1.0, 10_000.0), st.integers(200, 20_000),
    st.sampled_from(("catalogue:aws-gp3", "latency:20us", "latency:2ms", "factor:5")),
)  # fmt: skip
@settings(max_examples=8)
def test_no_interval_of_counted_statements_is_below_the_floor(rest_ms, io_ms, count, target):
    row = {
        "queryid": 7, "query": "select 1", "calls": 1, "total_exec_time": rest_ms + io_ms,
        "temp_blks_read": count, "temp_blks_written": count, "temp_blk_read_time": io_ms / 2,
        "temp_blk_write_time": io_ms / 2, "parallel_workers_launched": 0,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "statements.csv"
        path.write_text(f"{','.join(row)}\n{','.join(map(str, row.values()))}\n")
        try:
            answers = ask([path], [target])
        except (InputError, Refusal):
            assume(False)
        check([answer for answer, _ in answers])


@cases("seed", range(12))
def test_no_interval_of_oracle_traces_is_below_the_floor(tmp_path, seed):
    """Random traces of a baseline and of a target, and stated targets."""
    draws = np.random.default_rng(seed)

    def trace(name, mean_us):
        waits = []
        for _ in range(400):
            waits.append(("SQL*Net message from client", int(draws.exponential(800)) + 1, "p1=1"))
            us = int(draws.exponential(mean_us)) + 1
            waits.append((str(draws.choice([READ, WRITE])), us, blocks(31)))
        return write_trace(tmp_path / name, waits)

    source, target = trace("here.trc", draws.uniform(500, 20_000)), trace("there.trc", 300)
    targets = [str(target), "latency:100us", "factor:20", "latency:30ms"]
    matches = [answer for answer, _ in ask([source], targets, Question(lenient=True))]
    assert check(matches)
    for item in matches:
        least_s, most_s = item.ceiling_interval_s
        assert 0 <= least_s <= item.ceiling_s <= most_s


def test_the_lowest_of_several_floors_is_shown():
    """The interval of an assumed storage reaches below the floor of a measured one."""
    with tempfile.TemporaryDirectory() as name:
        run = recording(Path(name) / "r.spill", [("read", 8192, 1000, 1_000_000)], elapsed_s=2.0)
        assert run.waits.num_rows > 0
        assert run.seconds.num_rows > 0
    brochure = replace(storage({("read", 8192): 1_000}), source=catalogue(50.0, "a brochure"))
    matches = [forecast(run, storage({("read", 8192): 900})), forecast(run, brochure)]
    assert check(matches)
