"""SQL Monitor reports of an execution, as text, XML and active HTML, in their published formats."""

import base64
import zlib

#: The published case: 773 s, 338 samples on CPU, 418 and 12 in reads and writes of temp.
SQL_ID = "09bmj7j9q8a5z"
READS, WRITES, IO_BYTES = 46450, 43478, 31 * 8192
SAMPLES = {"Cpu": 338, "direct path read temp": 418, "direct path write temp": 12,
           "ASM IO for non-blocking poll": 5}  # fmt: skip
#: Operation, reads, writes, temp, samples; the scan has equally many reads of its table.
LINES = [
    ("SELECT STATEMENT", 0, 0, 0, {}),
    ("SORT AGGREGATE", 0, 0, 0, {"Cpu": 8}),
    ("HASH JOIN", READS, WRITES, 26 << 30, SAMPLES | {"Cpu": 300}),
    ("TABLE ACCESS FULL", 28_000, 0, 0, {"Cpu": 30}),
]
IO_S = 435.0


def xml(lines=LINES, *, elapsed_s=773, database_s=773, status="DONE (ALL ROWS)"):
    """The report as DBMS_SQLTUNE writes it: version 4.0, on one line but for the plan."""
    operations = "\n".join(_operation(at, *line) for at, line in enumerate(lines))
    reads, writes = sum(line[1] for line in lines), sum(line[2] for line in lines)
    stats = {
        "elapsed_time": round(database_s * 1e6), "cpu_time": 338_000_000,
        "user_io_wait_time": round(IO_S * 1e6), "buffer_gets": 3_600_000,
        "read_reqs": reads, "read_bytes": reads * IO_BYTES,
        "write_reqs": writes, "write_bytes": writes * IO_BYTES,
    }  # fmt: skip
    return (
        '<report db_version="19.0.0.0.0" elapsed_time="0.32" cpu_time="0.30" cpu_cores="4">'
        "<report_id><![CDATA[/orarep/sqlmonitor/main%3fsql_id%3d09bmj7j9q8a5z]]></report_id>"
        '<sql_monitor_report version="4.0" sysdate="10/14/2024 20:40:01"><report_parameters>'
        f"<sql_id>{SQL_ID}</sql_id></report_parameters>"
        f'<target instance_id="1" session_id="35" sql_id="{SQL_ID}" sql_exec_id="16777216">'
        '<sql_fulltext is_full="Y">select max(c.d) from (select a.*, b.n from t a, t b where '
        "a.id = b.id and a.x &lt; 'secret') c</sql_fulltext>"
        f"<status>{status}</status><duration>{elapsed_s}</duration></target>"
        f'<stats type="monitor">{_stats(stats)}</stats>'
        f"<plan_monitor>{operations}</plan_monitor></sql_monitor_report></report>"
    )


def active(report, *, packed=True):
    """The report within a page, as type => 'ACTIVE' returns it."""
    if packed:
        inner = report[report.index("<sql_monitor_report") : -len("</report>")]
        content = base64.encodebytes(zlib.compress(inner.encode())).decode()
        report = (
            '<report db_version="19.0.0.0.0" cpu_cores="4" encode="base64" compress="zlib">'
            f"<report_id><![CDATA[/orarep/sqlmonitor]]></report_id>\n{content}</report>"
        )
    return (
        '<html><head><meta charset="utf-8"/></head><body><script id="fxtmodel" type="text/xml">\n'
        f"<!--FXTMODEL-->\n{report}\n<!--FXTMODEL-->\n</script></body></html>"
    )


def _operation(at, name, reads, writes, temp, samples):
    words = name.split(" ", 1)
    known = {
        "first_active": "10/14/2024 20:26:03", "duration": 771, "starts": 1, "cardinality": 9,
        **({"max_temp": temp, "temp": 0} if temp else {}),
        **({"read_reqs": reads, "read_bytes": reads * IO_BYTES} if reads else {}),
        **({"write_reqs": writes, "write_bytes": writes * IO_BYTES} if writes else {}),
    }  # fmt: skip
    activity = "".join(
        f'<activity class="Cpu">{n}</activity>'
        if event == "Cpu"
        else f'<activity class="User I/O" event="{event}">{n}</activity>'
        for event, n in samples.items()
    )
    return (
        f'<operation id="{at}" name="{words[0]}" options="{(words[1:] or [""])[0]}" depth="{at}">'
        f'<stats type="plan_monitor">{_stats(known)}</stats>'
        f'<activity_sampled count="1">{activity}</activity_sampled></operation>'
    )


def _stats(stats):
    return "".join(f'<stat name="{name}">{value}</stat>' for name, value in stats.items())


def text(lines=LINES, *, elapsed_s=773, database_s=773, status="DONE (ALL ROWS)"):
    """The text report: rounded, with a table between rules and samples on lines of their own."""
    reads, writes = sum(line[1] for line in lines), sum(line[2] for line in lines)
    stats = _table(
        [("Elapsed", "Time(s)"), ("Cpu", "Time(s)"), ("IO", "Waits(s)"), ("Buffer", "Gets"),
         ("Read", "Reqs"), ("Read", "Bytes"), ("Write", "Reqs"), ("Write", "Bytes")],
        [[f"{database_s}", "338", f"{IO_S:g}", "4M", _count(reads), _bytes(reads * IO_BYTES),
          _count(writes), _bytes(writes * IO_BYTES)]],
    )  # fmt: skip
    rows = []
    for at, (name, reads, writes, temp, samples) in enumerate(lines):
        detail = [f"{event} ({n})" for event, n in samples.items()] or [""]
        rows.append(
            [f"{at}", name, "1", _count(reads), _bytes(reads * IO_BYTES), _count(writes),
             _bytes(writes * IO_BYTES), _bytes(temp), detail[0]]
        )  # fmt: skip
        rows += [["", "", "", "", "", "", "", "", item] for item in detail[1:]]
    plan = _table(
        [("Id", ""), ("Operation", ""), ("Execs", ""), ("Read", "Reqs"), ("Read", "Bytes"),
         ("Write", "Reqs"), ("Write", "Bytes"), ("Temp", "(Max)"),
         ("Activity Detail", "(# samples)")],
        rows,
    )  # fmt: skip
    return (
        "SQL Monitoring Report\n\nSQL Text\n------------------------------\n"
        "select max(c.d) from ( select a.*, b.n from t a, t b where a.id = b.id ) c\n\n"
        "Global Information\n------------------------------\n"
        f" Status              :  {status}\n Instance ID         :  1\n"
        f" SQL ID              :  {SQL_ID}\n SQL Execution ID    :  16777216\n"
        f" Duration            :  {elapsed_s}s\n\nGlobal Stats\n{stats}\n\n"
        f"SQL Plan Monitoring Details (Plan Hash Value=1234)\n{plan}\n"
    )


def _count(value):
    for unit, step in (("M", 1e6), ("", 1)):
        if value >= 10 * step:
            return f"{value / step:.0f}{unit}"
    return ""


def _bytes(value):
    for unit, step in (("GB", 1 << 30), ("MB", 1 << 20)):
        if value >= step:
            return f"{value / step:.0f}{unit}"
    return "."


def _table(heading, rows):
    cells = [[pair[0] for pair in heading], [pair[1] for pair in heading], *rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in cells]
    rule = "=" * len(lines[0])
    return "\n".join([rule, *lines[:2], rule, *lines[2:], rule])
