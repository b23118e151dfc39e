"""Forecasts from Oracle's evidence: the published case, a real holdout, and sums by hand."""

import json
from dataclasses import replace

import pytest

from cases import cases
from evidence import storage, warned
from harness import completed, json_of, only_line, spillcast
from oracle_files import HEADER, READ, WRITE, blocks, make_example, real, write_trace
from oracle_reports import READ_S, READS, WRITE_S, WRITES, tkprof
from spillcast import forecast as spillcast_forecast
from spillcast.errors import OptionInvalid, SelectionEmpty, TargetUnsuited, TimesUnknown
from spillcast.forecast.oracle import forecast_events, resolve_target
from spillcast.forecast.oracle.evidence import EventTarget, OracleEvidence, read_shares, read_traces
from spillcast.forecast.question import Question

TEMP = "direct path * temp"
CLIENT = "SQL*Net message from client"
MEASURED_S = 348.83
SAMPLED = ["ON CPU,", "WAITING,direct path read temp", "WAITING,direct path write temp"]
REST = ("SQL*Net message from client", 10_000, "driver id=1 #bytes=1 p3=0")


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    return make_example(tmp_path_factory.mktemp("oracle"))


def case(example, *more, to=("flash.trc",)):
    """The document of the published case."""
    targets = [word for name in to for word in ("--to", name)]
    command = ["forecast", "ash.csv", "hdd.trc", *targets, "--elapsed", 773, *more, "--json"]
    result = completed(*command, cwd=example)
    return json.loads(result.stdout)


def estimate(source, target, *, temp_events=TEMP, **options):
    """A forecast from traces alone; ``target`` is a trace or a word such as ``factor:2``."""
    evidence = OracleEvidence(traces=read_traces([source]), paths=[source])
    return forecast_events(
        resolve_target(str(target)), evidence, Question(temp_events=temp_events, **options)
    )


def spelled(forecast):
    """Baseline and forecast by term, in milliseconds."""
    return {
        term.name: (round(1e3 * term.baseline_s, 3), round(1e3 * term.forecast_s, 3))
        for term in forecast.terms
    }


def test_a_folder_with_an_export_and_a_trace_is_a_baseline_of_both(example, tmp_path):
    for name in ("ash.csv", "hdd.trc"):
        (tmp_path / name).symlink_to(example / name)
    target = example / "flash.trc"
    folder = spillcast_forecast(tmp_path, target, elapsed_s=773)
    assert folder.forecast_s == case(example)["forecast_s"]
    export = spillcast("profile", example / "ash.csv").stdout
    assert spillcast("profile", tmp_path).stdout.startswith(export)
    (tmp_path / "flash.trc").symlink_to(target)
    with pytest.raises(TargetUnsuited):
        spillcast_forecast(tmp_path, target)


def test_the_published_formula(example):
    """773 s - 430 s + 430 s / (8,999 us / 150 us)."""
    answer = case(example, "--method", "seed")
    assert answer["baseline_s"] == 773
    assert answer["forecast_s"] == pytest.approx(773 - 430 + 430 * 150 / 8_999)
    assert answer["forecast_s"] == pytest.approx(350.2, abs=0.05)
    assert answer["ceiling_s"] == pytest.approx(343)
    assert answer["method"] == "seed"


def test_sizes_are_matched_by_default(example):
    """An I/O of 15 blocks in 150 us corresponds to one of 31 blocks in 310 us."""
    answer = case(example)
    assert answer["forecast_s"] == pytest.approx(773 - 430 + 430 * 150 * 31 / 15 / 8_999)
    assert answer["forecast_s"] == pytest.approx(357.8, abs=0.05)
    assert answer["method"] == "counts"
    assert "31 blocks now and 15 on the target" in " ".join(
        w["message"] for w in answer["warnings"]
    )


@cases("method", ["counts", "seed"])
def test_the_measured_time_is_inside_the_interval(example, method):
    low, high = case(example, "--method", method)["interval_s"]
    assert low < MEASURED_S < high


