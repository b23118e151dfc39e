"""The page of a verification, generated reproducibly from the file of its cases alone."""

import json
import re
import xml.etree.ElementTree as xml
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

import forked
from cases import cases
from harness import completed, generator, only_line, spillcast
from made_up import case, otherwise, runs
from spillcast.forecast.interval import Uncertainty
from spillcast.lab.case import COLUMNS, Truth, read_truth, write_truth
from spillcast_lab.outcome import engine_name

ROOT = Path(__file__).parents[2]
SCHEMA_PAGE = ROOT / "docs" / "schema.md"
ABOUT = {
    "started_at": "2026-11-21T17:03:13+00:00",
    "machine": {"cpus": 2, "memory_bytes": 8 << 30, "kernel": "6.1"},
    "budget_s": 2400.0,
    "repeat": 3,
    "seed": 4711,
    "storages": [{"name": name, "what": f"so is {name}"} for name in ("1 ms", "tmpfs", "disk")],
    "drawn": [
        {"engine": "duckdb", "workload": "sort", "threads": 1, "storages": ["1 ms", "tmpfs"]},
        {"engine": "postgres", "workload": "window", "threads": 4, "storages": ["disk", "1 ms"]},
    ],
    "left_out": [
        {"engine": "postgres", "workload": "window", "threads": 4, "storages": ["disk", "1 ms"],
         "why": "no time was left"},
        {"engine": "postgres", "workload": "sort", "threads": 2, "storages": [],
         "why": "the budget has no time for it"},
        {"engine": "postgres", "workload": "window", "threads": 4, "storages": [],
         "why": "the budget has no time for it"},
    ],
}  # fmt: skip
#: Columns that files of earlier versions lack.
LATER = [
    "ceiling_low_s", "ceiling_high_s", "uncertainty", "from_means", "to_means", "variants",
    "overhead_s",
]  # fmt: skip
LOST = "9 reports were lost: record again"


