"""A printed move is pasted into a shell: no name from the server executes anything there."""

import re
from itertools import product

import pytest

from cases import cases, nightly
from spillcast.engines.postgres import identifier, literal

#: Each would create a file ``planted`` if a layer of quoting failed.
EVIL = {
    "here-document": "SQL\ntouch {mark}\nSQL",
    "command of psql": "x\n\\! touch {mark}\n",
    "substitution": "$(touch {mark})`touch {mark}`",
    "quotes": "'; touch {mark}; '\"; touch {mark}; \"",
    "end of a constant": "\\'; \\! touch {mark} \\'",
    "SQL": "'; copy (select 1) to program 'touch {mark}'; --",
    "SQL in a name": "\"; copy (select 1) to program 'touch {mark}'; --",
    "carriage return": "x\rtouch {mark}\r",
    "line separators": "x\x0b\x0c\x85\u2028touch {mark}\u2029",
    "variables of psql": ":'HOME' :\"USER\" :HOME",
}
TEXTS = [*EVIL.values(), "", "plain", "back\\slash", "\x1b[31m", "\u202e", "ä€😀", "\x01\x7f"]


@cases(("text", "conforming"), product(TEXTS, ["on", "off"]))
def test_a_server_reads_the_quoted_names(running, text, conforming):
    with running.connect() as connection:
        connection.execute(f"set standard_conforming_strings = {conforming}".encode())
        name = text[:20] or "x"
        query = f"select {literal(text)} as {identifier(name)}"
        assert "\n" not in query
        cursor = connection.execute(query.encode())
        assert cursor.fetchone() == (text,)
        assert cursor.description[0].name == name


@pytest.mark.parametrize("subject", EVIL)
@pytest.mark.parametrize("conforming", ["off", *nightly("on")])
def test_no_name_from_the_server_is_executed(moving, psql, subject, conforming):
    mark = moving.room / "planted"
    name = EVIL[subject].format(mark="planted")
    quoted = identifier(name)
    moving.rows(f"create role {quoted} login")
    moving.rows(f"alter role {quoted} set temp_tablespaces = {literal(name)}")
    moving.rows(f"alter role {quoted} set standard_conforming_strings = {conforming}")
    moving.rows(f"alter role postgres set standard_conforming_strings = {conforming}")
    before = moving.state()
    try:
        script = moving.move("--for", f"role:{name}").stdout
        target, _, back = script.partition("# To go back:\n")
        assert all(line.startswith("#") for line in back.split("\n") if line)
        psql(target)
        assert moving.rows(
            "select 'temp_tablespaces=\"spillcast_temp\"' = any(setconfig) or "
            "'temp_tablespaces=spillcast_temp' = any(setconfig) from pg_db_role_setting "
            "join pg_roles on pg_roles.oid = setrole where rolname = %s",
            name,
        ) == [(True,)]
        psql(re.sub("^# ?", "", back, flags=re.MULTILINE))
        moving.is_as(before)
        # The same when spillcast applies the move.
        moving.move("--for", f"role:{name}", "--apply")
        moving.move("--revert")
        moving.is_as(before)
        assert not mark.exists()
    finally:
        moving.rows(f"drop role {quoted}")


def test_a_directory_that_cannot_be_quoted_is_refused(moving):
    moving.to = moving.room / "new\nline"
    try:
        assert "control characters" in moving.move("--for", "role:etl", status=2).stderr
    finally:
        moving.to = moving.room / "fast"


def test_a_directory_of_quotes_is_a_single_word(moving, psql):
    moving.to = moving.room / '$(touch planted) `touch planted` "; touch planted; \\'
    before = moving.state()
    try:
        script = moving.move("--for", "role:etl").stdout
        target, _, back = script.partition("# To go back:\n")
        psql(target)
        psql(re.sub("^# ?", "", back, flags=re.MULTILINE))
        moving.is_as(before)
    finally:
        moving.to = moving.room / "fast"
    assert not (moving.room / "planted").exists()
