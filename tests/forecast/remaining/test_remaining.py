"""The remaining work of a partly observed query: each source separately, checked by hand."""

import json
from dataclasses import replace

import numpy as np
import pytest
from part_recordings import (
    BLOCK,
    DATA,
    FILE,
    SAME,
    STEP_S,
    blocks,
    former_run,
    recorded,
    recorded_late,
    with_history,
)  # fmt: skip

from cases import cases
from evidence import change, recording, storage, warned
from harness import completed, json_of, spillcast
from spillcast.errors import NotSpilled, OptionInvalid
from spillcast.forecast import forecast
from spillcast.forecast.previous_runs import read_history
from spillcast.forecast.query import workload_of_recording
from spillcast.forecast.question import Question
from spillcast.forecast.remaining import RemainingWorkHints, hints_of
from spillcast.forecast.remaining.progress import Estimated, progress_of
from spillcast.forecast.verdict import verdict
from spillcast.forecast.workload.recorded import recorded_loads, recorded_threads
from spillcast.recording import Recording
from spillcast.recording.meta import ObservedEngine
from spillcast.recording.observed import EarlierWork, SizedFile
from spillcast.report.forecast import remaining_text
from spillcast.storage.observed import observed
from spillcast.units import format_duration
from spillcast_lab.partial_runs import attached
from varied_recording import write_varied_recording


@pytest.fixture
def written(tmp_path):
    """400 blocks were written and none was read."""
    return recorded(tmp_path / "part.spill", [("write", FILE, n) for n in range(400)])


def test_written_bytes_of_zero_are_refused_where_only_reads_were_seen(tmp_path):
    loads = [("read", BLOCK, 300, 1_000_000)]
    run = recording(tmp_path / "reads.spill", loads, elapsed_s=1.0)
    change(run, ended_by="duration")
    with pytest.raises(OptionInvalid):
        forecast(run, SAME, known=RemainingWorkHints(written_bytes=0.0))


def test_without_any_source_the_sentence_names_the_recorded_part(written):
    answer = forecast(written, SAME)
    assert answer.sentence().startswith("1.60 s were recorded of a run that went on")
    # 400 blocks of 8 KiB.
    assert "at least 3.12 MiB in temp files remain to be read" in answer.warnings[1].message


@cases(("low", "centre", "high"), [(50.0, 100.0, 150.0), (99.0, 100.0, 400.0), (0.0, 0.0, 7.0)])
def test_the_bounds_are_the_5_and_95_percent_quantiles_of_the_draws(low, centre, high):
    normal = np.random.default_rng(0).standard_normal(50_000)
    draws = Estimated("written", low, centre, high, "").drawn(normal)
    result = np.quantile(draws, [0.05, 0.5, 0.95])
    assert result == pytest.approx([low, centre, high], rel=0.02)


def spread_out(kinds):
    """Operations by letter: w writes the next block, r reads the next one, - reads data."""
    numbers = {letter: iter(range(len(kinds))) for letter in "wr-"}
    names = {"w": ("write", FILE), "r": ("read", FILE), "-": ("read", DATA)}
    return [(*names[kind], next(numbers[kind])) for kind in kinds]


@cases(
    "kinds",
    ["w" * 200, "w" * 100 + "wwr" * 60, "w-" * 100, "-" * 180 + "w" * 20],
)
def test_while_writing_goes_on_there_is_only_a_lower_bound(tmp_path, kinds):
    part = recorded(tmp_path / "part.spill", spread_out(kinds))
    left = forecast(part, SAME).to_come
    assert left.open_ended
    assert left.still_writing
    unread = kinds.count("w") - kinds.count("r")
    assert left.reads_bytes.low == pytest.approx(unread * BLOCK)
    assert (left.reads_bytes.high, left.writes_bytes.high) == (None, None)
    # Each read is still to be done; where no read was seen, its duration is a guess.
    assert 0 < left.elapsed_s.low <= unread * STEP_S
    assert next(iter(warned(forecast(part, SAME)))) == "still-writing"
    assert verdict([forecast(part, SAME)]).text.startswith("No upper bound")


