"""An imitation of SQL*Plus: runs a collecting script on views in DuckDB and spools its output.

Statements are parsed in Oracle's dialect and translated. The loop of a PL/SQL block is imitated;
its query and output expressions are the script's.
"""

import re
from collections.abc import Callable
from contextlib import contextmanager
from datetime import datetime
from math import prod

import duckdb
import sqlglot
from sqlglot import exp

NOW = datetime(2024, 10, 14, 13)
COMMANDS = re.compile(r"(set|prompt|spool|exec|whenever|accept)\b|--")

# Columns of the views by Oracle's reference, with types that can hold them.
ASH_COLUMNS = (
    "sample_time timestamp, session_id bigint, session_serial# bigint, sql_id text, "
    "sql_exec_id bigint, sql_exec_start timestamp, sql_plan_line_id bigint, "
    "sql_plan_operation text, sql_plan_options text, session_state text, "
    "event text, wait_class text, p1 bigint, p2 bigint, p3 bigint, time_waited bigint, "
    "qc_session_id bigint, qc_session_serial# bigint, qc_instance_id bigint, pga_allocated bigint, "
    "temp_space_allocated bigint, delta_read_io_requests bigint, delta_read_io_bytes bigint, "
    "delta_write_io_requests bigint, delta_write_io_bytes bigint"
)
VIEWS = {
    "dual": "dummy text",
    "v$parameter": "name text, value text",
    "v$diag_info": "inst_id bigint, name text, value text",
    "v$process": "addr text, tracefile text",
    "v$session": "sid bigint, serial# bigint, paddr text",
    "gv$session": "inst_id bigint, sid bigint, serial# bigint, saddr text, username text, "
    "last_call_et bigint, sql_id text, status text, sql_exec_id bigint, sql_exec_start timestamp, "
    "state text, event text, wait_class text, p1 bigint, p2 bigint, p3 bigint, audsid bigint",
    "gv$px_session": "inst_id bigint, sid bigint, serial# bigint, qcsid bigint, qcinst_id bigint",
    "gv$sql_workarea_active": "inst_id bigint, sid bigint, qcsid bigint, sql_id text, "
    "sql_exec_id bigint, operation_id bigint, operation_type text, policy text, "
    "active_time bigint, work_area_size bigint, expected_size bigint, actual_mem_used bigint, "
    "max_mem_used bigint, number_passes bigint, tempseg_size bigint, tablespace text, "
    "workarea_address text",
    "gv$sql_workarea": "inst_id bigint, workarea_address text, estimated_optimal_size bigint, "
    "estimated_onepass_size bigint",
    "gv$tempseg_usage": "inst_id bigint, username text, session_addr text, sql_id text, "
    "tablespace text, segtype text, segfile# bigint, extents bigint, blocks bigint",
    "v$sesstat": "sid bigint, statistic# bigint, value bigint",
    "v$statname": "statistic# bigint, name text",
    "gv$active_session_history": f"inst_id bigint, {ASH_COLUMNS}",
    "dba_hist_active_sess_history": "snap_id bigint, dbid bigint, instance_number bigint, "
    + ASH_COLUMNS,
}


def statements(script):
    """The SELECTs of a script, including those in PL/SQL; any other line is an error."""
    result, lines = [], iter(script.splitlines())
    for line in lines:
        if not line or COMMANDS.match(line):
            continue
        text = line
        if line == "declare":
            while (line := next(lines)) != "/":
                text += "\n" + line
            result += re.findall(r"for r in \((.*?)\n    \) loop", text, re.DOTALL)
            continue
        assert line.startswith("select "), line
        while not text.endswith(";"):
            text += "\n" + next(lines)
        result.append(text[:-1])
    return result


def parsed(script):
    return [sqlglot.parse_one(text, read="oracle") for text in statements(script)]


@contextmanager
def database():
    """DuckDB with the empty views, and the Oracle functions that it lacks."""
    with duckdb.connect() as connection:
        for name, columns in VIEWS.items():
            quoted = re.sub(r"(\w+#)", r'"\1"', columns)
            connection.execute(f'create table "{name}" ({quoted})')
        connection.execute("create macro numtodsinterval(n, unit) as to_minutes(n)")
        connection.execute(f"create macro systimestamp() as timestamp '{NOW}'")
        connection.execute(
            "create macro regexp_substr(s, pattern, start, nth, flags, part) as "
            "nullif(regexp_extract(s, pattern, part), '')"
        )
        connection.execute("create macro sys_context(space, name) as 4711")
        connection.execute("insert into dual values ('X')")
        yield connection


