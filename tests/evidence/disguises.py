"""Plans, logs and exports with known figures, wrapped, cut, quoted and encoded as users have them.

``draw(seed)`` makes one: a file's name and bytes, and its correct figures.
"""

import bz2
import csv
import gzip
import html
import io
import json
import lzma
import random
import re
import textwrap
import zipfile
from dataclasses import dataclass

from programs import decimal_commas, figures_below, grouped, java, javascript, typescript

#: PostgreSQL's tables in ASCII and in Unicode: bar, dash, joint, corners.
ASCII, UNICODE = ("|", "-", "+", "++++"), ("│", "─", "┼", "┌┐└┘")


@dataclass(frozen=True)
class Truth:
    """Temp blocks and their time (ms) of a call, its elapsed time (ms), and its processes."""

    read: int
    written: int
    read_ms: float
    write_ms: float
    elapsed_ms: float
    processes: float


@dataclass(frozen=True)
class Disguised:
    """A file as a user has it. ``whole`` tells whether it can be read completely."""

    kind: str
    how: tuple[str, ...]
    name: str
    content: bytes
    truth: Truth
    whole: bool = True


def truth(draws):
    read = draws.randint(500, 90_000)
    written = read + draws.randint(0, 400)
    read_ms, write_ms = (round(draws.uniform(20, 900), 3) for _ in range(2))
    elapsed_ms = round((read_ms + write_ms) * draws.uniform(1.5, 9), 3)
    return Truth(read, written, read_ms, write_ms, elapsed_ms, draws.choice((1.0, 2.0)))


def nodes(of):
    """The plan in FORMAT JSON."""
    counts = {
        "Temp Read Blocks": of.read,
        "Temp Written Blocks": of.written,
        "Temp I/O Read Time": of.read_ms,
        "Temp I/O Write Time": of.write_ms,
    }
    loops = int(of.processes)
    disk = of.written * 8 // loops
    scan = {
        "Node Type": "Seq Scan", "Parallel Aware": loops > 1, "Relation Name": "orders",
        "Plan Rows": 9, "Plan Width": 85, "Actual Rows": 7000, "Actual Loops": loops,
        "Temp Read Blocks": 0, "Temp Written Blocks": 0,
    }  # fmt: skip
    sort = {
        "Node Type": "Sort", "Parallel Aware": False, "Plan Rows": 9, "Plan Width": 181,
        "Actual Rows": 7000, "Actual Loops": loops, "Sort Key": ["o.id", "o.name"],
        "Sort Method": "external merge", "Sort Space Used": disk, "Sort Space Type": "Disk",
        **counts, "Plans": [scan],
    }  # fmt: skip
    if loops > 1:
        worker = {"Worker Number": 0, "Sort Method": "external merge",
                  "Sort Space Used": disk, "Sort Space Type": "Disk"}  # fmt: skip
        sort["Workers"] = [worker]
        sort = {
            "Node Type": "Gather Merge", "Parallel Aware": False, "Plan Rows": 9,
            "Plan Width": 181, "Actual Rows": 14000, "Actual Loops": 1, "Workers Planned": 1,
            "Workers Launched": 1, **counts, "Plans": [sort],
        }  # fmt: skip
    return {"Plan": sort, "Execution Time": of.elapsed_ms}


def text_lines(of, execution="Execution Time"):
    """The same plan in FORMAT TEXT."""
    lines, node, depth = [], nodes(of)["Plan"], 0
    while node is not None:
        indent = " " * (6 * depth - 4 if depth else 0)
        arrow, inner = ("->  ", indent + "      ") if depth else ("", "  ")
        aware = "Parallel " if node["Parallel Aware"] else ""
        on = f" on {node['Relation Name']}" if "Relation Name" in node else ""
        lines.append(
            f"{indent}{arrow}{aware}{node['Node Type']}{on}  (cost=1.00..22.75 "
            f"rows={node['Plan Rows']} width={node['Plan Width']}) (actual time=1.5..98.2 "
            f"rows={node['Actual Rows']}.00 loops={node['Actual Loops']})"
        )
        for name in ("Workers Planned", "Workers Launched"):
            lines += [f"{inner}{name}: {node[name]}"] if name in node else []
        if "Sort Key" in node:
            lines.append(f"{inner}Sort Key: {', '.join(node['Sort Key'])}")
            lines.append(f"{inner}Sort Method: external merge  Disk: {node['Sort Space Used']}kB")
        if node["Temp Written Blocks"]:
            lines.append(f"{inner}Buffers: shared hit=33, temp read={of.read} written={of.written}")
            lines.append(f"{inner}I/O Timings: temp read={of.read_ms:.3f} write={of.write_ms:.3f}")
        for worker in node.get("Workers", ()):
            kb = worker["Sort Space Used"]
            lines.append(f"{inner}Worker 0:  Sort Method: external merge  Disk: {kb}kB")
        if "Relation Name" in node:
            stamp = "'2026-06-03 00:00:00+00'::timestamp with time zone"
            lines.append(f"{inner}Filter: (created_at >= {stamp})")
        node, depth = next(iter(node.get("Plans", ())), None), depth + 1
    return [*lines, "Planning Time: 0.400 ms", f"{execution}: {of.elapsed_ms:.3f} ms"]


