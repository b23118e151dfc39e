"""Plans of real servers: every format has the same figures, which are the server's counts."""

import functools
import json
import re

import pytest

from cases import cases
from plans import (
    AGGREGATE,
    DISTINCT,
    HASH,
    NEWEST,
    PARALLEL,
    SORT,
    explain,
    psql_json,
    tables,
)
from spillcast.errors import EvidenceAmbiguous, NoTempIo
from spillcast.evidence.postgres.document import read_documents
from spillcast.evidence.postgres.nodes import SIZES_NOTE, count_disk_sizes, nodes_of
from spillcast.evidence.postgres.plan import counts_of_plan, read_plan
from spillcast.evidence.postgres.statements import read_statements
from spillcast.evidence.postgres.text import documents_of_text
from spillcast.evidence.selection import Selection

COMMON = f"with c as materialized ({SORT}) select count(*) from c, c d where c.id = d.id"
QUERIES = {
    "sort": (SORT, ()),
    "hash": (HASH, ()),
    "aggregate": (AGGREGATE, ("set enable_sort = off",)),
    "distinct": (DISTINCT, ()),
    "parallel sort": (SORT, PARALLEL),
    "parallel hash": (HASH, (*PARALLEL, "set work_mem = '128kB'")),
    "common table": (COMMON, ()),
    "nested loop": (f"select * from ({SORT} offset 49995) s left join small on small.k > s.k", ()),
    "set operation": (f"select k from ({SORT} offset 9) s intersect select k from small", ()),
    "init plan": (f"select * from small where k > (select avg(x.k) from ({SORT}) x)", ()),
}  # fmt: skip
#: Keys of FORMAT JSON that the text has, too, with values that a second run repeats.
KEYS = (
    "Node Type", "Parallel Aware", "Plan Rows", "Plan Width", "Actual Loops", "Subplan Name",
    "CTE Name", "Sort Method", "Sort Space Type", "Hash Buckets", "Original Hash Buckets",
    "Hash Batches", "Original Hash Batches", "HashAgg Batches", "Planned Partitions",
    "Workers Planned", "Workers Launched",
)  # fmt: skip
#: Keys whose values do not depend on how the work was divided among processes.
ALONE = ("Temp Read Blocks", "Temp Written Blocks", "Sort Space Used", "Disk Usage",
         "Peak Memory Usage", "Maximum Storage")  # fmt: skip


@pytest.fixture(scope="module", params=NEWEST, ids=lambda i: i.version)
def server(request):
    loaded = {"shared_preload_libraries": "pg_stat_statements", "work_mem": "512kB"}
    with tables(request.param, rows=50_000, **loaded) as connection:
        connection.execute("create extension pg_stat_statements")
        yield connection


def answer(counts):
    return {op: (its.count, its.bytes) for op, its in counts.by_op}


def nodes(plan):
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


@functools.cache
def explained_alike(server, query, before):
    """Plans of two runs in both formats, made once for all tests.

    On a busy machine a worker may start when no rows are left.
    """
    for _ in range(20):
        as_json = explain(server, query, "format json", before=before)
        [as_text] = documents_of_text(explain(server, query, before=before))
        loops = [
            [node["Actual Loops"] for node in nodes(document["Plan"])]
            for document in (as_json, as_text)
        ]
        if loops[0] == loops[1]:
            break
    return as_json, as_text


@cases("name", QUERIES)
def test_whole_lines_read_as_lines_that_may_be_broken_do(server, name):
    query, before = QUERIES[name]
    lines = explain(server, query, before=before)
    # No line of a plan is blank.
    assert documents_of_text([*lines, ""]) == documents_of_text(lines)


@cases("name", QUERIES)
def test_text_and_json_agree(server, name):
    as_json, as_text = explained_alike(server, *QUERIES[name])
    keys = KEYS if name.startswith("parallel") else KEYS + ALONE
    pairs = zip(nodes(as_json["Plan"]), nodes(as_text["Plan"]), strict=True)
    for item, other in pairs:
        reported = {key: other[key] for key in keys if key in other}
        assert reported == {key: item.get(key) for key in reported}
        missing = {key for key in keys if key in item} - set(reported)
        assert missing <= {"Parallel Aware"}
    assert as_text["Settings"] == as_json["Settings"]
    # With several processes, the share of each differs from run to run.
    several = 3 if name.startswith("parallel") else 1
    for document in (as_json, as_text):
        assert 1 <= counts_of_plan(document).processes <= several


