"""The work of every reader grows linearly with its input, not quadratically."""

import gc
import json
import sys
import time
import tracemalloc
from math import inf

import pytest

import ash_files
import fleet_files
import monitor_reports
import oracle_reports
import statement_files
from cases import cases
from evidence import storage
from spillcast.cache.evidence import read_requests
from spillcast.evidence.open import read_figures
from spillcast.evidence.oracle.ash import read_ash
from spillcast.evidence.oracle.collected import read_statistics
from spillcast.evidence.oracle.report_tables import bar_tables
from spillcast.evidence.postgres.logs import read_logs
from spillcast.evidence.postgres.plan import read_plan
from spillcast.evidence.postgres.statements import read_statements
from spillcast.evidence.selection import Selection
from spillcast.evidence.unwrap import unwrapped
from spillcast.forecast.oracle.evidence import read_traces
from spillcast.storage import Storage

#: For ten times the input, linear work takes ten times as long, quadratic work a hundred times.
FACTOR, BOUND = 10, 12
#: The bound for CPU times, which include cache effects, lies between both.
TIME_BOUND = 30
#: A busy machine only adds to CPU times: the minimum of this many runs is closest to the work.
RUNS_MIN, RUNS_MAX = 3, 30
SORT = {
    "Node Type": "Sort", "Actual Rows": 9, "Actual Loops": 1, "Actual Total Time": 2.0,
    "Temp Read Blocks": 600, "Temp Written Blocks": 605,
    "Temp I/O Read Time": 3.0, "Temp I/O Write Time": 2.0,
}  # fmt: skip
TEXT_SORT = """\
   ->  Sort  (cost=1.00..2.00 rows=9 width=49) (actual time=1.0..2.0 rows=9 loops=1)
         Sort Key: k
         Buffers: temp read=600 written=605
         I/O Timings: temp read=3.000 write=2.000
"""
APPEND = " Append  (cost=1.00..2.00 rows=9 width=49) (actual time=1.0..9.0 rows=9 loops=1)\n"


def plan_document(count):
    node = {
        **SORT, "Node Type": "Append", "Plans": [SORT] * count,
        **{name: value * count for name, value in SORT.items() if name.startswith("Temp")},
    }  # fmt: skip
    return [{"Plan": node, "Execution Time": 10.0 * count}]


def text_plan(count):
    totals = f"   Buffers: temp read={600 * count} written={605 * count}\n"
    totals += f"   I/O Timings: temp read={3 * count}.000 write={2 * count}.000\n"
    return f"{APPEND}{totals}{TEXT_SORT * count} Execution Time: {10 * count}.000 ms\n"


def server_log(count):
    """Temp files with their statements, and plans."""
    line = "2026-11-25 10:00:00.000 UTC [7] "
    lines = []
    for at in range(count):
        lines.append(
            f'{line}LOG:  temporary file: path "base/pgsql_tmp/pgsql_tmp7.{at}", size 8192'
        )
        lines.append(f"{line}STATEMENT:  select {at} from big order by k")
    return "\n".join([*lines, ""])


def ended_log(count):
    """Temp files followed by the end of a call that was too short to have written them."""
    line = "2026-11-25 10:00:00.000 UTC [7] LOG:  "
    files = (f'temporary file: path "b/pgsql_tmp7.{at}", size 81920' for at in range(count))
    return "".join(f"{line}{message}\n" for message in (*files, "duration: 0.005 ms"))


def quiet_log(count):
    """Plans of one statement that do not spill, each with seven nodes."""
    node = "Append  (cost=1.00..2.00 rows=9 width=49) (actual time=1.000..2.000 rows=9 loops=1)"
    plan = f"\t{node}\n\t  Buffers: shared hit=9\n"
    for depth in range(1, 7):
        indent = "\t" + " " * 6 * depth
        plan += f"{indent[:-4]}->  {node}\n{indent}  Buffers: shared hit=9\n"
    begin = "2026-11-25 10:00:00.000 UTC [7] LOG:  duration:"
    plan = f".000 ms  plan:\n\tQuery Text: select 1\n{plan}"
    return "".join(f"{begin} {at + 3}{plan}" for at in range(count))