def table(cells, style, border, more=""):
    """psql's table of a single column."""
    bar, dash, _, corners = style
    width = max(map(len, (*cells, "QUERY PLAN")))
    rule = dash * (width + 2)
    if border == 0:
        return ["QUERY PLAN".center(width), dash * width, *cells, f"({len(cells)} rows)"]
    body = [f" {cell.ljust(width) if more else cell}{more if at + 1 < len(cells) else ''}"
            for at, cell in enumerate(cells)]  # fmt: skip
    if border == 1:
        return ["QUERY PLAN".center(width + 2), rule, *body, f"({len(cells)} rows)"]
    framed = [f"{bar} {cell.ljust(width)} {bar}" for cell in cells]
    edge = [f"{corners[0]}{rule}{corners[1]}", f"{corners[2]}{rule}{corners[3]}"]
    joint = f"{'+' if bar == '|' else '├'}{rule}{'+' if bar == '|' else '┤'}"
    return [edge[0], f"{bar} {'QUERY PLAN'.center(width)} {bar}", joint, *framed, edge[1]]


def expanded(cells):
    lines = []
    for at, cell in enumerate(cells, 1):
        lines += [f"-[ RECORD {at} ]{'-' * 30}", f"QUERY PLAN | {cell}"]
    return lines


def comma_quoted(lines):
    return [f'"{line}"' if "," in line else line for line in lines]


def as_csv(lines):
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([["QUERY PLAN"], *([line] for line in lines)])
    return out.getvalue().rstrip("\n").split("\n")


def doubled(lines):
    cell = "\n".join(lines).replace('"', '""')
    return f'"{cell}"'.split("\n")


def mail(lines):
    return [part for line in lines for part in textwrap.wrap(
        line, 76, subsequent_indent="", drop_whitespace=True, replace_whitespace=False,
        break_long_words=False) or [""]]  # fmt: skip


def hard_wrapped(lines):
    return [line[at : at + 80] for line in lines for at in range(0, max(len(line), 1), 80)]


def page(names, rows):
    """psql's HTML, with a row for each line of the plan."""
    cells = [f"<th>{name}</th>" for name in names]
    body = [
        [f'<td align="left">{html.escape(str(value)).replace("  ", "&nbsp;&nbsp;")}</td>'
         for value in row]
        for row in rows
    ]  # fmt: skip
    drawn = ["\n".join(["  <tr>", *row, "  </tr>"]) for row in (cells, *body)]
    return ['<table border="1">', *"\n".join(drawn).split("\n"), "</table>", "<p>(1 row)</p>"]


def notebook_page(lines):
    """A data frame as a notebook shows it, with row numbers as headings."""
    rows = [f"<tr><th>{at}</th><td>{html.escape(line)}</td></tr>" for at, line in enumerate(lines)]
    return ["<table>", "<tr><th></th><th>QUERY PLAN</th></tr>", *rows, "</table>"]


def wrapped(lines, width=72):
    """psql's format "wrapped" with Unicode lines."""
    body = []
    for line in lines:
        parts = [line[at : at + width] for at in range(0, len(line), width)]
        body += [
            ("…" if at else " ") + part + ("…" if at + 1 < len(parts) else "")
            for at, part in enumerate(parts)
        ]
    return ["QUERY PLAN".center(width), "─" * (width + 2), *body, f"({len(lines)} rows)"]


def escaped(lines):
    """A Markdown table as DataGrip writes it."""
    cells = [line.translate({ord(c): f"\\{c}" for c in "()_*"}) for line in lines]
    cells = [cell.replace(">", "&gt;") for cell in cells]
    return ["| QUERY PLAN |", "| :--- |", *(f"| {cell} |" for cell in cells)]


def row_numbers(lines):
    """A data frame of a single column, as notebooks print it."""
    width = len(str(len(lines)))
    rows = [f"{at:>{width + 2}} │ {line}" for at, line in enumerate(lines, 1)]
    return [f"{' ' * (width + 3)}│ QUERY PLAN", f"{'─' * (width + 3)}┼{'─' * 60}", *rows]