@cases("name", QUERIES)
def test_node_blocks_add_up_to_the_total(server, name):
    top = nodes_of(explained_alike(server, *QUERIES[name])[0]["Plan"])
    apart = sum(node.temp.blocks for node in top.walk())
    assert apart == pytest.approx(top.all_temp.blocks, rel=0.01)


#: Rows that are kept on disk and read again, by other executions or other scans.
KEPT = [
    "select count(b.t) from (select 1 from small limit 9) s left join big b on b.k <> 0",
    "with c as materialized (select * from big) select count(*) from c, c d where c.id = d.id",
    "with c as materialized (select * from big) select count(*) from small s, c where s.id < 10",
]


@cases("query", KEPT)
def test_kept_rows_are_written_once_also_by_their_sizes(server, query):
    if server.info.server_version < 180_000:
        pytest.skip("older versions do not show the sizes of kept rows")
    counted = explain(server, query, "format json")["Plan"]
    lines = [line for (line,) in server.execute(f"explain (analyze, buffers off) {query}")]
    [document] = documents_of_text(lines)
    assert count_disk_sizes(document["Plan"])
    for name in ("Temp Read Blocks", "Temp Written Blocks"):
        assert document["Plan"][name] == pytest.approx(counted[name], rel=0.05)
    assert counted["Temp Written Blocks"] > 100


def test_counts_and_times_match_pg_stat_statements(server, tmp_path):
    for name in ("sort", "hash", "distinct"):
        query, before = QUERIES[name]
        server.execute("reset all")
        server.execute("select pg_stat_statements_reset()")
        for statement in before:
            server.execute(statement)
        for _ in range(2):
            server.execute(query)
        path = tmp_path / f"{name}.csv"
        export(server, path)
        counted = read_statements(path)
        planned = counts_of_plan(explain(server, query, "format json", before=before))
        assert answer(counted) == answer(planned)
        assert counted.statement.calls == 2
        assert 0 < counted.total_s < counted.elapsed_s


def export(server, path):
    """The command of the documentation: a CSV file with a heading."""
    copy = "copy (select * from pg_stat_statements) to stdout csv header"
    with server.cursor().copy(copy) as rows:
        path.write_bytes(b"".join(bytes(row) for row in rows))


def test_json_rows_of_pg_stat_statements_are_read(server, statements_of):
    server.execute("select pg_stat_statements_reset()")
    server.execute("reset all")
    server.execute(SORT)
    server.execute(HASH)
    requested = "select queryid, query, row_to_json(s)::text from pg_stat_statements s"
    rows = {query: (str(queryid), row) for queryid, query, row in server.execute(requested)}
    for query in (SORT, HASH):
        queryid, _ = rows[query]
        item = statements_of("\n".join(row for _, row in rows.values()), queryid=queryid)
        documents = json.dumps([json.loads(row) for _, row in rows.values()])
        assert answer(statements_of(documents, queryid=queryid)) == answer(item)
        assert answer(item) == answer(counts_of_plan(explain(server, query, "format json")))


@cases("form", ["xml", "yaml"])
@cases("name", ["sort", "parallel sort", "common table"])
def test_other_formats_have_the_nodes_of_json(server, tmp_path, form, name):
    query, before = QUERIES[name]
    path = tmp_path / "plan"
    path.write_text("\n".join(explain(server, query, f"format {form}", before=before)))
    [document] = read_documents(path)
    as_json = explain(server, query, "format json", before=before)
    kinds = [[node["Node Type"] for node in nodes(item["Plan"])] for item in (document, as_json)]
    assert kinds[0] == kinds[1]
    assert document["Settings"] == as_json["Settings"]
    blocks = [item["Plan"]["Temp Written Blocks"] for item in (document, as_json)]
    # Of several processes, those that got fewer rows may not spill.
    assert min(blocks) > 0
    assert name.startswith("parallel") or blocks[0] == pytest.approx(blocks[1], rel=0.2)
    assert read_plan(path).total_s > 0