def test_terms_add_up(example):
    answer = case(example)
    for key in ("baseline_s", "forecast_s"):
        assert sum(term[key] for term in answer["terms"]) == pytest.approx(answer[key])
    reads = next(term for term in answer["terms"] if term["name"] == READ)
    assert reads["count"] == round(418 / 8_999e-6)
    assert reads["op"] == "read"


def test_an_event_seen_only_on_the_target_is_named(example):
    messages = {w["code"]: w["message"] for w in case(example)["warnings"]}
    assert messages["new-event"].startswith("local write wait is 42.7 % of the waits on flash.trc")
    assert messages["gain-borrowed"].startswith(f"{WRITE} was not seen on flash.trc")


def test_several_targets_are_one_table(example):
    to = ("flash.trc", "latency:150us", "factor:60")
    answer = case(example, to=to)["targets"]
    assert [target["target"] for target in answer] == list(to)
    latency, factor = answer[1]["forecast_s"], answer[2]["forecast_s"]
    # ASH has 418 s of reads of 8,999 us and 12 s of writes of 276 us (52,992 us in 192 waits).
    assert latency == pytest.approx(343 + 418 * 150 / 8_999 + 12 * 150 / 276)
    assert factor == pytest.approx(343 + 430 / 60)
    assert {w["code"] for w in answer[2]["warnings"]} == {"not-measured"}
    shown = spillcast(
        "forecast", "ash.csv", "hdd.trc", *(w for t in to for w in ("--to", t)), cwd=example
    )
    rows = [f"  {name}  " for name in to]
    lines = [line for line in shown.stdout.splitlines() if line.startswith(tuple(rows))]
    assert [line.split()[0] for line in lines] == ["factor:60", "latency:150us", "flash.trc"]


def test_a_real_holdout():
    """One job at 12 ms and at 1 ms of network latency; the second run took 16.144 s."""
    source, target = (
        real(f"jks_ot_cdb1_{name}_010.trc") for name in ("3802_12ms", "30547_1ms")
    )  # fmt: skip
    answer = estimate(source, target, temp_events=CLIENT, without=("rest",))
    assert answer.baseline_s == pytest.approx(129.35, abs=0.01)
    # 1.38 s and 10,027 round trips at the other run's mean, in total 15,606,345 us.
    assert answer.forecast_s == pytest.approx(129.346 - 127.966 + 15.606, abs=0.01)
    assert abs(answer.forecast_s / 16.144 - 1) < 0.06
    assert answer.interval_s[0] < 16.144 < answer.interval_s[1]


def test_reads_and_writes_have_separate_gains(tmp_path):
    """Reads 10 ms -> 1 ms, writes 4 ms -> 8 ms; 20 ms of other time."""
    write_trace(tmp_path / "a.trc", [(READ, 10_000, blocks(31)), (WRITE, 4_000, blocks(31))] * 10
                + [REST] * 2)  # fmt: skip
    write_trace(tmp_path / "b.trc", [(READ, 1_000, blocks(31)), (WRITE, 8_000, blocks(31))] * 10)
    answer = estimate(tmp_path / "a.trc", tmp_path / "b.trc")
    assert spelled(answer)[READ] == (100, 10)
    assert spelled(answer)[WRITE] == (40, 80)
    assert answer.forecast_s - answer.baseline_s == pytest.approx(-0.090 + 0.040)
    assert {term.name: term.op for term in answer.terms}[WRITE] == "write"
    one_gain = estimate(tmp_path / "a.trc", tmp_path / "b.trc", method="seed")
    assert spelled(one_gain)[WRITE] == (40, 4)


def test_latency_and_factor(tmp_path):
    path = write_trace(tmp_path / "a.trc", [(READ, 10_000, blocks(31))] * 10 + [REST] * 2)
    rest_ms = 20
    assert spelled(estimate(path, "latency:500us")) == {
        "CPU and other waits": (rest_ms, rest_ms),
        READ: (100, 5),
    }
    assert spelled(estimate(path, "factor:4"))[READ] == (100, 25)
    # No call ends in this trace: it holds only waits.
    assert warned(estimate(path, "factor:4")).keys() == {"not-measured", "part-only"}