def joined(lines):
    """Joins some detail lines with the next line, with many blanks between them."""
    text = "\n".join(lines)
    return re.sub(r"(Workers Planned: \d+)\n\s+", r"\1" + " " * 40, text).split("\n")


def cell(lines):
    """A plan without its line ends, in a row of an export."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([["at", "plan"], ["09:10", "".join(lines)]])
    return out.getvalue().rstrip("\n").split("\n")


def asciidoc(lines):
    """psql's format for documentation, which marks bars in cells."""
    cells = [
        f"|{line}".replace("||", "\\|\\|") if line[:1] == "|" else f"|{line}" for line in lines
    ]
    return [
        "",
        '[options="header",cols="<l",frame="none"]',
        "|====",
        "^l|QUERY PLAN",
        *cells,
        "|====",
    ]


def named(lines, bar):
    """psql's expanded output without record headers, with a rule between records."""
    return [
        part for line in lines for part in (f"QUERY PLAN{bar}{line}", *bar.count("│") * ["───┼───"])
    ]


#: Wrappings of lines of a plan in text, by name.
FRAMES = {
    "bare": lambda lines: lines,
    "psql": lambda lines: table(lines, ASCII, 1),
    "border 0": lambda lines: table(lines, ASCII, 0),
    "border 2": lambda lines: table(lines, ASCII, 2),
    "unicode": lambda lines: table(lines, UNICODE, 1),
    "unicode 2": lambda lines: table(lines, UNICODE, 2),
    "expanded": expanded,
    "csv": as_csv,
    "datagrip": comma_quoted,
    "all quoted": lambda lines: ['"QUERY PLAN"', *(f'"{line}"' for line in lines)],
    "tuples": lambda lines: [repr((line,)) for line in lines],
    "dbeaver": lambda lines: [
        "QUERY PLAN".ljust(150) + "|", "-" * 150 + "+", *(line.ljust(150) + "|" for line in lines)
    ],
    "backticks": lambda lines: [f"`{line}`" for line in lines],
    "grouped": grouped,
    "markdown": lambda lines: ["| QUERY PLAN |", "| :--- |", *(f"| {line} |" for line in lines)],
    "json rows": lambda lines: json.dumps([{"QUERY PLAN": item} for item in lines]).split("\n"),
    "mail": mail,
    "terminal": hard_wrapped,
    "list": lambda lines: [repr([(line,) for line in lines])],
    "string": lambda lines: [repr("\n".join(lines))],
    "inspect": lambda lines: ["[", *(f"  {{ 'QUERY PLAN': {line!r} }}," for line in lines), "]"],
    "page": lambda lines: page(["QUERY PLAN"], [[line] for line in lines]),
    "notebook page": notebook_page,
    "wrapped": wrapped,
    "row numbers": row_numbers,
    "joined": joined,
    "escaped": escaped,
    "one line": lambda lines: [" ".join(lines)],
    "collapsed": lambda lines: [" ".join(" ".join(lines).split())],
    "cell": cell,
    "asciidoc": asciidoc,
    "named": lambda lines: named(lines, " │ "),
    "unaligned": lambda lines: named(lines, "|"),
    "tabs": lambda lines: named(lines, "\t"),
    "framed": lambda lines: table(lines, ASCII, 2)[3:-1],
    "closed": lambda lines: [line[2:] for line in table(lines, ASCII, 2)[3:-1]],
    "decimal commas": decimal_commas,
    "figures below": figures_below,
    "java": java,
    "javascript": javascript,
    "python": lambda lines: ["import x", f"SLOW = {json.dumps(chr(10).join(lines))}", "x.y(1)"],
    "verbatim": lambda lines: f'class A {{\n var a = @"{chr(10).join(lines)}";\n}}'.split("\n"),
}  # fmt: skip
#: Wrappings that apply to any lines.
AROUND = {
    "nothing": lambda lines: lines,
    "quoted": lambda lines: [f"> {line}" for line in lines],
    "twice quoted": lambda lines: ["On Monday somebody wrote:", *(f">> {line}" for line in lines)],
    "fence": lambda lines: ["Here it is:", "```", *lines, "```", "Any ideas?"],
    "indented": lambda lines: [f"    {line}" for line in lines],
    "html": lambda lines: ["<pre>", *(html.escape(line) for line in lines), "</pre>"],
    "comment": lambda lines: [f"-- {line}" for line in lines],
    "session": lambda lines: ["db=# \\timing on", "Timing is on.", *lines, "", "Time: 8.1 ms"],
    "bars": lambda lines: [f"| {line}" for line in lines],
    "arrows": lambda lines: [line.replace("->", "→") for line in lines],
    "blocks": lambda lines: [f"<div>{html.escape(line)}</div>" for line in lines],
    "spaced": lambda lines: [part for line in lines for part in (line, "")],
    "numbers": lambda lines: [f"{at:<4} {line}" for at, line in enumerate(lines)],
    "blanks": lambda lines: [line.replace("  ", "\u00a0 ") for line in lines],
}