def made_up_truth():
    """Cases of which one is the worst, one was refused, and two are of TPC-H."""
    cases = [
        case(
            10 + n % 7 / 10,
            workload=workload,
            threads=threads,
            seed_s=14.0,
            on_target=runs(10, 9, 11),
        )
        for n, (workload, threads) in enumerate(
            (workload, threads)
            for workload in ("sort", "window", "hash join")
            for threads in (1, 2, 4) * 3
        )
    ]
    cases.append(case(3.0, 12.0, workload="merge join", threads=4, engine="PostgreSQL 18.6"))
    cases.append(case(10.5, evidence="slices", workload="sort"))
    for source, means, forecast_s in (("1 ms", "fuse", 10.4), ("throttled", "kernel", 13.0)):
        cases.append(
            case(
                forecast_s,
                workload="tpch Q13",
                engine="PostgreSQL 15.14",
                source=source,
                seed_s=15.0,
                means=(means, "none"),
                ceiling_interval_s=(3.0, 5.0),
                variants={"without machine": otherwise(16.0), "rehearsed": otherwise(10.1)},
                on_target=runs(10.0, 9.0, 11.0),
            )
        )
    cases.append(case(refused=LOST, workload="group by"))
    return Truth(cases, ABOUT)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "cases.parquet"
    write_truth(path, made_up_truth())
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The page with its charts, and the file of its cases."""
    folder = tmp_path_factory.mktemp("accuracy")
    write_truth(folder / "cases.parquet", made_up_truth())
    write_page(folder / "cases.parquet", folder)
    return folder


def write_page(file, folder):
    completed("verify", "--from", file, "--page", folder / "accuracy.md")


@pytest.fixture
def page(folder):
    return (folder / "accuracy.md").read_text()


def test_written_cases_are_read_back(file):
    assert read_truth(file) == made_up_truth()


def test_a_file_may_lack_columns_that_older_ones_lack(file):
    """The value is null then, and all others are unchanged."""
    pq.write_table(pq.read_table(file).drop_columns(LATER), file)
    older = [
        replace(
            item,
            forecast=replace(item.forecast, ceiling_interval_s=None),
            source_means=None,
            target_means=None,
            variants={},
        )
        for item in made_up_truth().cases
    ]
    assert read_truth(file) == Truth(older, ABOUT)


def test_a_page_of_an_older_file_names_what_it_lacks(file):
    pq.write_table(pq.read_table(file).drop_columns(LATER), file)
    page = file.parent / "accuracy.md"
    assert spillcast("verify", "--from", file, "--page", page).returncode == 0
    assert "contains no forecasts without an estimate" in page.read_text()
    assert "does not contain what made storage slow" in page.read_text()


def test_the_uncertainty_behind_an_interval_is_kept(tmp_path):
    answer = Uncertainty(10.0, "recording", "slow to fast", 0.4, 0.1, 0.2)
    truth = Truth([case(uncertainty=answer), case(refused="too wide", uncertainty=answer)], ABOUT)
    write_truth(tmp_path / "cases.parquet", truth)
    assert read_truth(tmp_path / "cases.parquet") == truth


def test_any_reader_of_parquet_can_read_the_cases(file):
    """The error that SQL computes is that of the report."""
    rows = duckdb.sql(
        f"select workload, forecast_s / measured_to_s - 1, runs_to_s, warnings[1].code, refused "
        f"from '{file}'"
    ).fetchall()
    for row, item in zip(rows, made_up_truth().cases, strict=True):
        assert row == (
            item.workload, item.error, item.on_target.elapsed_s, "threads", item.forecast.refused
        )  # fmt: skip


def test_every_column_is_described():
    """Its type and whether it may be null are given."""
    section = SCHEMA_PAGE.read_text().partition("\n## Verification")[2].partition("\n## ")[0]
    described = re.findall(r"^\| `(\w+)` \| ([\w ]+) \| (yes|no) \|", section, re.MULTILINE)
    types = {"double": "float64", "list of double": "list of float64"}
    for column, (name, words, null) in zip(COLUMNS, described, strict=True):
        assert (column.name, column.nullable) == (name, null == "yes")
        assert str(column.type).startswith(types.get(words, words))


def test_an_existing_file_is_complete_until_it_is_replaced(file):
    write_truth(file, Truth([case()], ABOUT))
    assert pq.read_table(file).num_rows == 1
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_the_page_has_every_part(page):
    for heading in (
        "Aims", "By direction", "By cause of slowness", "Effect of each estimate",
        "Cost of recording", "By workload", "By evidence", "Calibration",
        "The ten largest errors", "Refused", "Which cases were verified",
    ):  # fmt: skip
        assert re.search(rf"^##+ {heading}", page, re.MULTILINE), heading
    assert "drawn by seed 4711" in page.replace("\n", " ")
    assert LOST in page
    # Of four queries one was verified, in both directions between 3 storages.
    assert "2 of 24 possible cases" in page.replace("\n", " ")
    assert "Of 4 queries, each with its threads and cache, 2 were skipped" in page.replace(
        "\n", " "
    )
    assert "| postgres | window | 4 | disk, 1 ms | no time was left |" in page
    assert "so is disk" in page
    worst = page.partition("## The ten largest errors")[2]
    assert "PostgreSQL merge join x4" in worst.splitlines()[4]
    assert "-75.0 %" in worst.splitlines()[4]
    assert not re.search(r"\bNone\b|\bnan\b", page)


def test_the_headline_is_from_slow_to_fast_on_queries_of_tpch(page):
    """Errors of 4 and 30 %: median 17 %, 90th percentile 27.4 %; the seed's error is 50 %.

    Runs of 10, 9 and 11 s are 0, 1.5 of 10.5 and 1.5 of 9.5 from the median of the others.
    """
    first = page.split("\n\n")[1].replace("\n", " ")
    assert first.startswith(
        "From slow storage to fast, on queries of TPC-H and TPC-DS: PostgreSQL median"
    )
    assert "median error 17.0 %, 90th percentile 27.4 % (2 forecasts; 50 % of" in first
    assert "median error 50.0 %" in first
    assert "differs by 14.3 %" in first


def test_the_page_shows_the_effect_of_each_estimate(page):
    section = page.partition("## Effect of each estimate")[2].partition("\n## ")[0]
    rows = [
        line.strip("| ").split(" | ") for line in section.splitlines() if "slow to fast, Po" in line
    ]
    medians = {row[1]: (row[2], row[3], row[4]) for row in rows}
    assert medians["without the calibrated cost of a wait on this machine"] == ("2", "3", "60.0 %")
    assert medians["rehearsed"] == ("2", "2", "1.0 %")
    assert medians["the same without that"] == ("", "2", "17.0 %")


def test_the_page_names_what_made_storage_slow(page):
    section = page.partition("## By cause of slowness")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ")[:3] for line in section.splitlines()]
    assert ["slow to fast, a FUSE file system", "1", "4.0 %"] in rows
    assert ["slow to fast, the kernel", "1", "30.0 %"] in rows


def test_the_figures_of_a_group_are_separate(page):
    row = next(line for line in page.splitlines() if line.startswith("| merge join |"))
    assert row.split(" | ")[1:7] == ["1", "75.0 %", "75.0 %", "-75.0 %", "1.00", "0 %"]
    assert "| group by | 0 of 1 | - | - | - | - | - | - |" in page


def test_the_table_of_the_readme_is_between_its_markers():
    generate = generator("accuracy")
    readme = (ROOT / "README.md").read_text()
    written = generate.with_table(readme, generate.readme_section(made_up_truth()))
    before, _, after = readme.partition("<!-- accuracy -->")
    assert written.startswith(before)
    assert written.endswith(after.partition("<!-- end of accuracy -->")[2])
    [row] = [line for line in written.splitlines() if line.startswith("| slow to fast, DuckDB |")]
    whole = [item for item in made_up_truth().cases if item.evidence.name == "recording"]
    count = sum(
        item.direction == "slow to fast" and engine_name(item) == "DuckDB" for item in whole
    )
    assert row.split(" | ")[1].split(" of ")[-1] == str(count)


def test_charts_are_image_files_beside_the_page(page, folder):
    charts = re.findall(r"!\[\w+\]\((accuracy/\w+\.svg)\)", page)
    assert len(charts) == 2
    for chart in charts:
        assert xml.parse(folder / chart).getroot().tag.endswith("svg")


def test_the_same_cases_make_the_same_page_and_charts(folder, tmp_path):
    write_page(folder / "cases.parquet", tmp_path)
    for path in (folder / "accuracy.md", *folder.rglob("*.svg")):
        assert (tmp_path / path.relative_to(folder)).read_bytes() == path.read_bytes()


def test_notes_of_authors_on_the_worst_cases_are_kept(folder, tmp_path):
    (tmp_path / "accuracy").mkdir()
    (tmp_path / "accuracy" / "worst.md").write_text("The merge join read twice.\n")
    write_page(folder / "cases.parquet", tmp_path)
    again = (tmp_path / "accuracy.md").read_text()
    assert "The merge join read twice." in again.partition("## The ten largest errors")[2]


def test_json_is_one_document(file):
    document = json.loads(spillcast("verify", "--from", file, "--json").stdout)
    assert document["schema"] == "spillcast.verify/1"
    assert len(document["cases"]) == len(made_up_truth().cases)
    assert document["left_out"] == ABOUT["left_out"]


def test_options_that_run_nothing_write_no_cases(file, tmp_path):
    done = spillcast("verify", "--from", file, "-o", tmp_path / "more.parquet")
    assert "-o does not go with --from" in only_line(done, 2)


def test_a_page_without_cases(tmp_path):
    write_truth(tmp_path / "none.parquet", Truth([], ABOUT))
    done = spillcast("verify", "--from", tmp_path / "none.parquet",
                     "--page", tmp_path / "page.md")  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert "## Which cases" in (tmp_path / "page.md").read_text()


@pytest.fixture(scope="module")
def refused(tmp_path_factory):
    """A folder of invalid files of cases, and a valid one."""
    folder = tmp_path_factory.mktemp("refused")
    (folder / "text.parquet").write_text("no")
    write_truth(folder / "whole.parquet", made_up_truth())
    whole = pq.read_table(folder / "whole.parquet")
    pq.write_table(whole.drop_columns(["direction"]), folder / "older.parquet")
    duckdb.sql("select 1 as x").write_parquet(str(folder / "other.parquet"))
    return folder


@cases(
    ("arguments", "words"),
    [
        (["--from", "missing.parquet"], "missing.parquet: no such file"),
        (["--from", "text.parquet"], "cut or damaged"),
        (["--from", "other.parquet"], "holds no cases"),
        (
            ["--from", "older.parquet"],
            "older.parquet: cut or damaged: there is no column direction",
        ),
        (["-o", "nowhere/cases.parquet"], "-o nowhere/cases.parquet: there is no directory"),
        (["--page", "nowhere/page.md"], "--page nowhere/page.md"),
        (["-o", "."], "-o . is a directory"),
        (
            ["--from", "whole.parquet", "--page", "page"],
            "--page page: name it with a suffix",
        ),
        (["--minutes", "0.1"], "--minutes 0.1: there is no time for one query"),
        (["--storage", "floppy"], "--storage floppy: no such storage"),
        (["--workload", "tea"], "--workload tea: no such query"),
    ],
)
def test_invalid_files_are_refused_in_one_line(arguments, words, refused, monkeypatch):
    # A refused command times no runs, so a fork suffices.
    monkeypatch.setattr(forked, "VERBS", (*forked.VERBS, "verify"))
    assert words in only_line(spillcast("verify", *arguments, cwd=refused), 2)
