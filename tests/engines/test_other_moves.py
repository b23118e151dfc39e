"""Printed moves of Oracle, Exadata, DuckDB and tmpfs: parsed, or run where that is possible."""

import json
import os
import re
import subprocess

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from cases import cases
from harness import completed, only_line, spillcast

EXADATA = ("oracle", "--to", "+FLASH_DG", "--user", "etl", "--exadata-flash")


def printed(*arguments):
    result = completed("move", *arguments)
    return result.stdout


def document(*arguments):
    return json.loads(printed(*arguments, "--json"))


def statements(steps):
    return [step["sql"] for step in steps if "sql" in step]


@cases("user", [(), ("--user", "etl")])
@cases("to", ["/u02/temp", "+FLASH"])
@pytest.mark.filterwarnings("ignore")
def test_statements_of_oracle_parse(to, user):
    answer = document("oracle", "--to", to, *user, "--size", "200g")
    for text in statements(answer["steps"] + answer["revert"]):
        assert text.endswith(";")
        (tree,) = filter(None, sqlglot.parse(text, read="oracle"))
        assert isinstance(tree, exp.Select | exp.Create | exp.Alter | exp.Drop | exp.Command)
    create = next(text for text in statements(answer["steps"]) if text.startswith("CREATE"))
    file = "+FLASH" if to[0] == "+" else "/u02/temp/temp_spillcast.dbf"
    assert f"TEMPFILE '{file}' SIZE 200G" in create
    assert not any(step["done"] for step in answer["steps"])


@cases(
    ("user", "view", "row", "back"),
    [
        (
            ("--user", "etl"),
            "dba_users (username text, temporary_tablespace text)",
            "('ETL', 'TEMP_OLD'), ('OTHER', 'TEMP')",
            "alter user ETL temporary tablespace TEMP_OLD;",
        ),
        (
            (),
            "database_properties (property_name text, property_value text)",
            "('DEFAULT_TEMP_TABLESPACE', 'TEMP_OLD'), ('OTHER', 'X')",
            "alter database default temporary tablespace TEMP_OLD;",
        ),
    ],
)
def test_the_way_back_in_oracle_is_queried_from_the_database(user, view, row, back):
    query = statements(document("oracle", "--to", "+FLASH", *user)["steps"])[0]
    with duckdb.connect() as connection:
        connection.execute(f"create table {view}")
        connection.execute(f"insert into {view.split()[0]} values {row}")
        translated = sqlglot.transpile(query, read="oracle", write="duckdb")[0]
        assert connection.execute(translated).fetchall() == [(back,)]


def test_exadata_shows_the_space_that_it_costs():
    text = re.sub(r"\n# ", " ", printed(*EXADATA, "--cells", "3", "--cell-flash", "5.8T"))
    # By hand: 3 x (5.8 - 2) = 11.4 of 17.4 TiB are used, as every block is stored twice.
    assert "3 cells give 11.4 TiB of their 17.4 TiB, which hold 5.70 TiB of temp" in text
    assert "at least half of the flash that is taken is lost to redundancy" in text
    assert "at least half" in re.sub(r"\n# ", " ", printed(*EXADATA))


def test_exadata_steps_and_their_reverse_are_in_order():
    answer = document(*EXADATA, "--cell-cache", "1T")

    def order(steps, *words):
        text = "\n".join(step.get("sql") or step["command"] for step in steps)
        places = [text.index(word) for word in words]
        assert places == sorted(places)

    order(
        answer["steps"], "flashcache all flush", "flushstatus", "drop flashcache",
        "create flashcache all size=1024g", "create griddisk all flashdisk prefix=flashd",
        "CREATE DISKGROUP FLASH_DG NORMAL REDUNDANCY", "CREATE BIGFILE TEMPORARY TABLESPACE",
        "ALTER USER ETL TEMPORARY TABLESPACE TEMP_SPILLCAST",
    )  # fmt: skip
    order(
        answer["revert"], "ALTER USER ETL TEMPORARY TABLESPACE TEMP;", "DROP TABLESPACE",
        "DROP DISKGROUP FLASH_DG;", "drop griddisk", "drop flashcache", "create flashcache all",
    )  # fmt: skip


def test_a_cache_below_a_gib_keeps_its_size():
    assert "create flashcache all size=512m" in printed(*EXADATA, "--cell-cache", "512M")


def test_commands_of_exadata_are_valid_shell():
    script = printed(*EXADATA)
    checked = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True)
    assert (checked.returncode, checked.stderr) == (0, "")


