"""Queries that spill in a ClickHouse in a separate process, and its query log in every format."""

import json
import sys
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

FORMATS = {
    "JSONEachRow": "jsonl",
    "JSON": "json",
    "TSV": "tsv",
    "TSVWithNames": "names.tsv",
    "CSV": "csv",
    "CSVWithNames": "names.csv",
    "Vertical": "vertical.txt",
    "PrettyCompact": "pretty.txt",
    "Markdown": "md",
    "Parquet": "parquet",
}
SETTINGS = {
    "max_bytes_before_external_sort": 4_000_000,
    "min_external_sort_block_bytes": 1_000_000,
    "max_bytes_before_external_group_by": 6_000_000,
    "max_bytes_before_external_distinct": 4_000_000,
    "max_bytes_ratio_before_external_sort": 0,
    "max_bytes_ratio_before_external_group_by": 0,
    "max_bytes_ratio_before_external_distinct": 0,
    "join_algorithm": "grace_hash",
    "max_bytes_in_join": 4_000_000,
    "max_bytes_ratio_before_external_join": 0,
}
QUERIES = {
    "sort": "select id, amount from t order by amount, id limit 2 offset {offset}",
    "group": "select count(), max(total) from (select id, sum(amount) total from t group by id)",
    "join": "select count(), sum(a.amount + b.amount) from t a join t b on a.id = b.id",
    "plain": "select count() from t where amount > 3",
    "secret": "select count() from (select distinct id, amount from t "
    "where 'password=hunter2' != '')",
}
TABLE = (
    "create table t engine = MergeTree order by tuple() as select cityHash64(number) id, "
    "toFloat64(cityHash64(number + 7) % 1000000) amount from numbers(600000)"
)
CONFIG = (
    "<clickhouse><query_log><database>system</database><table>query_log</table>"
    "</query_log></clickhouse>"
)
#: Events as separate columns, as users select them.
COLUMNS = """
select type, query_id, normalized_query_hash, query, query_duration_ms, memory_usage,
    ProfileEvents['ExternalAggregationWritePart'] as ExternalAggregationWritePart,
    ProfileEvents['ExternalSortWritePart'],
    ProfileEvents['ExternalJoinWritePart'],
    ProfileEvents['ExternalProcessingCompressedBytesTotal'],
    ProfileEvents['WriteBufferFromFileDescriptorWrite'],
    ProfileEvents['WriteBufferFromFileDescriptorWriteBytes'],
    ProfileEvents['DiskWriteElapsedMicroseconds']
from system.query_log where type = 'QueryFinish' and log_comment = 'group'
"""


#: An aggregation as version 18.16.1 logged it: two arrays, no totals, no number of threads.
OLD = {
    "type": 2, "event_date": "2026-11-26", "query_start_time": "2026-11-26 11:48:13",
    "query_duration_ms": "623", "memory_usage": "40300000", "query_id": "a",
    "query": "select count(), max(total) from (select id, sum(amount) total from t group by id)",
    "ProfileEvents.Names": [
        "ReadBufferFromFileDescriptorRead", "ReadBufferFromFileDescriptorReadBytes",
        "WriteBufferFromFileDescriptorWrite", "WriteBufferFromFileDescriptorWriteBytes",
        "DiskReadElapsedMicroseconds", "DiskWriteElapsedMicroseconds",
        "ExternalAggregationWritePart", "ExternalAggregationCompressedBytes",
    ],
    "ProfileEvents.Values": ["30", "15667249", "10", "7906243", "987", "2026", "10", "7906243"],
}  # fmt: skip


def log_in(folder: Path, *rows: Mapping[str, Any]) -> Path:
    """Writes rows to a file as a log export; returns its path."""
    path = folder / "log.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def settings_of(values: Mapping[str, Any]) -> str:
    """The SETTINGS clause of a query."""
    return ", ".join(f"{name} = {value!r}" for name, value in values.items())


def main(folder: Path) -> None:
    """Runs the queries, and writes their rows of the log."""
    from chdb import session

    (folder / "config.xml").write_text(CONFIG)
    database = session.Session(f"{folder}/db?config-file={folder}/config.xml&log_queries=1")
    database.query("create database d")
    database.query("use d")
    database.query(TABLE)
    for threads in (1, 2):
        for name, sql in QUERIES.items():
            values = SETTINGS | {"max_threads": threads, "log_comment": f"{name}"}
            text = sql.format(offset=500_000 + threads)
            database.query(f"{text} settings {settings_of(values)}", "CSV")
    database.query("system flush logs")
    log = "select * from system.query_log where log_comment != '' order by event_time_microseconds"
    for kind, suffix in FORMATS.items():
        (folder / f"log.{suffix}").write_bytes(database.query(log, kind).bytes())
    (folder / "one.json").write_bytes(database.query(f"{COLUMNS} limit 1", "JSON").bytes())
    (folder / "columns.csv").write_bytes(
        database.query(f"{COLUMNS} limit 1", "CSVWithNames").bytes()
    )


def serve(folder: Path) -> None:
    """Serves HTTP as a server does, for its user ``monitor`` with a password; prints the port.

    The log is that of ``main``, read from its export: chdb has the log of one process.
    """
    from chdb import session

    # Without a folder chdb creates one in /tmp, which remains when the process is killed.
    database = session.Session(f"{folder}/served")
    database.query("create database lab")
    log = f"file('{folder}/log.parquet')"

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            [sql] = parse_qs(urlsplit(self.path).query)["query"]
            user, password = (self.headers.get(f"X-ClickHouse-{name}") for name in ("User", "Key"))
            status, answer = 200, b""
            if (user, password) != ("monitor", "pw-of-monitor"):
                status, answer = 403, b"Code: 516. DB::Exception: Authentication failed"
            else:
                sql = sql.replace("clusterAllReplicas('prod', system.query_log)", log)
                sql = sql.replace("system.query_log", log)
                if "system.columns" in sql:
                    sql = f"describe table {log} format JSONEachRow"
                try:
                    answer = database.query(sql, "JSONEachRow").bytes()
                except RuntimeError as error:
                    status, answer = 404, str(error).encode()
            self.send_response(status)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    {"run": main, "serve": serve}[sys.argv[1]](Path(sys.argv[2]))