def program(count):
    """Code with braces that are never opened, and a plan."""
    return f"""{'} "Plan": {' * count}}}
const plan = '{json.dumps(plan_document(1))}';
"""


def logged_plan(count):
    plan = "".join(f"\t{line}\n" for line in text_plan(count).splitlines()[:-1])
    return f"LOG:  duration: {2500 * count + 1}.000 ms  plan:\n\tQuery Text: select 1\n{plan}"


def statements(path, count):
    rows = [statement_files.row(number, f"select {number}") for number in range(count)]
    statement_files.export(path, 18, *rows)


def statements_json(path, count):
    rows = [statement_files.row(number, f"select {number}") for number in range(count)]
    path.write_text(json.dumps(rows))


def trace(path, count):
    fleet_files.write_trace(path, fleet_files.waits(7, count))


def ash(path, count):
    ash_files.write_ash(path, ash_files.execution(count))


def statistics(path, count):
    lines = [f"statistic {at},{at},1,{at}" for at in range(count)]
    path.write_text("\n".join(["NAME,VALUE,PER_SECOND,ACCUMULATED", *lines, ""]))


def blocks_of_tkprof(count):
    report = oracle_reports.tkprof()
    begins, ends = report.index("SQL ID:"), report.index("OVERALL")
    block = report[begins:ends]
    more = "".join(block.replace(oracle_reports.SQL_ID, f"s{at:012d}") for at in range(count))
    return oracle_reports.tkprof(more=more)


def statements_of_awr(write):
    def made(count):
        before = dict(oracle_reports.STATEMENTS)
        oracle_reports.STATEMENTS |= {f"s{at:012d}": (2, 15.0, 43.7, 32.0) for at in range(count)}
        try:
            return write()
        finally:
            oracle_reports.STATEMENTS.clear()
            oracle_reports.STATEMENTS |= before

    return made


def statspack(count):
    report = oracle_reports.statspack()
    line = next(line for line in report.splitlines(True) if "987654321" in line)
    more = "".join(line.replace("987654321", str(1_000_000_000 + at)) for at in range(count))
    return report.replace(line, line + more)


def rows_without_rules(count):
    return "".join(f"|  {at} | HASH JOIN |\n" for at in range(count))


def lines_of_monitor(write):
    return lambda count: write([*monitor_reports.LINES, *[monitor_reports.LINES[3]] * count])


def views(path, count):
    run, plan = oracle_reports.views(sessions=count)
    path.write_text(run)
    path.with_name("plan.csv").write_text(plan)


def duckdb_profile(count):
    operator = {"operator_type": "ORDER_BY", "operator_timing": 1.0, "children": []}
    top = {
        "latency": 9.0, "query_name": "select 1", "system_peak_temp_dir_size": 1 << 24,
        "total_bytes_written": 1 << 24, "cumulative_cardinality": 9, "children": [operator] * count,
    }  # fmt: skip
    return json.dumps(top)


def cache_csv(count):
    lines = [f"{at / 1000},T,{at << 16},65536,scan,q" for at in range(count)]
    return "\n".join(["time_s,object,offset,bytes,class,query", *lines, ""])


def grid(path, count):
    document = storage({("read", 8192): 20_000}).to_json()
    document["groups"] *= count
    path.write_text(json.dumps(document))


def text(made):
    return lambda path, count: path.write_text(made(count))


def read_first_statement(path):
    return read_statements(path, Selection(queryid="0"))


def figures_of(sql_id=oracle_reports.SQL_ID):
    return lambda path: read_figures([path], Selection(sql_id=sql_id, timed=False))