@cases("kinds", ["w" * 100 + "rrw" * 20 + "r" * 20, "w" * 100 + "rrrw" * 30])
def test_draining_files_bound_the_remaining_work(tmp_path, kinds):
    """Writing has ended, or reads are faster than writes."""
    answer = forecast(recorded(tmp_path / "part.spill", spread_out(kinds)), SAME)
    left = answer.to_come
    assert not left.open_ended
    assert not left.still_writing
    unread = kinds.count("w") - kinds.count("r")
    assert left.reads_bytes.low <= unread * BLOCK * 1.1 < left.reads_bytes.high * 1.2
    # The files bound the phase that reads them, not what the query does afterwards.
    words = remaining_text(answer, left)
    assert format_duration(left.elapsed_s.low) in words
    assert format_duration(left.elapsed_s.high) not in words


def slower(made, factor):
    """The recording with growing gaps between operations, ``factor`` times as long at the end."""
    start_s = made.waits["start_ns"].to_numpy() / 1e9
    share = start_s / made.elapsed_s
    stretched_s = start_s * (1 + (factor - 1) * share / 2)
    starts_ns = np.round(stretched_s * 1e9).astype(np.int64)
    made.waits = made.waits.with_column("start_ns", starts_ns)
    elapsed_s = made.elapsed_s * (1 + factor) / 2
    made.meta = replace(made.meta, elapsed_s=elapsed_s, recorded_s=elapsed_s)
    return made


def test_growing_time_beside_temp_io_continues_to_grow(tmp_path):
    """2 ms of each 4 ms are I/O; in the first fifth of the run the time beside it grows to 4 ms."""
    operations = [("write", FILE, n) for n in range(400)]
    shares = []
    for name, factor in (("even", 1.0), ("slower", 1.5)):
        part = slower(recorded(tmp_path / name, operations), factor)
        left_s = workload_of_recording(part, Question(elapsed_s=5 * part.elapsed_s)).remaining
        rest = left_s.rest_s / left_s.elapsed_s
        shares.append((float(np.median(rest)), float(np.quantile(rest, 0.95))))
        seen = progress_of(part, 1.0)
    # From 2 to 4 ms around a mean of 3 ms.
    assert seen.rates["write"].growth[0] == pytest.approx(2 / 3, rel=0.1)
    private = [0.5, 0.6]
    above = [share - of for (share, _), of in zip(shares, private, strict=True)]
    assert above[1] > above[0] + 0.02
    assert shares[1][1] > shares[0][1]


def test_the_gap_between_two_phases_is_not_scaled_with_bytes(tmp_path):
    """A second passes between the last write and the first read; then each read takes 4 ms."""
    part = recorded(tmp_path / "part.spill", spread_out("w" * 200 + "-" * 250 + "r" * 40))
    rate = progress_of(part, 1.0).rates["read"]
    assert (rate.io_s + rate.rest_s) * BLOCK == pytest.approx(STEP_S, rel=0.1)


def test_the_loads_of_the_entire_query_do_not_change_its_threads(tmp_path):
    part = recorded_late(tmp_path, [("read", FILE, n) for n in range(300, 500)], 1300, threads=2)
    workload = workload_of_recording(part)
    assert sum(load.count for load in workload.loads) > 2 * 200
    assert workload.threads.recorded == recorded_threads(part, recorded_loads(part)).recorded


def test_time_before_the_first_spill_is_not_scaled_with_bytes(tmp_path):
    """A scan took the first half of 3.2 s: time beside a write is taken from the second half."""
    scan = [("read", DATA, n) for n in range(400)]
    part = recorded(tmp_path / "part.spill", scan + [("write", FILE, n) for n in range(400)])
    seen = progress_of(part, 1.0)
    assert seen.ahead_s == pytest.approx(400.5 * STEP_S)
    rate = seen.rates["write"]
    assert (rate.io_s + rate.rest_s) * BLOCK == pytest.approx(STEP_S, rel=0.01)


