"""The answer to a question in SQL as a table."""

from collections.abc import Sequence
from typing import Any

from spillcast.report.page import Page
from spillcast.report.table import Column, Table


def sql_page(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Page:
    """Values as they are, under the names that the query gives them."""
    texts = {at for at in range(len(columns)) for row in rows if isinstance(row[at], str)}
    named = [
        Column(name, name, "text" if at in texts else "raw") for at, name in enumerate(columns)
    ]
    table = Table(named, rows)
    return Page([table], table)
