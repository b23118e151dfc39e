"""Which executions and statements a forecast from Oracle's evidence covers."""

import json

import pytest

from ash_files import EXEC_ID, execution, write_ash
from cases import cases
from evidence import storage, warned
from harness import spillcast
from oracle_files import HEADER, READ, WRITE, blocks, write_trace
from spillcast.errors import OptionConflict, TargetUnsuited
from spillcast.forecast.ask import ask
from spillcast.forecast.question import Question

NEXT = EXEC_ID + 1
OTHER = HEADER.replace("4q7zf0d2m8kcx", "aaaaaaaaaaaaa")
REST = ("SQL*Net message from client", 10_000, "driver id=1 #bytes=1 p3=0")
SLOW = [(READ, 9_000, blocks(31)), REST] * 100
FAST = [(READ, 150, blocks(31)), REST] * 100


@pytest.fixture
def two(tmp_path):
    """Two executions: 773 s and, an hour later, 163 s."""
    second = execution(163, after_s=3600, sql_exec_id=NEXT)
    return write_ash(tmp_path / "ash.csv", execution(773), second)


def forecast(baseline, to, **options):
    [(answer, _)] = ask([str(baseline)], [str(to)], Question(**options))
    return answer


def test_two_executions_without_a_choice_are_refused(two):
    result = spillcast("forecast", two, "--to", "factor:2")
    assert (result.returncode, result.stdout) == (2, "")
    assert "the samples are of 2 executions, the longest first" in result.stderr
    *_, first, second, hint = result.stderr.splitlines()
    assert [line.split()[-3] for line in (first, second)] == [str(EXEC_ID), str(NEXT)]
    assert "--exec-id" in hint


