"""``spillcast export``: a recording or a profile in a form that other programs read."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import typer

from spillcast.cli.options import Json, Where


def export(
    evidence: Annotated[
        list[str],
        typer.Argument(
            help="A recording; for openmetrics also traces, ASH exports, or a folder that "
            "spillcast postgres --save made."
        ),
    ],
    format_: Annotated[
        Literal["perfetto", "openmetrics"],
        typer.Option("--format", help="A time line for ui.perfetto.dev, or metrics as text."),
    ],
    by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMNS", help="Labels of metrics, as in profile --by (default: event)."
        ),
    ] = None,
    where: Where = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="File to write (default: stdout)."),
    ] = None,
    json: Json = False,
) -> None:
    """Write a time line for Perfetto, or a profile as OpenMetrics.

    perfetto: Chrome trace events. Each thread is a track and each wait a slice with its bytes; an
    arrow leads from the thread that ended a wait. openmetrics: time and latency histograms by
    event.

    Example: spillcast export run.spill --format perfetto -o run.json

    Example: spillcast export hdd.trc --format openmetrics --by event,file

    Example: spillcast export /var/lib/spillcast --format openmetrics -o spillcast.prom
    """
    from spillcast.cli.output import emit, obeyed
    from spillcast.errors import OptionConflict
    from spillcast.fleet.dataset import is_dataset
    from spillcast.workspace import check_output_file, whole_file

    if json and output is None:
        raise OptionConflict("--json: stdout is used by the export itself", "write it with -o FILE")
    if output is not None:
        check_output_file(output)
    if format_ == "perfetto":
        if by is not None:
            raise OptionConflict("--by is for --format openmetrics")
        pieces = _time_line(evidence, where)
    elif len(evidence) == 1 and is_dataset(evidence[0]):
        if by is not None or where is not None:
            raise OptionConflict("--by and --where are for a profile, not for a folder of looks")
        pieces = _servers_metrics(evidence[0])
    else:
        pieces = _metrics(evidence, by or "event", where)
    if output is None:
        # A program reads it as it is; a terminal obeys nothing that is in it.
        (sys.stdout if sys.stdout.isatty() else obeyed(sys.stdout)).writelines(pieces)
        return
    with whole_file(output) as partial, partial.open("w") as file:
        file.writelines(pieces)
    if json:
        size = output.stat().st_size
        emit(
            {"schema": "spillcast.export/1", "format": format_, "path": str(output), "bytes": size}
        )


def _time_line(evidence: list[str], where: str | None) -> Iterator[str]:
    from spillcast.errors import OptionConflict
    from spillcast.evidence.find import find_evidence
    from spillcast.recording import Recording
    from spillcast.report.perfetto import trace_text

    given = find_evidence(evidence)
    if given.only_kind() != "recordings" or len(given.recordings) != 1:
        raise OptionConflict(
            "--format perfetto is for one recording", "make one with: spillcast record -- COMMAND"
        )
    return trace_text(Recording.open(given.recordings[0]), where)


def _metrics(evidence: list[str], by: str, where: str | None) -> Iterator[str]:
    from spillcast.cli.progress import reading_bar
    from spillcast.evidence.find import find_evidence
    from spillcast.profile import profile
    from spillcast.recording import Recording
    from spillcast.report.openmetrics import openmetrics_text

    names = [name.strip() for name in by.split(",")]
    with reading_bar(evidence) as show:
        rows = profile(*evidence, by=names, where=where, on_progress=show)
    recordings = find_evidence(evidence).recordings if where is None else []
    return openmetrics_text(rows, Recording.open(recordings[0]) if recordings else None)


def _servers_metrics(address: str) -> Iterator[str]:
    from spillcast.engines.gains import request_of
    from spillcast.engines.postgres.rank.history import rank_looks
    from spillcast.report.openmetrics import servers_metrics

    return servers_metrics(rank_looks(address, request_of([], None, 0.9)))
