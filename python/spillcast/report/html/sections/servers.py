"""Servers: the ranking of their statements, as the terminal shows it."""

from collections.abc import Mapping, Sequence
from typing import Any

from spillcast.document import read
from spillcast.engines.ranking import ServerRanking
from spillcast.report import page as terminal
from spillcast.report import table as terminal_table
from spillcast.report.html.material import AGAIN
from spillcast.report.html.page import ROWS_MAX, Section, Table
from spillcast.report.html.words import sentence
from spillcast.report.server_ranking import ranking_page

Document = Mapping[str, Any]


def answers(documents: Sequence[Document]) -> list[str]:
    """The verdict on each server."""
    return [text for one in documents for text in _parts(one)[0].said]


def sections(documents: Sequence[Document]) -> list[Section]:
    """Tables, remarks and commands of each."""
    return [_section(document) for document in documents]


def _parts(document: Document) -> Sequence[Any]:
    found = read(ServerRanking, document, document["name"], AGAIN)
    return ranking_page(found, ROWS_MAX).parts


def _section(document: Document) -> Section:
    words: list[str] = []
    tables, commands = [], []
    for part in _parts(document)[1:]:
        if isinstance(part, terminal.Words):
            words += [sentence(text.strip()) for text in part.said]
        elif isinstance(part, terminal.Commands):
            commands.append((words.pop().rstrip(":."), "\n".join(part.lines)))
        elif isinstance(part, terminal_table.Table):
            columns, cells = part.written()
            left = [at for at, column in enumerate(columns) if column.is_text]
            tables.append(Table([column.name or "" for column in columns], cells, left))
    title = f"Statements that spill: {document['name']}"
    return Section(title, words, tables=tables, statements=commands)
