"""What the verbs that rank a server's statements share: their options, and their answer."""

from typing import TYPE_CHECKING, Annotated

import typer

from spillcast.cli.usage import Answer

if TYPE_CHECKING:
    from spillcast.engines.ranking import ServerRanking

#: The target where none is given.
TEN_TIMES = "factor:10"
Targets = Annotated[
    list[str] | None,
    typer.Option(
        "--to",
        metavar="STORAGE",
        help="Storage to forecast for: storage.json, catalogue:NAME, a recording, "
        "latency:150us, factor:60. Repeatable; by default ten times as fast.",
    ),
]
Top = Annotated[int, typer.Option(min=1, help="Number of statements in the table.")]


def has_no_forecast(ranking: "ServerRanking") -> bool:
    """Whether it has statements, or cannot see them, and no forecast of any."""
    unknown = all(statement.no_spill is None for statement in ranking.statements)
    return unknown and bool(ranking.statements or ranking.is_blind)


def ranking_answer(ranking: "ServerRanking", top: int, *, per_day: bool = False) -> Answer:
    """The ranking as a page and a document; exit status 3 if it has no forecast."""
    from spillcast.report.servers import ranking_page

    status = 3 if has_no_forecast(ranking) else 0
    return Answer(ranking.to_json, lambda: ranking_page(ranking, top, per_day=per_day), status)