@cases(
    ("reported", "whole"),
    [({"progress": 0.25}, 1600), ({"written_bytes": 800.0 * BLOCK}, 1600)],
)
def test_hints_of_the_user_give_the_whole(written, reported, whole):
    """All written data is read once, and a read takes as long as a write on this storage."""
    answer = forecast(written, SAME, known=RemainingWorkHints(**reported))
    assert answer.forecast_s == pytest.approx(whole * STEP_S, rel=0.15)
    assert answer.interval_s[0] < whole * STEP_S < answer.interval_s[1]
    assert "unread" in warned(answer)


def test_remaining_reads_of_two_threads_overlap_as_their_writes_did(tmp_path):
    """3200 operations, two at once: 1600 times 4 ms, or 2 ms if the storage takes no time."""
    part = recorded(tmp_path / "part.spill", [("write", FILE, n) for n in range(800)], threads=2)
    whole = RemainingWorkHints(written_bytes=1600.0 * BLOCK)
    fast = storage({("read", BLOCK): 1000, ("write", BLOCK): 1000})
    for target, steps in ((SAME, 1600), (fast, 800)):
        # Also where the interval is too wide for an answer.
        estimated = forecast(part, target, known=whole).uncertainty
        assert estimated.forecast_s == pytest.approx(steps * STEP_S, rel=0.1)


def test_an_earlier_run_of_two_threads_gives_the_time_beside_their_temp_io(tmp_path):
    operations = [("write", FILE, n) for n in range(800)]
    part = recorded(tmp_path / "part.spill", operations, threads=2)
    former = former_run(tmp_path, 800, threads=2)
    fast = storage({("read", BLOCK): 1000, ("write", BLOCK): 1000})
    answer = forecast(part, fast, known=hints_of([former.path]))
    assert answer.baseline_s == pytest.approx(800 * STEP_S, rel=0.05)
    assert answer.forecast_s == pytest.approx(400 * STEP_S, rel=0.05)


@cases("timed", [False, True])
def test_terms_add_up_where_threads_overlap_unevenly(tmp_path, timed):
    """In the recorded part, the reads of several threads overlap more than their writes."""
    run = Recording.open(write_varied_recording(tmp_path / "run.spill", 2500, 12))
    part = attached(run, 0.44 * run.elapsed_s, 0.69 * run.elapsed_s)
    known = hints_of([] if timed else [run.path])
    target = observed(part)
    answer = forecast(part, target, elapsed_s=run.elapsed_s if timed else None, known=known)
    assert sum(item.baseline_s for item in answer.terms) == pytest.approx(answer.baseline_s)


def test_a_part_without_temp_io_uses_an_earlier_run_of_the_same_query(tmp_path):
    operations = [("read", DATA, n) for n in range(100)]
    private = ObservedEngine("postgres", query="select 1")
    part = recorded(tmp_path / "part.spill", operations, engine=private)
    same = former_run(tmp_path, engine=private)
    (tmp_path / "of").mkdir()
    for unsuited in ((), (former_run(tmp_path / "of").path,)):
        with pytest.raises(NotSpilled):
            with_history(part, *unsuited)
    answer = with_history(part, same.path)
    assert answer.forecast_s == pytest.approx(1200 * STEP_S, rel=0.05)
    assert warned(answer)["former-run"].startswith(
        "there was no temp I/O in the 400 ms that were recorded"
    )
    assert warned(answer)["former-run"].endswith("former.spill")


def test_an_earlier_run_gives_counts_and_work(tmp_path, written):
    answer = with_history(written, former_run(tmp_path).path)
    assert blocks(answer.to_come.reads_bytes)[1] == pytest.approx(600, rel=0.05)
    assert answer.forecast_s == pytest.approx(1200 * STEP_S, rel=0.05)


@cases(
    ("text", "memory", "why"),
    [
        ("select 2", "4MB", "another query"),
        ("select 1", "64MB", "work_mem = 64MB"),
    ],
)
def test_an_earlier_run_that_differs_is_reported_and_not_used(tmp_path, text, memory, why):
    engine = ObservedEngine("postgres", query=text, settings={"work_mem": memory})
    private = ObservedEngine("postgres", query="select 1;", settings={"work_mem": "4MB"})
    part = recorded(
        tmp_path / "part.spill", [("write", FILE, n) for n in range(400)], engine=private
    )
    former = former_run(tmp_path, engine=engine)
    history = hints_of([former.path], "0.5")
    answer = forecast(part, SAME, known=history)
    assert warned(answer)["not-used"].startswith("not used: former.spill: ")
    assert why in warned(answer)["not-used"]
    # The duration of a read is not known: half of the time may be reads, or other work.
    assert answer.forecast_s == pytest.approx(800 * STEP_S, rel=0.3)