def test_a_baseline_of_flash_is_warned_about(tmp_path):
    fast = write_trace(tmp_path / "fast.trc", [(READ, 200, blocks(31))] * 50)
    slow = write_trace(tmp_path / "slow.trc", [(READ, 1_100, blocks(31))] * 50)
    texts = warned(estimate(fast, "latency:150us"))
    assert "Exadata" in texts["already-fast"]
    assert "already-fast" not in warned(estimate(slow, "latency:150us"))


def test_a_share_whose_error_is_amplified_is_warned_about(tmp_path):
    fast = write_trace(tmp_path / "fast.trc", [(READ, 200, blocks(31))] * 50)
    slow = write_trace(tmp_path / "slow.trc", [(READ, 5_000, blocks(31))] * 50)
    assert "amplified" in warned(estimate(fast, slow))
    assert "amplified" not in warned(estimate(slow, fast))


def test_a_slower_target_is_forecast_slower(example):
    result = completed("forecast", "flash.trc", "--to", "hdd.trc", cwd=example)
    assert "hdd.trc is slower: " in " ".join(result.stdout.split())
    answer = estimate(example / "flash.trc", example / "hdd.trc")
    assert answer.forecast_s > answer.baseline_s
    assert answer.speedup < 1


def test_a_trace_of_a_partial_run_is_warned_about(example):
    answer = estimate(example / "hdd.trc", example / "flash.trc", elapsed_s=773)
    assert "part" in warned(answer)
    assert answer.baseline_s == 773
    assert "part" not in warned(estimate(example / "hdd.trc", example / "flash.trc"))


def test_samples_without_times_of_waits_are_refused_as_such(example, tmp_path):
    """Samples in temp waits are no evidence of a query that does not spill."""
    rows = (f"2024-10-14 10:00:{n:02},133,{sampled}\n" for n, sampled in enumerate(SAMPLED * 9))
    (path := tmp_path / "ash.csv").write_text(
        "SAMPLE_TIME,SESSION_ID,SESSION_STATE,EVENT\n" + "".join(rows)
    )
    target = resolve_target(str(example / "flash.trc"))
    answer = forecast_events(target, OracleEvidence(ash=read_shares([path], TEMP)), Question())
    assert answer.refused_code == TimesUnknown.code


def test_ash_alone_gives_a_warning_of_unknown_sizes(example):
    ash = read_shares([example / "ash.csv"], TEMP)
    target = resolve_target(str(example / "flash.trc"))
    answer = forecast_events(target, OracleEvidence(ash=ash), Question(temp_events=TEMP))
    assert "sizes-unknown" in warned(answer)


def test_parallel_and_consecutive_sessions_have_the_same_share(tmp_path):
    """Each reads for half of its time, so half of the elapsed time can become faster."""
    half = [REST, (READ, 10_000, blocks(31))] * 20
    item = write_trace(tmp_path / "one.trc", half)
    beside = tmp_path / "beside.trc"
    beside.write_text(item.read_text().replace("(35.", "(36."))
    after = tmp_path / "after.trc"
    after.write_text(beside.read_text().replace("tim=1", "tim=9"))
    for other, wall_s in ((beside, 0.4), (after, 0.8)):
        evidence = read_traces([item, other])
        assert evidence.elapsed_s == pytest.approx(wall_s)
        answer = forecast_events(
            resolve_target("factor:2"), OracleEvidence(traces=evidence), Question(temp_events=TEMP)
        )
        assert answer.forecast_s == pytest.approx(wall_s * 0.75)
        assert ("threads" in warned(answer)) == (other is beside)


