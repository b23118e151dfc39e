"""A query sees the evidence and no other file, whoever has written it."""

import json

import pytest

from harness import spillcast
from spillcast.errors import InputError
from spillcast.gate import reading
from spillcast.profile.sql import run_sql


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "secret.csv"
    path.write_text("word\nhunter2\n")
    return path


@pytest.mark.parametrize(
    "query",
    [
        "from '{secret}'",
        "from read_text('{secret}')",
        "from glob('{folder}/*')",
        "copy (select 1) to '{folder}/out.csv'",
        "copy waits to '{folder}/out.csv'",
        "attach '{folder}/new.db'",
        "install httpfs",
        "set enable_external_access = true",
        "set allowed_directories = ['/']",
        "from read_csv('/dev/stdin')",
        "from query",
    ],
)
def test_no_other_file_is_opened(spilled, secret, query):
    before = sorted(secret.parent.iterdir())
    with pytest.raises(InputError) as refused:
        run_sql(query.format(secret=secret, folder=secret.parent), [str(spilled.path)])
    assert "hunter2" not in str(refused.value)
    assert sorted(secret.parent.iterdir()) == before


def test_the_evidence_is_there(spilled, example):
    assert run_sql("select count(*) from waits where temp", [str(spilled.path)])[1][0][0] > 0
    assert run_sql("select count(*) from waits", [str(example / "hdd.trc")])[1][0][0] > 0


def test_nothing_is_copied_out_of_traces(tmp_path, example):
    with pytest.raises(InputError, match="Permission Error"):
        run_sql(f"copy waits to '{tmp_path}/out.csv'", [str(example / "flash.trc")])
    assert not list(tmp_path.iterdir())


def test_an_interrupted_query_is_an_interruption():
    """And no damage of the file that is read, nor a traceback."""
    with pytest.raises(KeyboardInterrupt), reading("a.parquet"):
        raise RuntimeError("Query interrupted")


def test_what_is_no_number_is_null_in_json(example):
    asked = "select 'nan'::double, -'inf'::double, 1.5::double"
    said = spillcast("sql", asked, example / "flash.trc", "--json").stdout
    assert json.loads(said, parse_constant=pytest.fail)["rows"] == [[None, None, 1.5]]