def test_an_earlier_run_without_temp_io_is_reported_and_not_used(tmp_path, written):
    reads = [("read", DATA, n) for n in range(400)]
    former = recorded(tmp_path / "former.spill", reads, ended_by="end")
    answer = with_history(written, former.path)
    assert warned(answer)["not-used"].startswith("not used: former.spill: ")
    assert answer.to_come == forecast(written, SAME).to_come


def test_a_run_of_another_engine_is_reported_and_not_used(tmp_path):
    writes = [("write", FILE, n) for n in range(400)]
    part = recorded(tmp_path / "part.spill", writes, engine=ObservedEngine("duckdb"))
    former = former_run(tmp_path, engine=ObservedEngine("postgresql"))
    answer = with_history(part, former.path)
    reason = "it is of postgresql, this one of duckdb"
    assert warned(answer)["not-used"] == f"not used: former.spill: {reason}"
    assert answer.to_come.open_ended


def test_a_run_with_less_time_beside_its_temp_io_is_not_used(tmp_path, written):
    """800 ms passed beside the writes of 400 blocks, but only 200 ms beside 600 of each op."""
    answer = with_history(written, former_run(tmp_path, elapsed_s=2.6).path)
    assert warned(answer)["not-used"].endswith(
        "it took 200 ms outside temp I/O in all, this one 800 ms while it was recorded"
    )


def plan(rows, width=90):
    """A plan, not run, of a sort of ``rows`` rows; each takes its width and 10 bytes in a file."""
    scan = {"Node Type": "Seq Scan", "Plan Rows": rows, "Plan Width": width}
    sort = {"Node Type": "Sort", "Plan Rows": rows, "Plan Width": width, "Plans": [scan]}
    return [{"Plan": sort, "Settings": {"work_mem": "4MB"}}]


def test_a_plan_that_was_not_run_gives_the_writes_of_its_nodes(tmp_path, written):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan(800 * BLOCK // 100)))
    answer = with_history(written, path)
    low, centre, high = blocks(answer.to_come.writes_bytes)
    assert low < 400 < high
    assert centre == pytest.approx(400, rel=0.1)
    assert answer.to_come.writes_bytes.source == "the plan, which was not run"


def test_a_hash_aggregate_writes_a_block_twice_and_reads_it_once(tmp_path, written):
    """Rows of 100 bytes in a file, and groups of which hardly any fit into memory."""
    rows = 400 * BLOCK // 100
    scan = {"Node Type": "Seq Scan", "Plan Rows": rows, "Plan Width": 80}
    node = {"Node Type": "Aggregate", "Strategy": "Hashed", "Plan Rows": rows, "Plan Width": 80}
    whole = [{"Plan": {**node, "Plans": [scan]}, "Settings": {"work_mem": "64kB"}}]
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(whole))
    question = Question(known=hints_of([path]))
    coming = workload_of_recording(written, question).remaining
    assert coming.total_bytes("write") == pytest.approx(800 * BLOCK, rel=0.15)
    assert coming.total_bytes("read") == pytest.approx(400 * BLOCK, rel=0.15)


@cases(("before", "done"), [(1000, 1200), (2000, 1700)])
def test_time_before_the_recording_is_that_of_existing_or_deleted_files(tmp_path, before, done):
    """Writing the file's 1000 blocks took 1000 steps; others were written, read and deleted."""
    operations = [("write", FILE, block) for block in range(1000, 1200)]
    part = recorded_late(tmp_path, operations, before)
    progress = progress_of(part, 1.0)
    assert progress.written == pytest.approx(done * BLOCK, rel=0.01)


