"""Statements without their literals, by which those that are alike are one."""

import duckdb

#: Literals, which tell statements apart that are alike else; and blanks.
_ALIKE = (
    ("'(?:[^']|'')*'", ":s"),
    (r"\b\d+(?:\.\d+)?(?:e[+-]?\d+)?\b", ":n"),
    (r"\s+", " "),
)


def add_statement_texts(connection: duckdb.DuckDBPyConnection) -> None:
    """The view ``statement_texts`` of the table ``statements`` of a trace: by ``sql_id``."""
    statement = "lower(trim(any_value(text)))"
    for pattern, replacement in _ALIKE:
        escaped = pattern.replace("'", "''")
        statement = f"regexp_replace({statement}, '{escaped}', '{replacement}', 'g')"
    # Before Oracle 11g a statement is known by its hash value.
    connection.execute(
        "create view statement_texts as select "
        f"coalesce(nullif(sql_id, ''), hv::varchar) as sql_id, {statement} as statement "
        "from statements group by 1"
    )