def zipped(content):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("plan.txt", content)
    return out.getvalue()


PACKED = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zip": zipped,
}
ENCODINGS = ("utf-8", "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be")
NAMES = ("plan.txt", "plan.sql", "plan.json", "x.csv", "postgresql.log", "paste")

#: Prefixes that log shippers put before each line of a server's log.
SHIPPED = {
    "stderr": "{line}",
    "compose": "db-1  | {line}",
    "kubectl": "2026-11-23T10:00:01.100000000Z {line}",
    "cri": "2026-11-23T10:00:01.100000000Z stderr F {line}",
    "syslog": "Nov 23 10:00:01 db1 postgres[42]: [7-{at}] {line}",
    "heroku": "2026-11-23T10:00:01+00:00 app[postgres.4]: [DATABASE] [7-{at}]  {line}",
}


def log_lines(of, statement="select * from orders o order by id"):
    """auto_explain's message, followed by another message."""
    begin = "2026-11-23 10:00:01.100 UTC [42] app@dw LOG:  "
    message = [f"duration: {of.elapsed_ms:.3f} ms  plan:", f"Query Text: {statement}"]
    message += text_lines(of)[:-2]
    body = [message[0], *(f"\t{line}" for line in message[1:])]
    return begin, message, [begin + body[0], *body[1:], f"{begin}checkpoint starting: time"]


def record_lines(of, form):
    """The same messages as records of CSV or JSON."""
    begin, message, _ = log_lines(of)
    reported = "\n".join(message)
    if form == "csvlog":
        row = [""] * 26
        row[0], row[3], row[11], row[13] = "2026-11-23 10:00:01.100 UTC", "42", "LOG", reported
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerow(row)
        return out.getvalue().rstrip("\n").split("\n")
    record = {"timestamp": "2026-11-23 10:00:01.100 UTC", "pid": 42, "error_severity": "LOG",
              "message": reported}  # fmt: skip
    line = begin + reported.replace("\n", "\n\t")
    wrapped = {
        "jsonlog": record,
        "cnpg": {"level": "info", "msg": "record", "record": record},
        "cloudsql": {"insertId": "x", "severity": "INFO", "textPayload": line},
        "fluent bit": {"date": 1.5, "log": line + "\n", "stream": "stderr"},
        "azure": {"category": "PostgreSQLLogs", "properties": {"message": line}},
    }
    if form == "docker":
        return [json.dumps({"log": f"{part}\n"}) for part in line.split("\n")]
    return [json.dumps(wrapped[form])]


RECORDS = ("csvlog", "jsonlog", "cnpg", "docker", "cloudsql", "fluent bit", "azure")


def statement_rows(of, calls, version):
    """Row of pg_stat_statements: the sums over ``calls`` calls."""
    total, mean = (
        ("total_time", "mean_time") if version < 13 else ("total_exec_time", "mean_exec_time")
    )
    row = {
        "userid": 10, "dbid": 16384, "queryid": -6172391024018236541,
        "query": "select region, count(distinct amount) from sales group by region",
        "calls": calls, total: round(calls * of.elapsed_ms, 3), mean: of.elapsed_ms,
        "temp_blks_read": calls * of.read, "temp_blks_written": calls * of.written,
    }  # fmt: skip
    if version >= 15:
        row["temp_blk_read_time"] = round(calls * of.read_ms, 3)
        row["temp_blk_write_time"] = round(calls * of.write_ms, 3)
    return row


def drawn_table(row, style, border):
    """psql's table of several columns."""
    bar, dash, joint, _ = style
    names, values = list(row), [str(value) for value in row.values()]
    widths = [max(len(name), len(value)) for name, value in zip(names, values, strict=True)]
    joined = f" {bar} ".join
    head = joined(name.center(width) for name, width in zip(names, widths, strict=True))
    body = joined(value.ljust(width) for value, width in zip(values, widths, strict=True))
    rule = joint.join(dash * (width + 2) for width in widths)
    if border == 1:
        return [f" {head} ", rule, f" {body} ", "(1 row)"]
    edge = f"+{rule}+" if bar == "|" else None
    frame = [edge] if edge else [f"┌{rule.replace('┼', '┬')}┐"]
    last = [edge] if edge else [f"└{rule.replace('┼', '┴')}┘"]
    inner = edge or f"├{rule}┤"
    return [*frame, f"{bar} {head} {bar}", inner, f"{bar} {body} {bar}", *last]