def quoted(text):
    return text.replace('"', '""')


def test_output_decorated_by_psql_or_a_client_is_read(server, tmp_path):
    document = explain(server, SORT, "format json")
    lines = explain(server, SORT)
    expected = answer(counts_of_plan(document))
    forms = {
        "plain.json": json.dumps([document]),
        "bare.json": json.dumps(document),
        "psql.txt": psql_json(document),
        "crlf.txt": psql_json(document).replace("\n", "\r\n"),
        "text.txt": "\n".join(lines),
        "psql-text.txt": "\n".join(["QUERY PLAN", "-" * 40, *(f" {line}" for line in lines), ""]),
        "pgadmin.csv": "\n".join(['"QUERY PLAN"', *(f'"{quoted(line)}"' for line in lines)]),
        "cell.csv": f'QUERY PLAN\n"{quoted(json.dumps([document], indent=1))}"\n',
    }  # fmt: skip
    for name, text in forms.items():
        path = tmp_path / name
        path.write_bytes(text.encode())
        assert answer(read_plan(path)) == expected, name


@cases("form", ["text", "json"])
def test_a_log_of_auto_explain(server, tmp_path, form):
    expected = answer(counts_of_plan(explain(server, SORT, "format json")))
    path = tmp_path / "postgresql.log"
    path.write_text(logged(server, form, SORT, "select 1"))
    counts = read_plan(path)
    assert (counts.statement.query, counts.statement.most_of) == (SORT, 1)
    assert answer(counts) == expected
    times_ms = re.findall(r"duration: ([\d.]+) ms", path.read_text())
    assert len(times_ms) >= 2
    assert counts.elapsed_s == pytest.approx(max(map(float, times_ms)) / 1e3)
    # Several that spill are listed, and are selected by number.
    path.write_text(logged(server, form, DISTINCT, SORT, "select 1"))
    with pytest.raises(EvidenceAmbiguous, match=r"3 runs(?s:.)*select count\(distinct"):
        read_plan(path)
    chosen = read_plan(path, Selection(item=2)).statement
    assert (chosen.query, chosen.most_of) == (SORT, 1)


def logged(server, form, *queries):
    """auto_explain's messages about queries, as a server's log has them."""
    notices = []

    def take(notice):
        notices.append(notice.message_primary)

    server.execute("reset all")
    server.add_notice_handler(take)
    for setting in ("log_min_duration = 0", "log_analyze = on", "log_buffers = on",
                    f"log_format = {form}"):  # fmt: skip
        server.execute("load 'auto_explain'")
        server.execute(f"set auto_explain.{setting}")
    server.execute("set client_min_messages = log")
    for query in queries:
        server.execute(query)
    server.execute("set client_min_messages = error")
    server.execute("set auto_explain.log_min_duration = -1")
    server.remove_notice_handler(take)
    # A log has a prefix, and a tab before each continuation line.
    lines = ("2026-11-21 02:38:45 UTC [815] LOG:  " + notice for notice in notices)
    return "".join(line.replace("\n", "\n\t") + "\n" for line in lines)


@cases("name", QUERIES)
def test_measured_temp_io_is_within_the_bounds_of_a_plan_without_times(server, name):
    query, before = QUERIES[name]
    before = (*before, "set track_io_timing = on")
    document = explain(server, query, "format json", before=before)
    timed = counts_of_plan(document)
    if timed.time_bounds:
        pytest.skip("this version does not time temp I/O")
    for node in nodes(document["Plan"]):
        for io in ("Read", "Write"):
            node.pop(f"Temp I/O {io} Time")
    within = counts_of_plan(document).time_bounds
    assert timed.total_s / timed.processes <= within.upper
    if name not in {"parallel sort", "parallel hash"}:
        assert within.upper < timed.elapsed_s