@cases(
    ("options", "whole_s"),
    [
        ({"exec_id": EXEC_ID}, 773),
        ({"exec_id": NEXT}, 163),
        ({"since": "21:00"}, 163),
        ({"until": "21:00"}, 773),
    ],
)
def test_the_chosen_execution_is_forecast(two, options, whole_s):
    answer = forecast(two, "factor:2", **options)
    assert answer.baseline_s == whole_s
    # Every second sample is a read: 387 of 773, 82 of 163.
    assert answer.forecast_s == pytest.approx(whole_s - (whole_s + 1) // 2 / 2)


def test_forecast_and_profile_take_the_options_of_a_choice(two):
    chosen = ("--exec-id", NEXT, "--since", "21:26:02", "--until", "21:27:01")
    result = spillcast("forecast", two, "--to", "factor:2", *chosen, "--json")
    assert json.loads(result.stdout)["baseline_s"] == 60
    result = spillcast("profile", two, *chosen, "--json")
    assert json.loads(result.stdout)["elapsed_s"] == 60


def test_a_profile_lists_the_executions(two):
    document = json.loads(spillcast("profile", two, "--json").stdout)
    assert [(item["exec_id"], item["elapsed_s"]) for item in document["executions"]] == [
        (EXEC_ID, 773),
        (NEXT, 163),
    ]
    shown = spillcast("profile", two).stdout
    assert "2 executions; a forecast is for one" in shown
    assert str(NEXT) in shown
    item = spillcast("profile", two, "--exec-id", NEXT).stdout
    assert "executions" not in item


def test_a_gap_in_an_export_without_execution_columns_is_a_warning(tmp_path):
    columns = ("SAMPLE_TIME", "SESSION_ID", "SESSION_STATE", "EVENT", "TIME_WAITED")
    second = execution(163, after_s=3600)
    path = write_ash(tmp_path / "ash.csv", execution(773), second, columns=columns)
    answer = forecast(path, "factor:2")
    assert answer.baseline_s == 3763
    assert any(w.code == "ash" and "perhaps two executions" in w.message for w in answer.warnings)


@cases("options", [{"exec_id": 1}, {"since": "20:00"}, {"until": "20:00"}])
def test_options_of_executions_are_refused_for_traces(tmp_path, options):
    trace = write_trace(tmp_path / "a.trc", SLOW)
    with pytest.raises(OptionConflict):
        forecast(trace, "factor:2", **options)


@pytest.fixture
def folder(tmp_path):
    """A directory with a trace of the statement, one of another, and one without waits."""
    below = tmp_path / "there" / "trace"
    below.mkdir(parents=True)
    write_trace(below / "other.trc", [(READ, 9_000_000, blocks(31)), REST] * 50, header=OTHER)
    (below / "alert.trc").write_text("nothing of the kind\n")
    return below.parent


def test_unrelated_traces_below_a_directory_are_refused_as_a_target(folder, tmp_path):
    """A forecast from them would be 25 h 53 min, 90 % interval 4.41 s to 75 h 49 min."""
    source = write_trace(tmp_path / "here.trc", SLOW)
    with pytest.raises(TargetUnsuited, match="of 2 traces below it none has waits") as caught:
        forecast(source, folder)
    assert f"spillcast probe {folder} --grid" in caught.value.hint
    result = spillcast("forecast", source, "--to", folder)
    assert (result.returncode, result.stdout) == (2, "")


def test_only_traces_of_the_same_statement_are_used(folder, tmp_path):
    source = write_trace(tmp_path / "here.trc", SLOW)
    target = write_trace(folder / "trace" / "fast.trc", FAST)
    result, by_name = forecast(source, folder), forecast(source, target)
    assert result.forecast_s == by_name.forecast_s
    assert result.target == f"{folder} (fast.trc)"
    # ASH names the statement, too.
    ash = write_ash(tmp_path / "ash.csv", execution(100))
    assert forecast(ash, folder).forecast_s == forecast(ash, target).forecast_s


def test_a_directory_needs_a_baseline_that_names_its_statement(folder, tmp_path):
    nameless = HEADER.split("=====================")[0]
    source = write_trace(tmp_path / "here.trc", SLOW, header=nameless)
    with pytest.raises(TargetUnsuited):
        forecast(source, folder)


@cases("with_ash", [False, True])
def test_an_interval_of_more_than_a_factor_of_ten_is_refused(with_ash, tmp_path):
    """Two waits of 5 s on the target: a mean of two says nothing about the baseline's many."""
    source = write_trace(tmp_path / "here.trc", [(READ, 9_000, blocks(31))] * 200 + [REST])
    target = write_trace(tmp_path / "there.trc", [(READ, 5_000_000, blocks(31))] * 2)
    evidence = [str(source)]
    if with_ash:
        evidence.append(str(write_ash(tmp_path / "ash.csv", execution(100))))
    [(answer, _)] = ask(evidence, [str(target)], Question())
    assert answer.forecast_s is None
    assert "shows only that it takes between" in answer.refused
    result = spillcast("forecast", *evidence, "--to", target)
    assert result.returncode == 3


def test_the_block_size_decides_the_time_by_stated_figures(tmp_path):
    """40 reads of 32 blocks: 256 KiB of 8 KiB blocks, 512 KiB of blocks twice as large."""
    source = write_trace(tmp_path / "here.trc", [(READ, 9_000, blocks(32))] * 40 + [REST])
    latencies = {("read", 256 << 10): 1_000_000, ("read", 512 << 10): 2_500_000}
    storage(latencies).save(target := tmp_path / "there.json")
    assumed, requested = forecast(source, target), forecast(source, target, block="16K")
    assert assumed.forecast_s == pytest.approx(0.01 + 40 * 1e-3)
    assert requested.forecast_s == pytest.approx(0.01 + 40 * 2.5e-3)
    messages = warned(assumed)
    assert "assumed to be 8 KiB" in messages["block-assumed"]
    messages = warned(requested)
    assert "block-assumed" not in messages
    assert "16 KiB, by --block" in messages["not-replayed"]
    spooled = tmp_path / "spillcast_parameters.csv"
    spooled.write_text('"NAME","VALUE"\n"db_block_size","16384"\n')
    [(result, _)] = ask([str(source), str(spooled)], [str(target)], Question())
    assert result.forecast_s == requested.forecast_s
    source.write_text("db_block_size = 16384\n" + source.read_text())
    assert forecast(source, target).forecast_s == requested.forecast_s


def test_a_profile_converts_blocks_to_bytes(tmp_path):
    source = write_trace(tmp_path / "here.trc", [(READ, 9_000, blocks(31)), (WRITE, 5, blocks(15))])
    result = spillcast("profile", source, "--by", "op,size", "--block", "16K")
    assert "496 KiB" in result.stdout
    assert "240 KiB" in result.stdout
    plain = spillcast("profile", source, "--by", "op,size", "--json")
    assert sorted(row["size"] for row in json.loads(plain.stdout)["rows"]) == [15, 31]


def test_a_wait_of_negative_length_is_counted_separately(tmp_path):
    path = write_trace(tmp_path / "a.trc", SLOW)
    line = f"WAIT #7: nam='{READ}' ela= -5000 {blocks(31)} obj#=5 tim=99000000\n"
    path.write_text(path.read_text() + line)
    document = json.loads(spillcast("profile", path, "--json").stdout)
    [row] = [row for row in document["rows"] if row["event"] == READ]
    assert (row["count"], row["mean_us"], row["min_us"]) == (100, 9_000, 9_000)
    assert [damage["what"] for damage in document["damaged"]] == [
        "ela= below zero: the wait is counted apart"
    ]
    assert any("counted apart, in no row" in text for text in document["warnings"])
    messages = warned(forecast(path, "factor:2"))
    assert messages["damaged"].startswith("1 damaged line skipped, 1 because of an impossible wait")


def test_shares_of_a_trace_that_begins_with_a_wait_add_up(tmp_path):
    """A wait of 10 s followed by a tenth of a second: 10.1 s of elapsed time."""
    path = tmp_path / "a.trc"
    waits = [(10_000_000, 20_000_000), (60_000, 20_100_000)]
    path.write_text("*** SESSION ID:(35.65385) 2024-09-03T20:26:02.412000+02:00\n" + "".join(
        f"WAIT #7: nam='{READ}' ela= {ela} {blocks(31)} obj#=5 tim={tim}\n" for ela, tim in waits
    ))  # fmt: skip
    document = json.loads(spillcast("profile", path, "--json").stdout)
    assert document["elapsed_s"] == pytest.approx(10.1)
    assert sum(row["share"] for row in document["rows"]) == pytest.approx(1)
    assert max(row["share"] for row in document["rows"]) == pytest.approx(10.06 / 10.1)
    assert forecast(path, "factor:2").baseline_s == pytest.approx(10.1)