@cases(
    ("arguments", "words"),
    [
        (("oracle", "--to", "temp"), "neither an absolute path nor a disk group"),
        (("oracle", "--to", "+FLASH; drop"), "is not an Oracle name"),
        (("oracle", "--to", "/u02", "--user", "x' or"), "is not an Oracle name"),
        (("oracle", "--to", "/u02", "--size", "much"), "is not an Oracle size"),
        (("oracle", "--to", "/u02", "--cells", "3", "--cell-flash", "6T"), "--exadata-flash"),
        (("oracle", "--to", "/u02", "--exadata-flash"), "make a disk group"),
        ((*EXADATA, "--cells", "3"), "go together"),
        ((*EXADATA, "--cells", "1", "--cell-flash", "6T"), "two cells"),
        ((*EXADATA, "--cells", "3", "--cell-flash", "2T"), "leaves nothing"),
        ((*EXADATA, "--cells", "3", "--cell-flash", "3T", "--size", "2T"), "does not fit"),
        ((*EXADATA, "--cell-cache", "0"), "cannot be created"),
        (("duckdb", "--to", "/x", "--size", "much"), "is not a size"),
        # Less than the unit of the setting: a limit of 0 would make every spill fail.
        (("duckdb", "--to", "/x", "--size", "500K"), "is less than"),
        (("tmpfs", "--to", "temp", "--size", "1G"), "is not an absolute path"),
        (("tmpfs", "--to", "/mnt/temp", "--size", "1K"), "is less than"),
        (("tmpfs", "--to", "/x", "--size", "1G", "--owner", "no-such-user"), "no such user"),
    ],
)
def test_bad_input(arguments, words):
    assert words in only_line(spillcast("move", *arguments), 2)


def test_only_folders_that_systemd_protects_are_named():
    def names_systemd(to):
        return any("systemd" in text for text in document("mysql", "--to", to)["warnings"])

    assert names_systemd("/home/dba/temp")
    assert not names_systemd("/home2/temp")


def test_a_quote_in_a_path_is_escaped():
    answer = document("oracle", "--to", "/u02/it's")
    assert "'/u02/it''s/temp_spillcast.dbf'" in statements(answer["steps"])[1]


def test_duckdb_spills_into_the_given_directory(tmp_path):
    to = tmp_path / "it's fast"
    answer = document("duckdb", "--to", to, "--size", "3G")
    *settings, files = statements(answer["steps"])
    with duckdb.connect(str(tmp_path / "x.db")) as connection:
        before = connection.execute(
            "select current_setting('temp_directory'), current_setting('max_temp_directory_size')"
        ).fetchone()
        for statement in settings:
            connection.execute(statement)
        for statement in statements(answer["revert"]):
            connection.execute(statement)
        back = connection.execute("select current_setting('temp_directory')").fetchone()
        assert back == before[:1]
        for statement in settings:
            connection.execute(statement)
        limit = connection.execute("select current_setting('max_temp_directory_size')").fetchone()
        assert limit == ("3.0 GiB",)
        connection.execute("set memory_limit = '60MB'; set threads = 1")
        query = "select md5(i::varchar) as m from range(3000000) t(i) order by m"
        reader = connection.execute(query)
        reader.fetchone()
        result = connection.cursor().execute(files).fetchall()
        assert result
        assert all(path.startswith(str(to)) for path, _ in result)


def test_the_advice_for_duckdb_in_python_works(tmp_path):
    (note,) = document("duckdb", "--to", tmp_path / "fast", "--size", "3G")["warnings"]
    config = re.search(r"config=(\{.*\})", note)[1]
    with duckdb.connect(str(tmp_path / "x.db"), config=eval(config)) as connection:
        answer = connection.execute("select current_setting('temp_directory')").fetchone()
        assert answer == (str(tmp_path / "fast"),)


def test_a_size_above_available_memory_is_refused():
    message = only_line(spillcast("move", "tmpfs", "--to", "/mnt/temp", "--size", "900T"), 3)
    assert "do not fit" in message


def test_tmpfs_is_mounted_and_unmounted(tmp_path):
    own_mounts = ("unshare", "--mount")
    if os.geteuid() or subprocess.run([*own_mounts, "true"], capture_output=True).returncode:
        pytest.skip("mounts are refused here")
    to = tmp_path / "in memory"
    answer = document("tmpfs", "--to", to, "--size", "64M", "--owner", "nobody")
    fstab = tmp_path / "fstab"
    fstab.write_text("# mine\n")
    target, back = (
        "\n".join(step["command"].replace("/etc/fstab", str(fstab)) for step in answer[key])
        for key in ("steps", "revert")
    )
    script = f"set -e\n{target}\nstat -f -c '%T %S %b' '{to}'; stat -c '%U %a' '{to}'\n"
    script += f"cat {fstab}; findmnt --verify --tab-file {fstab} >&2\n{back}\ncat {fstab}; ls {to}*"
    ran = subprocess.run(
        [*own_mounts, "sh", "-c", script], capture_output=True, text=True, cwd=tmp_path
    )
    lines = ran.stdout.splitlines()
    kind, block, blocks = lines[2].split()
    assert (kind, int(block) * int(blocks)) == ("tmpfs", 64 << 20)
    assert lines[3] == "nobody 700"
    assert lines[4:] == ["# mine", lines[5], "# mine"]
    assert lines[5].startswith(f"tmpfs {str(to).replace(' ', chr(92) + '040')} tmpfs size=64M,")
    assert not to.exists()