def insert(oracle, view, *rows):
    for row in rows:
        names = ", ".join(f'"{name}"' for name in row)
        marks = ", ".join("?" * len(row))
        oracle.execute(f'insert into "{view}" ({names}) values ({marks})', list(row.values()))


def run(oracle, script, view, **variables):
    """The rows of the statements on a view, as dictionaries."""
    rows = []
    for tree in parsed(script):
        if any(table.name == view for table in tree.find_all(exp.Table)):
            rows += rows_of(oracle, tree, variables)
    return rows


def rows_of(oracle, tree, variables):
    """The rows of a SELECT as dictionaries; columns named after a variable have its value."""
    for column in list(tree.find_all(exp.Column)):
        if column.name in variables and column.table in ("", "r"):
            column.replace(exp.convert(variables[column.name]))
    tree = tree.transform(_joined)
    result = oracle.execute(
        tree.sql("duckdb", identify=True, unsupported_level=sqlglot.ErrorLevel.IGNORE)
    )
    names = [description[0] for description in result.description]
    return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


def _joined(node):
    """Oracle treats an empty string as null."""
    if not isinstance(node, exp.DPipe):
        return node
    parts = [part.transform(_joined) for part in node.flatten()]
    return exp.Anonymous(this="concat", expressions=parts)


def run_script(oracle, script, folder, look: Callable[[int], None] = lambda _number: None):
    """Runs the script and spools into a folder as with `set markup csv on`.

    ``look`` is called with each iteration number before the query, and may change the views;
    -1 is the start of a loop.
    """
    spool, lines = None, iter(script.splitlines())
    for line in lines:
        if line.startswith("spool "):
            name = line.removeprefix("spool ")
            spool = None if name == "off" else folder / name
            if spool is not None:
                spool.write_text("")
        elif line == "declare":
            block = [line]
            while (line := next(lines)) != "/":
                block.append(line)
            spool.write_text(run_block(oracle, "\n".join(block), look))
        elif line.startswith("select "):
            text = line
            while not text.endswith(";"):
                text += "\n" + next(lines)
            if spool is not None:
                result = rows_of(oracle, sqlglot.parse_one(text[:-1], read="oracle"), {})
                spool.write_text(as_csv(result))


def as_csv(rows):
    """CSV with an empty line, headings and quoted text; empty where there are no rows."""
    if not rows:
        return ""
    quoted = [",".join(f'"{name.upper()}"' for name in rows[0])]
    for row in rows:
        quoted.append(",".join(map(_cell, row.values())))
    return "\n" + "\n".join(quoted) + "\n"


def _cell(value):
    if value is None:
        return ""
    return f'"{value}"' if isinstance(value, str) else str(value)


def run_block(oracle, block, look):
    """A block's output: its headings, and a line for each row of its query in each iteration."""
    query = re.search(r"for r in \((.*?)\n    \) loop", block, re.DOTALL)[1]
    puts = re.findall(r"put_line\((.*?)\);\n", block, re.DOTALL)
    texts = query, *(f"select {put} as line from dual" for put in puts)
    query, headings, line = (sqlglot.parse_one(text, read="oracle") for text in texts)
    first, last = re.search(r"for i in (\d+) \.\. ([\d* ]+) loop", block).groups()
    matches = [row["line"] for row in rows_of(oracle, headings, {})]
    known = {"v_before": None, "v_seconds": 3, "v_weight_us": 1_000_000}
    look(-1)
    for turn in range(prod(map(int, last.split("*"))) - int(first) + 1):
        look(turn)
        now = ""
        for row in rows_of(oracle, query.copy(), known):
            if row.get("value", 0) is not None:
                matches += [answer["line"] for answer in rows_of(oracle, line.copy(), known | row)]
            if "accumulated" in row:
                now += f",{row['statistic#']}={row['accumulated']}"
        known["v_before"] = now or None
    return "\n".join(matches) + "\n"