def test_written_bytes_of_a_process_take_precedence_over_its_plan(tmp_path):
    """The process reads its 1000 written blocks; a plan of 1400 may be wrong."""
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan(1400 * BLOCK // 100)))
    part = recorded(
        tmp_path / "part.spill",
        [("read", FILE, n) for n in range(300, 500)],
        temp_before=[SizedFile(FILE, 1000 * BLOCK)],
        before=EarlierWork(5.2, 5.2, 1300 * BLOCK, 1000 * BLOCK),
    )
    question = Question(known=hints_of([path]))
    coming = workload_of_recording(part, question).remaining
    low, high = (float(item) for item in np.quantile(coming.bytes["write"], (0.05, 0.95)) / BLOCK)
    assert low == pytest.approx(1000, rel=0.1)
    assert high > 1400


def test_a_plan_that_is_below_the_observed_writes_is_not_used(tmp_path, written):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan(60_000, width=20)))
    answer = with_history(written, path)
    assert answer.part is not None
    assert "not-used" in warned(answer)


def test_a_session_that_writes_more_than_its_plan_has_less_work_memory(written):
    """By the plan one of two sorts fits into 4 MB; the session has less."""
    sorts = [plan(rows, width)[0]["Plan"] for rows, width in ((60_000, 20), (38_000, 60))]
    joined = {"Node Type": "Merge Join", "Plan Rows": 1, "Plan Width": 8, "Plans": sorts}
    (written.path / "estimate.json").write_text(json.dumps([{"Plan": joined, "Settings": {}}]))
    coming = workload_of_recording(written).remaining
    assert coming.sources["written"] == "the plan, which was not run"
    both = (60_000 * 30 + 38_000 * 70) / BLOCK
    assert coming.total_bytes("write") == pytest.approx(both * BLOCK, rel=0.15)


def test_earlier_writes_of_a_process_are_counted(tmp_path):
    """600 blocks were written before and 200 in the recording; --written says 1000 in total."""
    part = recorded(
        tmp_path / "part.spill",
        [("write", FILE, n) for n in range(600, 800)],
        temp_before=[SizedFile(FILE, 600 * BLOCK)],
        before=EarlierWork(2.4, 2.4, 600 * BLOCK, 600 * BLOCK),
    )
    answer = forecast(part, SAME, known=RemainingWorkHints(written_bytes=1000.0 * BLOCK))
    assert answer.baseline_s == pytest.approx(2000 * STEP_S, rel=0.1)


def test_a_directory_is_probed_with_reads_of_the_written_data(tmp_path, written):
    (tmp_path / "there").mkdir()
    document = json_of(
        "forecast", written.path, "--to", tmp_path / "there", "--progress", "25%",
        "--confidence", "0.5",
    )  # fmt: skip
    # No reads were recorded: their latency on the target is the probe's.
    [reads] = [term for term in document["terms"] if term["op"] == "read"]
    assert 0 < reads["forecast_s"] < reads["count"] * 0.002
    assert document["to_come"]["reads_bytes"]["low"] >= 400 * BLOCK


def test_a_part_that_only_reads_has_a_term_of_writes(tmp_path):
    part = recorded_late(tmp_path, [("read", FILE, n) for n in range(300, 500)], 1300)
    done = completed("forecast", part.path, "--to", "latency:2ms", "--json")
    terms = {term["op"]: term for term in json.loads(done.stdout)["terms"] if term["op"]}
    # A thousand blocks were written before, and a thousand are read in total.
    assert terms["write"]["count"] == pytest.approx(1000, rel=0.05)
    assert terms["write"]["forecast_s"] == pytest.approx(terms["write"]["count"] * 0.002, rel=0.05)


def test_the_output_names_the_part_and_the_remaining_work(written):
    done = completed("forecast", written.path, "--to", "latency:2ms", "--progress", "25%")
    output = " ".join(done.stdout.split())
    assert "of this query, judging by the 1.60 s recorded" in output.split(". ")[0]
    assert "moved now and restarted: " in done.stdout
    assert "temp reads" in done.stdout