def statement_lines(draws, row):
    how = draws.choice(
        ("csv", "semicolons", "json", "lines", "psql", "unicode", "border 2", "expanded", "page")
    )
    if how in ("csv", "semicolons"):
        out = io.StringIO()
        writer = csv.DictWriter(out, list(row), delimiter="," if how == "csv" else ";",
                                lineterminator="\n")  # fmt: skip
        writer.writeheader()
        writer.writerow(row)
        return how, out.getvalue().rstrip("\n").split("\n")
    if how in ("json", "lines"):
        return how, [json.dumps([row] if how == "json" else row)]
    if how == "page":
        return how, page(list(row), [row.values()])
    if how == "expanded":
        width = max(map(len, row))
        fields = [f"{name.ljust(width)} | {value}" for name, value in row.items()]
        return how, ["-[ RECORD 1 ]" + "-" * 30, *fields]
    style = UNICODE if how == "unicode" else ASCII
    return how, drawn_table(row, style, 2 if how == "border 2" else 1)


def draw(seed):
    """One file, from a seed."""
    draws = random.Random(seed)
    of = truth(draws)
    kind = draws.choice(("text", "text", "text", "json", "log", "records", "statements"))
    around = draws.choice(list(AROUND))
    if kind == "text":
        frame = draws.choice(list(FRAMES))
        name = draws.choice(("Execution Time", "Execution time", "Total runtime"))
        lines, how = FRAMES[frame](text_lines(of, name)), [frame, name]
    elif kind == "json":
        frame = draws.choice(
            ("bare", "psql", "unicode", "csv", "sql above", "page", "plus", "python", "typescript")
        )
        inner = json.dumps([nodes(of)], indent=2).split("\n")
        lines = {
            "bare": inner,
            "psql": table(inner, ASCII, 1, " +"),
            "unicode": table(inner, UNICODE, 1, "↵"),
            "csv": ["QUERY PLAN", *doubled(inner)],
            "python": [repr([(json.loads("\n".join(inner)),)])],
            "page": page(["QUERY PLAN"], [["\n".join(inner)]]),
            "typescript": typescript(nodes(of)),
            "plus": [
                *(f" {line.ljust(60)} +" for line in inner[:-1]),
                f" {inner[-1]}",
                "(1 ligne)",
            ],
            "sql above": ["EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)", "select 1;", "", *inner],
        }[frame]
        how = [frame]
    elif kind == "log":
        shipped = draws.choice(list(SHIPPED))
        tab = "#011" if shipped == "syslog" else "\t"
        lines = [
            SHIPPED[shipped].format(line=line.replace("\t", tab), at=at)
            for at, line in enumerate(log_lines(of)[2], 1)
        ]
        how, around = [shipped], draws.choice(("nothing", "nothing", "fence"))
    elif kind == "records":
        form = draws.choice(RECORDS)
        lines, how, around = record_lines(of, form), [form], "nothing"
    else:
        row = statement_rows(of, draws.randint(1, 900), draws.randint(15, 18))
        frame, lines = statement_lines(draws, row)
        how, around = [frame], draws.choice(("nothing", "fence", "quoted", "indented"))
    if how[0] in ("list", "string", "inspect", "python") and around not in ("fence", "quoted"):
        around = "nothing"
    if how[0] == "page" and around in ("html", "arrows", "comment", "blanks", "blocks"):
        around = "nothing"
    if around in ("html", "blocks", "numbers") and (
        kind == "json" or how[0] in ("json rows", "escaped")
    ):
        around = "nothing"
    if around in ("blanks", "arrows", "comment") and how[0] in ("json rows", "tuples", "expanded"):
        around = "nothing"
    text = "\n".join(AROUND[around](lines)) + "\n"
    ends, encoding = draws.choice(("\n", "\n", "\r\n")), draws.choice(ENCODINGS)
    packed = draws.choice(("", "", "", "", *PACKED))
    content = PACKED[packed](text.replace("\n", ends).encode(encoding))
    how += [around, repr(ends), encoding, packed]
    return Disguised(kind, tuple(how), draws.choice(NAMES) + packed, content, of)