#: Sorts on disk whose rows are not all fetched.
FETCHED_IN_PART = [
    "select * from (select * from big order by t limit 30000) s order by k limit 1",
    "select * from (select * from big order by k + 0) b join "
    "(select * from small where k < 100000 order by k + 0) s on b.k + 0 = s.k + 0",
]


@cases("query", FETCHED_IN_PART)
def test_without_buffers_a_sort_may_read_only_rows_that_are_fetched(server, query):
    joins = [f"set enable_{name} = off" for name in ("hashjoin", "nestloop", "material")]
    # Enough memory for a single merge.
    before = (*joins, "set enable_mergejoin = on", "set work_mem = '2MB'")
    counted = explain(server, query, "format json", before=before)["Plan"]
    lines = [line for (line,) in server.execute(f"explain (analyze, buffers off) {query}")]
    [document] = documents_of_text(lines)
    assert count_disk_sizes(document["Plan"])
    bounds = counts_of_plan({**document, "Notes": [SIZES_NOTE]}).io_bounds
    assert bounds.lower.reads.count <= counted["Temp Read Blocks"]


def test_without_buffers_nodes_that_never_ran_did_not_spill(server):
    query = f"select * from small join ({SORT}) s on s.id = small.id where small.id < 0"
    server.execute("reset all")
    lines = [line for (line,) in server.execute(f"explain (analyze, buffers off) {query}")]
    [document] = documents_of_text(lines)
    never = [node["Node Type"] for node in nodes(document["Plan"]) if not node["Actual Loops"]]
    assert {"Hash", "Sort"} & set(never)
    with pytest.raises(NoTempIo):
        counts_of_plan(document)


def test_without_buffers_further_sorts_of_grouping_sets_are_named(server):
    query = "select k, t, count(*) from big group by grouping sets ((k), (t))"
    before = ("set enable_hashagg = off",)
    counted = explain(server, query, "format json", before=before)["Plan"]
    lines = [line for (line,) in server.execute(f"explain (analyze, buffers off) {query}")]
    [document] = documents_of_text(lines)
    assert count_disk_sizes(document["Plan"])
    assert document["Plan"]["Temp Written Blocks"] < 0.6 * counted["Temp Written Blocks"]
    counts = counts_of_plan({**document, "Notes": [SIZES_NOTE]})
    assert any("Aggregate" in note for note in counts.notes)


# Only VERBOSE shows that the aggregate of "distinct" sorts its rows.
@cases("name", [name for name in QUERIES if name != "distinct"])
def test_without_buffers_bounds_contain_the_counts_of_the_server(server, name, tmp_path):
    query, before = QUERIES[name]
    document = explain(server, query, "format json", before=before)
    counted = counts_of_plan(document)
    for node in nodes(document["Plan"]):
        for process in [node, *node.get("Workers", ())]:
            for key in [key for key in process if key.startswith("Temp ")]:
                del process[key]
    (tmp_path / "plan.json").write_text(json.dumps([document]))
    result = read_plan(tmp_path / "plan.json")
    least, most = result.io_bounds.lower, result.io_bounds.upper
    assert least.reads.count <= counted.reads.count <= most.reads.count
    assert least.writes.count <= counted.writes.count <= most.writes.count


def test_batches_that_fit_the_buffers_of_their_files_are_not_written(server):
    """The planner expects a third of the rows; LIMIT ends the query in the first batch."""
    few = "select * from big join (select id from big where id + 0 < 300) few using (id) limit 1"
    before = ("set work_mem = '64kB'", "set enable_mergejoin = off", "set enable_nestloop = off")
    document = explain(server, few, "format json", before=before)
    assert max(node.get("Hash Batches", 1) for node in nodes(document["Plan"])) > 1
    with pytest.raises(NoTempIo):
        counts_of_plan(document)


def test_plans_without_times_name_the_setting_that_adds_them(server):
    document = explain(server, SORT, "format json", before=("set track_io_timing = off",))
    within = counts_of_plan(document).time_bounds
    assert 0 < within.lower < within.upper <= document["Execution Time"] / 1e3
    assert "track_io_timing" in within.remedy
    counts = counts_of_plan(document, timed=False)
    assert counts.total_s == 0
