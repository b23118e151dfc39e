"""The ranking of a ClickHouse server: sums against the server's own, permissions, and damage."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest

from cases import cases
from clickhouse_runs import OLD, log_in
from harness import completed, json_of, spillcast
from spillcast.engines.clickhouse.rank import rank_clickhouse
from spillcast.engines.ranking import RankRequest
from spillcast.errors import InputError, OptionConflict, ServerUnsuited
from spillcast.evidence.clickhouse import read_rows

TARGETS = ["latency:5ms", "factor:10"]


@pytest.fixture
def password(monkeypatch):
    monkeypatch.setenv("CLICKHOUSE_PASSWORD", "pw-of-monitor")


def test_sums_match_the_log(runs):
    ranking = rank_clickhouse(str(runs / "log.jsonl"), RankRequest(TARGETS))
    by_hash = {}
    for query in read_rows(runs / "log.jsonl"):
        by_hash.setdefault(query.normalized_hash, []).append(query)
    assert (ranking.statements_seen, len(ranking.statements)) == (len(by_hash), 4)
    for statement in ranking.statements:
        calls = by_hash[statement.queryid]
        total = sum(call.events["ExternalProcessingCompressedBytesTotal"] for call in calls)
        assert statement.calls == 2
        assert statement.elapsed_s == pytest.approx(sum(call.elapsed_s for call in calls))
        # Each is written once and read once.
        assert statement.temp_bytes == pytest.approx(2 * total, abs=4)
        assert set(statement.gains) == set(TARGETS), statement.refused
        peak = max(call.peak_memory_bytes for call in calls)
        assert statement.memory_between[0] == peak < statement.memory_between[1]
    weights = [statement.weight for statement in ranking.statements]
    assert weights == sorted(weights, reverse=True)


def test_a_server_ranks_as_its_export(runs, server, password):
    """Also over all replicas of a cluster. The time span is that of the log, not of its rows."""
    exported = rank_clickhouse(str(runs / "log.parquet"), RankRequest(TARGETS))
    for cluster in (None, "prod"):
        ranking = rank_clickhouse(server, RankRequest(TARGETS), since_s=86400, cluster=cluster)
        sums, wanted = (
            {s.queryid: (s.calls, s.elapsed_s, s.temp_bytes, s.memory_between) for s in statements}
            for statements in (ranking.statements, exported.statements)
        )
        assert sums == wanted
        assert ranking.statements_seen == exported.statements_seen
        assert ranking.elapsed_s == pytest.approx(exported.elapsed_s)


def test_the_verb_shows_no_password(runs, server, password):
    result = completed("clickhouse", server, "--to", "latency:5ms")
    assert "max_bytes_" in result.stdout
    given = server.replace("monitor@", "monitor:pw-of-monitor@")
    for source in (given, given.replace("pw-of", "wrong")):
        result = spillcast("clickhouse", source, "--json")
        assert "pw-of-monitor" not in result.stdout + result.stderr
    assert result.returncode == 2


@cases(
    "source",
    ["http://monitor@127.0.0.1:1", "http://h:port", "http://[::1", "ftp://h", "http://", "nothing"],
)
def test_an_unreachable_server_is_refused(source):
    with pytest.raises(InputError):
        rank_clickhouse(source, RankRequest(TARGETS))


@cases("content", [None, ""])
def test_a_folder_or_an_empty_file_is_refused_by_name_with_the_remedy(tmp_path, content):
    path = tmp_path / "export"
    path.mkdir() if content is None else path.write_text(content)
    with pytest.raises(InputError) as refusal:
        rank_clickhouse(str(path), RankRequest(TARGETS))
    assert str(refusal.value.where) == str(path)
    assert refusal.value.hint


class Latin1Server(BaseHTTPRequestHandler):
    """A server with one query, whose text is not UTF-8; ClickHouse writes its bytes unchanged."""

    def do_GET(self):
        [sql] = parse_qs(urlsplit(self.path).query)["query"]
        answer = json.dumps({**OLD, "statements": 1, "elapsed_s": 1, "query": "select 'caf#'"})
        if "system.columns" in sql:
            answer = "\n".join(json.dumps({"name": name}) for name in OLD)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(answer.replace("#", "\xe9").encode("latin-1"))

    def log_message(self, *_):
        pass


def test_a_text_in_another_encoding():
    with HTTPServer(("127.0.0.1", 0), Latin1Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        ranking = rank_clickhouse(
            f"http://monitor@127.0.0.1:{server.server_port}", RankRequest(TARGETS)
        )
        server.shutdown()
    [statement] = ranking.statements
    assert statement.query.startswith("select 'caf")


class FailingServer(Latin1Server):
    """Its queries fail after their first row, which the status of HTTP does not show."""

    #: The data after the row.
    end = ""

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"name": "type"}\n' + self.end.encode())


DENIED = "Code: 497. DB::Exception: Not enough privileges."


@cases(
    "end",
    [
        f"{DENIED}\nTo execute this query, grant SELECT\n",
        f'{{"exception": "{DENIED}"}}\n',
        f'{{"name": "query{DENIED}\n',
        f"\r\n__exception__\r\nabcdefghij\r\n{DENIED}\r\n50 abcdefghij\r\n__exception__\r\n",
    ],
)
def test_an_error_after_the_first_rows_is_reported_in_the_words_of_the_server(end):
    """As text, as a row, within a row, and with the markers of version 25.11."""
    FailingServer.end = end
    with HTTPServer(("127.0.0.1", 0), FailingServer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(ServerUnsuited, match="query_log"):
            rank_clickhouse(f"http://monitor@127.0.0.1:{server.server_port}", RankRequest(TARGETS))
        server.shutdown()


class RedirectingServer(Latin1Server):
    """Redirects each request to another port, which counts as a foreign host."""

    keys: ClassVar[list[str]] = []
    to = ""

    def do_GET(self):
        self.keys.append(self.headers["X-ClickHouse-Key"])
        self.send_response(302)
        self.send_header("Location", self.to)
        self.end_headers()


class OtherServer(RedirectingServer):
    keys: ClassVar[list[str]] = []


def test_a_redirect_does_not_receive_the_password(password):
    servers = [HTTPServer(("127.0.0.1", 0), kind) for kind in (RedirectingServer, OtherServer)]
    RedirectingServer.to = f"http://127.0.0.1:{servers[1].server_port}/?query=x"
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    with pytest.raises(ServerUnsuited, match=f"{servers[1].server_port}"):
        rank_clickhouse(f"http://m@127.0.0.1:{servers[0].server_port}", RankRequest(TARGETS))
    for server in servers:
        server.shutdown()
        server.server_close()
    assert RedirectingServer.keys == ["pw-of-monitor"]
    assert OtherServer.keys == []


def test_refusals(runs, server, monkeypatch):
    monkeypatch.setenv("CLICKHOUSE_PASSWORD", "wrong")
    with pytest.raises(InputError) as refused:
        rank_clickhouse(server, RankRequest(TARGETS))
    assert "CLICKHOUSE_PASSWORD" in refused.value.hint
    assert "wrong" not in str(refused.value)
    monkeypatch.setenv("CLICKHOUSE_PASSWORD", "pw-of-monitor")
    with pytest.raises(InputError):
        rank_clickhouse(server, RankRequest(TARGETS), cluster="o'ther")
    with pytest.raises(OptionConflict):
        rank_clickhouse(str(runs / "log.csv"), RankRequest(TARGETS), cluster="prod")


def test_parts_of_a_distributed_query_are_merged(tmp_path):
    """Without hashes, texts that differ in constants are the same statement."""
    rows = [{**OLD, "query": f"select sum(x) from local where y > {y}", "is_initial_query": 0,
             "hostname": f"ch{y}"} for y in (1, 2)]  # fmt: skip
    ranking = rank_clickhouse(str(log_in(tmp_path, *rows)), RankRequest(TARGETS))
    [statement] = ranking.statements
    assert statement.calls == 2
    assert len(ranking.unseen) == 1


def test_a_constant_may_have_an_escaped_line_break(tmp_path):
    texts = [f"select '{text}' from {table}" for text in ("a\\\nb", "c") for table in ("t", "u")]
    rows = [{**OLD, "query": text, "query_id": text} for text in texts]
    ranking = rank_clickhouse(str(log_in(tmp_path, *rows)), RankRequest(TARGETS))
    assert [statement.calls for statement in ranking.statements] == [2, 2]


def test_a_log_without_spills(tmp_path):
    row = {**OLD, "ProfileEvents.Names": ["Query"], "ProfileEvents.Values": [1]}
    assert json_of("clickhouse", log_in(tmp_path, row))["statements"] == []


def test_the_memory_that_avoids_all_spills_is_bounded_by_all_calls(tmp_path):
    """From the highest peak to the largest sum of a peak and 4 times the uncompressed bytes."""
    names = [*OLD["ProfileEvents.Names"], "ExternalProcessingUncompressedBytesTotal"]
    rows = [
        {**OLD, "memory_usage": peak, "ProfileEvents.Names": names,
         "ProfileEvents.Values": [*OLD["ProfileEvents.Values"], uncompressed]}
        for peak, uncompressed in ((1000, 5000), (2000, 100))
    ]  # fmt: skip
    [statement] = rank_clickhouse(str(log_in(tmp_path, *rows)), RankRequest(TARGETS)).statements
    assert statement.memory_between == (2000, 1000 + 4 * 5000)
