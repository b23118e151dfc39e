"""Statements without their literals, so that alike ones become one."""

import duckdb

#: Literals, which distinguish statements that are otherwise alike, and blanks.
_ALIKE = (
    ("'(?:[^']|'')*'", ":s"),
    (r"\b\d+(?:\.\d+)?(?:e[+-]?\d+)?\b", ":n"),
    (r"\s+", " "),
)


def add_statement_texts(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the view ``statement_texts`` of the ``statements`` of a trace, by ``sql_id``."""
    statement = "lower(trim(any_value(text)))"
    for pattern, replacement in _ALIKE:
        escaped = pattern.replace("'", "''")
        statement = f"regexp_replace({statement}, '{escaped}', '{replacement}', 'g')"
    # Before Oracle 11g the hash value identifies a statement.
    connection.execute(
        "create view statement_texts as select "
        f"coalesce(nullif(sql_id, ''), hv::varchar) as sql_id, {statement} as statement "
        "from statements group by 1"
    )