#: By kind: the file's name, a writer for a number of parts, a reader, and the smaller number.
READERS = {
    "plan-json": ("x.json", text(lambda n: json.dumps(plan_document(n))), read_plan, 300),
    "plan-text": ("x.txt", text(text_plan), read_plan, 300),
    "plan-logged": ("x.log", text(logged_plan), read_plan, 300),
    "server-log": ("x.log", text(server_log), read_logs, 50),
    "server-log-ended": ("x.log", text(ended_log), read_logs, 50),
    "program": ("x.js", text(program), lambda path: unwrapped(path.read_text()), 300),
    "statements-csv": ("x.csv", statements, read_first_statement, 60),
    "statements-json": ("x.json", statements_json, read_first_statement, 60),
    "trace": ("x.trc", trace, lambda path: read_traces([path]), 10_000),
    "ash": ("x.csv", ash, lambda path: read_ash([path]), 1_000),
    "statistics": ("x.csv", statistics, read_statistics, 1_000),
    "tkprof": ("x.txt", text(blocks_of_tkprof), figures_of(), 30),
    "awr": ("x.txt", text(statements_of_awr(oracle_reports.awr)), figures_of(), 300),
    "awr-html": ("x.html", text(statements_of_awr(oracle_reports.awr_html)), figures_of(), 100),
    "statspack": ("x.txt", text(statspack), figures_of("987654321"), 1_500),
    "bars": (
        "x.txt", text(rows_without_rules),
        lambda path: list(bar_tables(path.read_text().splitlines())), 5_000,
    ),
    "monitor-text": (
        "x.txt", text(lines_of_monitor(monitor_reports.text)), figures_of(None), 500,
    ),
    "monitor-xml": ("x.xml", text(lines_of_monitor(monitor_reports.xml)), figures_of(None), 300),
    "views": (
        "x.csv", views, lambda path: read_figures([path, path.with_name("plan.csv")]), 100,
    ),
    "duckdb-profile": ("x.json", text(duckdb_profile), figures_of(None), 2_000),
    "cache-csv": ("x.csv", text(cache_csv), lambda path: read_requests([str(path)]), 20_000),
    "storage": ("x.json", grid, Storage.load, 100),
}  # fmt: skip


def write_inputs(folder, name, write, count):
    """Inputs of a tenth of ``count`` parts, of ``count`` and of ten times as many."""
    for parts in (count // FACTOR, count, count * FACTOR):
        place = folder / f"{parts}"
        place.mkdir()
        write(place / name, parts)
        yield place / name


def cpu_s(read, path):
    gc.collect()
    began = time.process_time()
    read(path)
    return time.process_time() - began


def executed_lines(read, path):
    """The number of Python lines that a reader executes."""
    lines = 0

    def trace(_frame, event, _argument):
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        read(path)
    finally:
        sys.settrace(before)
    return lines


@cases("kind", READERS)
def test_ten_times_the_input_executes_at_most_twelve_times_the_lines(kind, tmp_path):
    """No loop over the input is nested in another; `make nightly` times what libraries do."""
    name, write, read, count = READERS[kind]
    least, less, more = write_inputs(tmp_path, name, write, max(count // FACTOR // 4, FACTOR))
    # The first run fills caches.
    read(least)
    fixed, fewer, many = (executed_lines(read, path) for path in (least, less, more))
    # Minus those of a tenth of the input, linear work executes eleven times as many.
    assert many - fixed <= BOUND * (fewer - fixed)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", READERS)
def test_ten_times_the_input_takes_at_most_thirty_times_the_time(kind, tmp_path):
    name, write, read, count = READERS[kind]
    paths = list(write_inputs(tmp_path, name, write, count))
    least_s = [inf] * len(paths)
    for turn in range(RUNS_MAX):
        taken_s = [cpu_s(read, path) for path in paths]
        least_s = [min(pair) for pair in zip(least_s, taken_s, strict=True)]
        # The smallest input gives the fixed time, which is subtracted from both.
        any_s, less_s, more_s = least_s
        if turn + 1 >= RUNS_MIN and more_s - any_s < TIME_BOUND * (less_s - any_s):
            return
    pytest.fail(f"{less_s - any_s:.4f} s, and of ten times the input {more_s - any_s:.4f} s")


def test_plans_that_do_not_spill_take_little_memory(tmp_path):
    (path := tmp_path / "a.log").write_text(quiet_log(300))
    read_logs(path)
    tracemalloc.start()
    logs = read_logs(path)
    kept_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # A node of a plan takes more than 500 bytes.
    assert len(logs.plans) == 300
    assert kept_bytes < 300 * 700
