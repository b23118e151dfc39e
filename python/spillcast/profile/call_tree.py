"""Calls of traces as a tree: the caller of each, and its own work without that of its callees."""

import duckdb

from spillcast.profile.statement_texts import add_statement_texts


def add_call_tree(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the view ``call_tree``: calls, their callers and their own work.

    A trace writes a line when its call ends. The caller is the next call of the session that is
    less deep, unless its apparent callees took longer than itself: then the caller is unknown.
    ``statement`` is the text without its literals.
    """
    row = connection.execute("select coalesce(max(dep), 0) from calls").fetchone()
    deepest = 0 if row is None else row[0]
    parts = [
        "select *, null::bigint as parent_line, null::varchar as caller from calls where dep = 0"
    ]
    parts += [
        "select c.*, p.line as parent_line, p.sql_id as caller "
        f"from (from calls where dep = {n}) c "
        f"asof left join (from calls where dep < {n}) p on c.source = p.source "
        "and coalesce(c.session, 0) = coalesce(p.session, 0) and c.line < p.line"
        for n in range(1, deepest + 1)
    ]
    add_statement_texts(connection)
    connection.execute(
        f"create view call_tree as with told as ({' union all '.join(parts)}), "
        "seemed as (select source, parent_line as line, sum(p) as p, sum(cr) as cr, "
        "sum(cu) as cu, sum(e_us) as e_us, count(*) as calls "
        "from told where parent_line is not null group by all), "
        # Times are rounded to a microsecond, each by itself.
        "below as (select seemed.* from seemed join calls using (source, line) "
        "where seemed.e_us <= calls.e_us + seemed.calls + 1) "
        "select told.*, told.p - coalesce(below.p, 0) as self_p, "
        "told.cr - coalesce(below.cr, 0) as self_cr, told.cu - coalesce(below.cu, 0) as self_cu, "
        "statement_texts.statement from told "
        "left join below on told.source = below.source and told.line = below.line "
        "left join statement_texts on told.sql_id = statement_texts.sql_id"
    )