def test_a_report_is_forecast_with_a_trace_of_the_target(tmp_path):
    """Operations of 31 blocks, 200 us a read and 100 us a write, replace 418 s and 12 s."""
    report = tmp_path / "tkprof.txt"
    report.write_text(tkprof())
    waits = [(READ, 200, blocks(31)), (WRITE, 100, blocks(31))] * 50
    target = write_trace(tmp_path / "there.trc", waits)
    answer = spillcast_forecast(report, target)
    temp_s = READS * 200e-6 + WRITES * 100e-6
    assert answer.forecast_s == pytest.approx(773 - READ_S - WRITE_S + temp_s, rel=1e-3)


def test_a_target_without_temp_waits_is_refused(example, tmp_path):
    target = write_trace(tmp_path / "there.trc", [REST] * 3)
    result = spillcast("forecast", example / "hdd.trc", "--to", target)
    assert result.returncode == 3
    assert "trace the query there while it spills" in " ".join(result.stdout.split())


@cases("files", [["hdd.trc"], ["ash.csv"], ["ash.csv", "hdd.trc"]])
def test_without_a_target_the_answer_is_the_ceiling(example, files):
    answer = json_of("forecast", *files, cwd=example)
    assert answer["forecast_s"] == pytest.approx(answer["ceiling_s"], rel=1e-4)
    assert answer["ceiling_s"] < answer["baseline_s"] * 0.45
    # Neither a probe nor a block size changes what no storage can beat.
    assert {"not-replayed", "block-assumed"}.isdisjoint(w["code"] for w in answer["warnings"])


@cases("files", [["hdd.trc"], ["ash.csv"], ["ash.csv", "hdd.trc"]])
def test_the_ceiling_is_the_same_for_each_target(example, files):
    targets = ["factor:0.5", "factor:60", "latency:150us", "limits:latency=0ms"]
    answers = spillcast_forecast([example / file for file in files], targets, elapsed_s=773)
    limits = {answer.ceiling_interval_s for answer in answers}
    assert len(limits) == 1, limits


def test_the_verdict_on_a_network_names_its_event_and_share():
    slow, fast = real("pairs/12ms_array100.trc"), real("pairs/0.2ms_array100.trc")
    result = spillcast("forecast", slow, "--to", fast, "--temp-events", CLIENT, "--json")
    verdict = json.loads(result.stdout)["verdict"]
    assert verdict["temp_share"] == pytest.approx(0.989, abs=0.01)
    assert CLIENT in verdict["text"]
    assert "storage is the problem" not in verdict["text"]
    # Nor without a target, as no storage changes these waits.
    result = spillcast("forecast", slow, "--temp-events", CLIENT, "--json")
    assert "storage" not in json.loads(result.stdout)["verdict"]["text"]


def test_the_old_name_of_temp_events_still_works(example):
    trace = example / "hdd.trc"
    now = spillcast("forecast", trace, "--to", "factor:2", "--temp-events", READ, "--json")
    former = spillcast("forecast", trace, "--to", "factor:2", f"--boost={READ}", "--json")
    assert former.stdout == now.stdout
    assert former.returncode == 0
    assert "--temp-events" in former.stderr


def test_waits_in_running_text_need_the_lenient_option():
    text = real("mvelikikh_direct_path_temp_excerpt_19c.txt")
    assert "--lenient" in only_line(spillcast("forecast", text, "--to", "factor:2"), 2)
    result = spillcast("forecast", text, "--to", "factor:2", "--lenient", "--json")
    terms = {term["name"]: term["count"] for term in json.loads(result.stdout)["terms"]}
    assert (terms[WRITE], terms[READ]) == (52, 4)


