"""The options that verbs share, each defined once."""

from pathlib import Path
from typing import Annotated

import typer

from spillcast.cli.usage import single_format

#: Headings of the help of verbs that take many kinds of evidence.
IN_PART, ORACLE = "A query recorded in part", "Oracle's traces, ASH exports and reports"
POSTGRES, RECORDING = "PostgreSQL's statements and sessions", "A recording"
TARGET, REHEARSAL = "The target machine", "A trial run on the target"
KEPT, CAPTURE, LIVE = "What is written", "What is observed", "A live view"


Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON document.", callback=single_format)
]
Csv = Annotated[
    bool, typer.Option("--csv", help="Print raw numbers under one header.", callback=single_format)
]
Markdown = Annotated[
    bool, typer.Option("--markdown", help="Print it as Markdown.", callback=single_format)
]
Confidence = Annotated[
    float, typer.Option(min=0.5, max=0.999, help="Level of the interval, 0.5 to 0.999.")
]
Budget = Annotated[
    str,
    typer.Option(
        help="Time and bytes a probe may take: 60s, 4G or 60s,4G; bytes by default 10 % of the "
        "free space."
    ),
]
Work = Annotated[
    Path | None, typer.Option(help="Directory for data and slow storage (default: TMPDIR).")
]
Temp = Annotated[
    list[Path] | None,
    typer.Option(help="Only files under this directory are temp files.", rich_help_panel=CAPTURE),
]
RecordedTemp = Annotated[
    list[Path] | None,
    typer.Option(
        "--temp",
        help="For a recording: only files under this directory are temp files. Repeatable.",
        rich_help_panel=RECORDING,
    ),
]
Duration = Annotated[
    str | None,
    typer.Option(
        help="Stop after this time, such as 5m; a query that it waits for must begin within it.",
        rich_help_panel=CAPTURE,
    ),
]
Query = Annotated[
    str | None,
    typer.Option(
        metavar="PATTERN",
        help="The session whose query matches this regular expression.",
        rich_help_panel=POSTGRES,
    ),
]
Elapsed = Annotated[
    str | None,
    typer.Option(
        help="Elapsed time of the whole query, such as 12m53s, if only part of it was recorded.",
        rich_help_panel=IN_PART,
    ),
]
History = Annotated[
    list[Path] | None,
    typer.Option(
        help="For a query recorded in part: a previous run of it (recording, plan, row of "
        "pg_stat_statements), or its plan by EXPLAIN without ANALYZE. Repeatable.",
        rich_help_panel=IN_PART,
    ),
]
Progress = Annotated[
    str | None,
    typer.Option(
        help="How much of the query was done when the recording ended, such as 20%.",
        rich_help_panel=IN_PART,
    ),
]
Written = Annotated[
    str | None,
    typer.Option(
        help="Bytes that the whole query writes to temp files, such as 40G.",
        rich_help_panel=IN_PART,
    ),
]
TempEvents = Annotated[
    str | None,
    typer.Option(
        help="Wait events that the move makes faster, such as 'direct path * temp'.",
        rich_help_panel=ORACLE,
    ),
]
SqlId = Annotated[
    str | None,
    typer.Option(
        help="Only this statement of an ASH export, or of traces.", rich_help_panel=ORACLE
    ),
]
Queryid = Annotated[
    str | None,
    typer.Option(help="Only this query of pg_stat_statements.", rich_help_panel=POSTGRES),
]
Origin = Annotated[
    str | None,
    typer.Option(
        "--from",
        help="Storage that temp files were on, if the plan has no I/O times.",
        rich_help_panel=POSTGRES,
    ),
]
ExecId = Annotated[
    int | None,
    typer.Option(
        help="Only this execution (SQL_EXEC_ID) of an ASH export or a report.",
        rich_help_panel=ORACLE,
    ),
]
Item = Annotated[
    int | None,
    typer.Option(help="Of several runs in a file the one with this number in their list.", min=1),
]
Since = Annotated[
    str | None,
    typer.Option(
        help="Only samples of an ASH export from this time on, such as 20:30.",
        rich_help_panel=ORACLE,
    ),
]
Until = Annotated[
    str | None,
    typer.Option(help="Only samples of an ASH export up to this time.", rich_help_panel=ORACLE),
]
Block = Annotated[
    str | None,
    typer.Option(help="Block size of Oracle's evidence, such as 16K.", rich_help_panel=ORACLE),
]
Lenient = Annotated[
    bool,
    typer.Option(help="Also find WAIT lines in the middle of other text.", rich_help_panel=ORACLE),
]
Where = Annotated[str | None, typer.Option(help="Only waits that meet this SQL condition.")]