def test_a_page_draws_the_recorded_and_the_remaining_work(tmp_path, written):
    page = tmp_path / "page.html"
    requested = ("--to", "latency:2ms", "--progress", "25%", "-o", page)
    completed("report", written.path, *requested)
    text = page.read_text()
    assert "left running it takes about another 4." in text
    # The text beside the bars: bytes done, which are 400 blocks.
    assert "3.12 MiB done, " in text
    assert all(part in text for part in ("before the recording", "recorded", "remaining"))


@cases(
    ("option", "value", "why"),
    [
        ("--progress", "120%", "--progress 120% is not a share of a query"),
        ("--written", "1M", "--written 1 MiB: 3.12 MiB were written while it was recorded"),
        ("--history", "nowhere.json", "nowhere.json: there is no such file"),
    ],
)
def test_impossible_hints_are_refused(written, option, value, why):
    done = spillcast("forecast", written.path, "--to", "latency:2ms", option, value)
    assert (done.returncode, done.stdout) == (2, "")
    assert why in done.stderr


@pytest.fixture
def former(tmp_path):
    """A run of 1000 writes and 1000 reads; half of its 8 s passed outside them."""
    return former_run(tmp_path, 1000).path


@cases(
    ("elapsed_s", "reported", "runs", "source"),
    [
        (None, {"progress": 1.0}, 1, "--progress"),
        (4.0, {}, 1, "--elapsed"),
        (8.0, {"written_bytes": 100_000 * BLOCK}, 0, "--elapsed"),
    ],
)
def test_an_elapsed_time_below_the_other_sources_is_reported_and_used_alone(
    tmp_path, former, elapsed_s, reported, runs, source
):
    """2 ms of each 4 ms are I/O: on storage without latency about half of the time remains."""
    part = recorded(tmp_path / "part.spill", [(op, FILE, n) for n in range(400)
                                              for op in ("write", "read")])  # fmt: skip
    known = RemainingWorkHints(**reported, history=[read_history(former)] * runs)
    answer = forecast(part, SAME, elapsed_s=elapsed_s, known=known)
    texts = warned(answer)
    assert f"not used: {source}: " in texts["not-used"]
    assert "is too short for temp I/O of about " in texts["not-used"]
    # The remaining time then follows from the given time, not from the files.
    assert not any("temp files hold" in text for text in texts.values())
    assert answer.baseline_s == pytest.approx(elapsed_s or 8.0, rel=0.05)
    assert sum(item.baseline_s for item in answer.terms) == pytest.approx(answer.baseline_s)
    assert answer.forecast_s == pytest.approx(answer.baseline_s, rel=0.05)
    assert answer.ceiling_s == pytest.approx(answer.baseline_s / 2, rel=0.05)


def test_a_much_longer_elapsed_time_is_spent_beside_temp_io(tmp_path, written, former):
    answer = forecast(written, SAME, elapsed_s=800.0, known=hints_of([former]))
    assert answer.ceiling_s == pytest.approx(796, rel=0.01)
    assert answer.to_come.unused == [
        "the time outside temp I/O of a previous run: "
        "--elapsed (13 min 20 s) leaves far more for it"
    ]


def test_an_elapsed_time_below_the_recorded_time_is_refused(written):
    done = spillcast("forecast", written.path, "--to", "latency:2ms", "--elapsed", "1.2s")
    assert (done.returncode, done.stdout) == (2, "")
    assert "1.20 s is less than the 1.60 s that were recorded" in done.stderr


def test_hints_that_need_single_waits_are_reported_as_unused_without_them(written):
    raw = replace(written.meta.raw, slices_of_all=True, slices_s=[(0.0, 1.6)])
    written.meta = replace(written.meta, raw=raw)
    answer = forecast(written, SAME, known=RemainingWorkHints(progress=0.5))
    assert any("--progress: needs the single waits" in item.message for item in answer.warnings)


def test_a_whole_run_has_no_remaining_work(tmp_path):
    whole = recorded(
        tmp_path / "run.spill", [("write", FILE, 0), ("read", FILE, 0)], ended_by="end"
    )
    done = spillcast("forecast", whole.path, "--to", "latency:2ms", "--progress", "25%")
    assert done.returncode == 2
    assert "nothing remains" in done.stderr