@cases(
    ("arguments", "answer"),
    [
        (
            ["hdd.trc", "--to", "flash.trc", "--temp-events", "nope"],
            "--temp-events 'nope' matches no event",
        ),
        (["ash.csv", "--to", "flash.trc", "--temp-events", "nope"], "no sample waits for 'nope'"),
        (["hdd.trc", "--to", "absent.trc"], "absent.trc: there is no such file"),
        (["hdd.trc", "--to", "ash.csv"], "--to ash.csv: a baseline of traces or ASH"),
        (["hdd.trc", "--to", "latency:soon"], "'soon' is not a duration"),
        (["hdd.trc", "--to", ""], "names nothing"),
        (["hdd.trc", "--to", "factor:0"], "--to factor:0: a factor is a number above 0"),
        (["hdd.trc", "--to", "flash.trc", "--elapsed", "0"], "--elapsed is 0"),
        (["hdd.trc", "--to", "flash.trc", "--elapsed", "long"], "'long' is not a duration"),
        (
            ["ash.csv", "hdd.trc", "--to", "flash.trc", "--elapsed", "12s"],
            "an elapsed time of 12 s is less than the 12 min 53 s that were recorded",
        ),
    ],
)
def test_bad_input(example, arguments, answer):
    assert answer in only_line(spillcast("forecast", *arguments, cwd=example), 2)


SORTED = """\
EXEC #1:c=7000,e=7226,p=0,cr=0,cu=0,mis=1,r=0,dep=0,og=1,plh=3604305554,tim=1344867866449493
WAIT #1: nam='db file sequential read' ela= 59 file#=4 block#=9 blocks=1 obj#=7 tim=1344867866450
FETCH #1:c=0,e=116,p=0,cr=0,cu=0,mis=0,r=48,dep=0,og=1,plh=3604305554,tim=1344867867730523
STAT #1 id=1 cnt=9 pid=0 pos=1 obj=0 op='SORT ORDER BY (cr=9 pr=27 pw=18 time=1206229 us)'
STAT #1 id=2 cnt=9 pid=1 pos=1 obj=7 op='TABLE ACCESS FULL T (cr=9 pr=9 pw=0 time=280407 us)'
"""


def test_row_sources_that_spilled_without_waits_mark_a_partial_trace(tmp_path):
    (path := tmp_path / "a.trc").write_text(SORTED)
    command = ["forecast", str(path), "--to", "latency:1ms"]
    assert "SORT ORDER BY" in only_line(spillcast(*command), 2)
    path.write_text(SORTED.replace("pr=27 pw=18", "pr=9 pw=0"))
    assert "SORT ORDER BY" not in only_line(spillcast(*command), 2)
    # Up to release 9.2 the events of temp files have other names.
    old = "WAIT #1: nam='direct path write' ela= 2000 p1=201 p2=9 p3=18\nSTAT"
    path.write_text(SORTED.replace("STAT", old, 1).replace(" pr=", " r=").replace(" pw=", " w="))
    assert "SORT ORDER BY" not in only_line(spillcast(*command), 2)
    assert spillcast(*command, "--temp-events", "direct path*").returncode == 0


AREAS = """\
SQL_ID,OPERATION_ID,OPERATION_TYPE,MAX_MEM_USED,NUMBER_PASSES,TEMPSEG_SIZE
abcdefghijk12,3,HASH-JOIN,104857600,1,1073741824
"""


def test_work_areas_of_another_statement_do_not_mark_a_partial_trace(tmp_path):
    trace, areas = tmp_path / "a.trc", tmp_path / "areas.csv"
    trace.write_text(SORTED.replace("pr=27 pw=18", "pr=9 pw=0"))
    areas.write_text(AREAS)
    answer = spillcast("forecast", trace, areas, "--to", "latency:1ms")
    assert "HASH JOIN" not in only_line(answer, 2)
    assert "matches no event" in answer.stderr


def test_a_trace_without_times_needs_ash(tmp_path):
    """Up to 9i waits have no tim, and possibly no other line of the file has one."""
    path = tmp_path / "old.trc"
    header = HEADER.replace(" tim=1000000", "")
    path.write_text(header + f"WAIT #7: nam='{READ}' ela= 9000 p1=201 p2=128 p3=31\n")
    with pytest.raises(OptionInvalid):
        forecast_events(
            EventTarget("f", factor=2),
            OracleEvidence(traces=read_traces([path])),
            Question(temp_events=TEMP),
        )


