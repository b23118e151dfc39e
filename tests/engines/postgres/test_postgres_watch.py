"""A PostgreSQL query watched live: lines of JSON while it runs, and nothing left."""

import json

from harness import environment, spillcast
from postgres_rig import JOIN


def test_a_query_is_watched_to_its_end(newest, tmp_path):
    with newest.client() as client:
        client.run(JOIN)
        newest.until_running(client)
        asked = ("--backend", client.pid, "--to", "factor:10")
        result = spillcast(
            "watch", "--json", "--postgres", newest.dsn, *asked, cwd=tmp_path, env=environment()
        )
        assert client.result()
    assert result.returncode == 0, result.stderr
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["ended"] for line in lines] == [False] * (len(lines) - 1) + [True]
    last = lines[-1]
    assert {row["event"] for row in last["rows"]} >= {"pread64", "pwrite64"}
    assert {of["op"] for of in last["temp"]} == {"read", "write"}
    assert last["lost"] == 0
    assert list(tmp_path.iterdir()) == []
