"""Rankings of spilling statements: postgres, mysql, clickhouse; many databases: ingest, fleet."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from spillcast.cli.options import (
    Confidence,
    Json,
    OriginOption,
    PageCacheOption,
    TempEvents,
    Top,
    option,
)
from spillcast.cli.output import Answer, emit, notify
from spillcast.cli.usage import refuse
from spillcast.errors import EvidenceUnsuited, OptionConflict
from spillcast.units import parse_duration_s

if TYPE_CHECKING:
    from spillcast.engines.ranking import RankRequest, ServerRanking

#: The default target.
TEN_TIMES = "factor:10"
Targets = Annotated[
    list[str] | None,
    option(
        "--to STORAGE",
        "storage.json, catalogue:NAME, a recording, latency:150us, factor:60. Repeatable "
        "(default: ten times as fast).",
    ),
]


def has_no_forecast(ranking: "ServerRanking") -> bool:
    """Whether there is no forecast although statements spill or may spill."""
    unknown = all(statement.no_spill is None for statement in ranking.statements)
    return unknown and bool(ranking.statements or ranking.is_blind)


def ranking_answer(ranking: "ServerRanking", top: int, *, per_day: bool = False) -> Answer:
    """The ranking as a page and a document; exit status 3 if it has no forecast."""
    from spillcast.report.servers import ranking_page

    status = 3 if has_no_forecast(ranking) else 0
    return Answer(ranking.to_json, lambda: ranking_page(ranking, top, per_day=per_day), status)


#: The exit status if an alert's limit is exceeded.
ALERT_STATUS = 4


def postgres(
    server: Annotated[
        str,
        typer.Argument(
            metavar="DSN|LOGS|DIR",
            help="A server, a log, a folder of logs or of --save, or rows of pg_stat_statements; - "
            "for a paste.",
        ),
    ],
    to: Targets = None,
    since: Annotated[
        str | None,
        option(
            "--since TIME|FILE",
            "Count only the next 10m, or since a snapshot of --save; of a folder, the last 7d.",
        ),
    ] = None,
    save: Annotated[
        str | None,
        option(
            "--save DIR|FILE.json",
            "Save a snapshot of the counters into a folder, or as a file for a later --since.",
        ),
    ] = None,
    redact: Annotated[
        bool, option("--redact", "Save a snapshot without texts of statements.")
    ] = False,
    alert: Annotated[
        list[str] | None,
        option(
            "--alert RULE",
            "Of a folder: exit with 4 if exceeded, such as 'temp > 10G/h' (also files, time, new; "
            "/d). Repeatable.",
        ),
    ] = None,
    log: Annotated[
        str | None, option("--log PATH", "The server's log or a folder; its plans show work_mem.")
    ] = None,
    origin: OriginOption = None,
    top: Top = 10,
    per: Annotated[
        Literal["day"] | None, option("--per", "Extrapolate what was counted to a day.")
    ] = None,
    confidence: Confidence = 0.9,
) -> Answer:
    """Rank the statements that spill on a PostgreSQL server.

    For each it shows what other storage and more work_mem would save. It only reads statistics, in
    a short read-only session; pg_monitor is enough. With --save DIR it keeps a snapshot, for a
    timer; for the folder it shows the changes over time. Exits with 3 if there is no forecast for
    any statement, with 4 if an alert's limit is exceeded.

    Example: spillcast postgres dbname=dw --to catalogue:aws-gp3

    Example: spillcast postgres /var/log/postgresql --to latency:150us

    Example: spillcast postgres service=dw --save /var/lib/spillcast

    Example: spillcast postgres /var/lib/spillcast --since 7d --alert 'temp > 10G/h'
    """
    from spillcast.engines.postgres.rank import rank_postgres, save_snapshot
    from spillcast.engines.ranking import RankRequest
    from spillcast.fleet.dataset import is_dataset
    from spillcast.report.servers import saved_page

    request = RankRequest(to or [TEN_TIMES], origin, confidence)
    if not server.startswith(("postgres://", "postgresql://")) and is_dataset(server):
        refuse({"--save": save, "--redact": redact}, "needs a server, not its snapshots")
        rankings = rankings_of_snapshots(server, request, since, alert, log)
        return _history_answer(server, rankings, top, per_day=per == "day")
    refuse({"--alert": alert}, "is for a folder of snapshots", "make one with --save DIR")
    if save is not None and not (save.endswith(".json") or os.path.isfile(save)):
        if (to, since, log, origin, per) != (None, None, None, None, None):
            raise OptionConflict(
                "--save DIR keeps one snapshot and answers nothing",
                "run spillcast postgres DIR with the other options afterwards",
            )
        saved = save_snapshot(server, save, redact=redact)
        return Answer(lambda: saved, lambda: saved_page(saved))
    refuse({"--redact": redact}, "is for --save DIR")
    save_as = None if save is None else Path(save)
    ranking = rank_postgres(server, request, log=log, since=since, save_as=save_as)
    return ranking_answer(ranking, top, per_day=per == "day")


def rankings_of_snapshots(
    address: str,
    request: "RankRequest",
    since: str | None = None,
    alerts: list[str] | None = None,
    log: str | None = None,
) -> "list[ServerRanking]":
    """The ranking of each server whose snapshots are at an address, with its history."""
    from spillcast.engines.postgres.rank.history import rank_snapshots
    from spillcast.engines.ranking import RateLimit
    from spillcast.evidence.postgres.logs import read_logs

    return rank_snapshots(
        address,
        request,
        since_s=None if since is None else parse_duration_s(since, "--since"),
        logs=None if log is None else read_logs(Path(log)),
        rules=[RateLimit.of(text) for text in alerts or ()],
    )


def _history_answer(
    address: str, rankings: "list[ServerRanking]", top: int, *, per_day: bool
) -> Answer:
    from spillcast.engines.postgres.rank import with_sizing
    from spillcast.engines.ranking import histories_document
    from spillcast.report.servers import histories_page

    alerts = [alert for r in rankings if r.history for alert in r.history.alerts]
    status = 3 if all(map(has_no_forecast, rankings)) else 0
    if any(alert.rate is None for alert in alerts):
        status = 3
    if any(alert.exceeded for alert in alerts):
        status = ALERT_STATUS
    return Answer(
        lambda: histories_document(address, list(map(with_sizing, rankings))),
        lambda: histories_page(rankings, top, per_day=per_day),
        status,
    )


def mysql(
    server: Annotated[
        str,
        typer.Argument(
            metavar="DSN",
            help="A server: mysql://USER@HOST/DATABASE, or the path of a socket or of a defaults "
            "file.",
        ),
    ],
    to: Targets = None,
    top: Top = 10,
    confidence: Confidence = 0.9,
) -> Answer:
    """Rank the statements that spill on a MySQL or MariaDB server.

    It shows temporary tables on disk, merge passes, and what other storage would save at most. It
    needs performance_schema and the right to read it. Give a password in MYSQL_PWD or ~/.my.cnf.
    Exits with 3 if there is no forecast for any statement.

    Example: spillcast mysql mysql://root@localhost --to catalogue:aws-gp3

    Example: spillcast mysql /run/mysqld/mysqld.sock --to latency:150us
    """
    from spillcast.engines.mysql.rank import rank_mysql
    from spillcast.engines.ranking import RankRequest

    request = RankRequest(to or [TEN_TIMES], confidence=confidence)
    return ranking_answer(rank_mysql(server, request), top)


def clickhouse(
    server: Annotated[
        str,
        typer.Argument(
            metavar="URL|EXPORT",
            help="A server, http://USER@HOST:8123; or a file of rows of system.query_log.",
        ),
    ],
    to: Targets = None,
    since_s: Annotated[
        float | None,
        option("--since TIME", "How far back to count (default: 1d).", parse=parse_duration_s),
    ] = None,
    cluster: Annotated[
        str | None, option("--cluster NAME", "Read the logs of all replicas of this cluster.")
    ] = None,
    origin: OriginOption = None,
    top: Top = 10,
    confidence: Confidence = 0.9,
) -> Answer:
    """Rank the statements that spill on a ClickHouse server.

    For each it shows what other storage would save, and the memory with which it does not spill. It
    reads system.query_log over HTTP; SELECT on it is enough. Give the password in
    CLICKHOUSE_PASSWORD. Exits with 3 if there is no forecast for any statement.

    Example: spillcast clickhouse http://monitor@ch1:8123 --since 7d --to catalogue:aws-gp3

    Example: spillcast clickhouse log.jsonl --to latency:150us
    """
    from spillcast.engines.clickhouse.rank import rank_clickhouse
    from spillcast.engines.ranking import RankRequest

    request = RankRequest(to or [TEN_TIMES], origin, confidence)
    ranking = rank_clickhouse(server, request, since_s=since_s, cluster=cluster)
    return ranking_answer(ranking, top)


def fleet(
    dataset: Annotated[
        str, typer.Argument(help="A dataset made by spillcast ingest, or a folder of evidence.")
    ],
    to: Annotated[
        str,
        option(
            "--to STORAGE",
            "storage.json, catalogue:NAME, recording, latency:150us; to compare several, give "
            "spillcast report the --json of each.",
        ),
    ],
    temp_events: TempEvents = None,
    origin: OriginOption = None,
    page_cache_bytes: PageCacheOption = None,
    cost: Annotated[
        float | None, option("--cost PRICE", "Price of the target for 30 days.", min=0)
    ] = None,
    top: Top = 20,
    confidence: Confidence = 0.9,
) -> Answer:
    """Rank a fleet's statements by what other storage saves.

    Exits with 3 if there is no forecast for any statement.

    Example: spillcast fleet fleet --to latency:150us --cost 900

    Example: spillcast fleet /spark/events --from catalogue:aws-gp3 --to catalogue:aws-i4i-large
    """
    from contextlib import ExitStack
    from dataclasses import replace

    from spillcast.fleet.dataset import is_dataset
    from spillcast.fleet.fleet import fleet as make
    from spillcast.fleet.ingest import ingest
    from spillcast.recording import TEMP_EVENTS
    from spillcast.report.fleet import fleet_page, not_taken
    from spillcast.workspace import workspace

    with ExitStack() as stack:
        address = dataset
        if os.path.lexists(dataset) and not is_dataset(dataset):
            address = str(stack.enter_context(workspace()) / "dataset")
            ingested = ingest([dataset], address)
            for text in not_taken(ingested):
                notify(text)
            if not ingested.files:
                raise EvidenceUnsuited("none of its files is usable evidence", where=dataset)
        fleet = make(
            address,
            to,
            temp_events=temp_events or TEMP_EVENTS,
            confidence=confidence,
            cost=cost,
            origin=origin,
            page_cache_bytes=page_cache_bytes,
        )
    fleet = replace(fleet, dataset=dataset)
    no_forecast = all(row.saved_interval_s is None for row in fleet.statements)
    return Answer(fleet.to_json, lambda: fleet_page(fleet, top), 3 if no_forecast else 0)


def ingest(
    source: Annotated[
        list[str],
        typer.Argument(
            help="Traces, ASH exports, recordings, plans, event logs of Spark: files, folders, "
            "patterns, or addresses such as s3://bucket/traces."
        ),
    ],
    output: Annotated[
        str, option("--output, -o DATASET", "The dataset: a directory or an address.")
    ],
    database: Annotated[
        str | None, option("--database NAME", "Name of the database, overriding the evidence.")
    ] = None,
    json: Json = False,
) -> None:
    """Add evidence to a dataset, each file once.

    If it was killed, run it again: it continues. Files without usable evidence are set aside and
    listed, on stderr and with --json. Exits with 2 if no file has usable evidence.

    Example: spillcast ingest /backup/traces ash/*.csv -o fleet
    """
    from spillcast.cli.progress import progress_bar
    from spillcast.fleet.ingest import ingest as ingest_sources
    from spillcast.report.fleet import ingested_text, not_taken

    with progress_bar("ingesting") as bar:
        ingested = ingest_sources(source, output, database=database, on_progress=bar)
    for text in not_taken(ingested):
        notify(text)
    if not json:
        print(ingested_text(ingested))
    if not (ingested.files or ingested.seen_before):
        error = EvidenceUnsuited(f"{output}: nothing was added: no file is usable evidence")
        error.document = ingested.to_json()
        raise error
    if json:
        emit(ingested.to_json())