def storage_of(path, *, random_ns=None, **mean_ns):
    """A storage with these latencies for operations of 31 blocks; random ones may take longer."""
    made = storage({(op, 31 * 8192): ns for op, ns in mean_ns.items()})
    groups = [replace(group, pattern="sequential") for group in made.groups]
    if random_ns:
        of = storage({(op, 31 * 8192): random_ns for op in mean_ns})
        groups += [replace(group, pattern="random") for group in of.groups]
    replace(made, groups=groups).save(path)
    return path


def test_a_measured_storage_is_a_target(tmp_path):
    source = write_trace(
        tmp_path / "here.trc",
        [(READ, 9_000, blocks(31))] * 40 + [(WRITE, 4_000, blocks(31))] * 10 + [REST],
    )
    target = storage_of(tmp_path / "there.json", read=1_000_000, write=500_000)
    answer = estimate(source, target)
    assert answer.forecast_s == pytest.approx(0.01 + 40 * 1e-3 + 10 * 0.5e-3)
    # Without figures for writes, they get the gain of reads.
    only_reads = estimate(source, storage_of(tmp_path / "reads.json", read=1_000_000))
    assert only_reads.forecast_s == pytest.approx(0.01 + (40 * 9e-3 + 10 * 4e-3) / 9)
    assert "gain-borrowed" in warned(only_reads)


def test_sequential_operations_take_sequential_latencies(tmp_path):
    """30 of the 40 reads start where the previous one ended, or are the first of the file."""
    places = [128 + 31 * n for n in range(20)] + [100_000 + 500 * n for n in range(10)]
    places += [places[-1] + 31 * n for n in range(1, 11)]
    reads = [f"file number=201 first dba={place} block cnt=31" for place in places]
    source = write_trace(tmp_path / "here.trc", [*((READ, 9_000, read) for read in reads), REST])
    target = storage_of(tmp_path / "there.json", read=1_000_000, random_ns=5_000_000)
    assert estimate(source, target).forecast_s == pytest.approx(0.01 + 30 * 1e-3 + 10 * 5e-3)


def test_a_single_statement_of_a_trace_is_selected(tmp_path):
    header = HEADER + HEADER.split("=====================")[1].replace("#7", "#8").replace(
        "4q7zf0d2m8kcx", "other"
    ).lstrip("\n")
    path = write_trace(
        tmp_path / "two.trc", [(READ, 9_000, blocks(31))] * 4 + [REST], header=header
    )
    other = f"WAIT #8: nam='{READ}' ela= 500000 {blocks(31)} obj#=5 tim=9000000\n"
    fetch = "FETCH #7:c=2000,e=9000,p=0,cr=0,cu=0,mis=0,r=1,dep=0,og=1,plh=1,tim=9000100\n"
    path.write_text(path.read_text() + other + fetch)
    read = read_traces([path], sql_id="4q7zf0d2m8kcx")
    # Four reads and the CPU time of the fetch; waiting for the client is idle.
    assert read.sessions_s == pytest.approx(4 * 9e-3 + 2e-3)
    assert read.events[READ].count == 4
    with pytest.raises(SelectionEmpty):
        read_traces([path], sql_id="nobody")


def test_stated_limits_are_a_target(tmp_path):
    """Reads of 10 ms, 10 ms apart: 4 s of 8 s. Meanwhile a limit refills, of 50/s by half."""
    trace = write_trace(tmp_path / "a.trc", [(READ, 10_000, blocks(31)), REST] * 400)
    for limits, milliseconds in (
        ("latency=1ms", 1),
        ("latency=1ms,iops=200", 1),
        ("latency=1ms,iops=50", 10),
        ("latency=0", 0),
    ):
        answer = estimate(trace, f"limits:{limits}", without=["rest"])
        assert spelled(answer)[READ] == (4000.0, 400.0 * milliseconds), limits
