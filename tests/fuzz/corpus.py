"""Small real shapes of all evidence that verbs read, each with its command lines."""

import gzip
import json
import shutil
from collections import namedtuple
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import ash_files
import fleet_files
import report_documents
import statement_files
from evidence import GAP_NS, recording, storage
from fuzz.figure_shapes import figures
from fuzz.mutate import zstd
from fuzz.trial import attempt
from io_made_up import oracle_general
from made_up import case
from spillcast.lab.case import Truth, write_truth
from spillcast.recording import schema
from spillcast.tables import Table, write_parquet
from text_plan import TEXT_PLAN

ROOT = Path(__file__).parents[2]
#: A folder of files, those to damage, and the commands that read them, run in the folder.
Shape = namedtuple("Shape", "name folder files commands")

LATENCY = ("--to", "latency:150us")
STATISTICS = "physical reads", "cell flash cache read hits for temp IO", "physical read IO requests"
#: Other files that a forecast of PostgreSQL's recordings reads.
SAMPLES = [
    {"time_ns": at * 250_000_000, "session": 7, "event": "BufFileRead" if at % 2 else None,
     "time_waited_us": 9, "weight_us": 250_000, "sql_id": "815"}
    for at in range(12)
]  # fmt: skip


def shapes(folder):
    """All shapes, written below ``folder``."""
    made = []

    def shape(name, *commands, write):
        place = folder / name
        place.mkdir(parents=True)
        write(place)
        files = [str(file.relative_to(place)) for file in sorted(place.rglob("*"))
                 if file.is_file() and not file.name.startswith(".")]  # fmt: skip
        made.append(Shape(name, place, files, [_words(command, folder) for command in commands]))

    for write in (_oracle, _postgres, _recordings, _storages, _caches, _fleets, _documents):
        write(shape)
    return made


def _words(command, folder):
    """A command line; ``@`` is replaced by the folder of all shapes, which is undamaged."""
    words = command.split() if isinstance(command, str) else command
    return [word.replace("@", f"{folder}/") for word in words]


def _oracle(shape):
    figures(shape)

    def trace(name, pack=bytes):
        def write(place):
            path = fleet_files.write_trace(place / "x.trc", fleet_files.waits(7, 30))
            content = path.read_bytes()
            path.unlink()
            (place / name).write_bytes(pack(content))

        return write

    reads = (
        "profile {} --by event,size,second --histogram --json",
        "profile {} --by event,sql,file,object,session --csv",
        "forecast {} --to latency:150us --elapsed 20s --json",
        "report {} --to latency:1ms -o page.html --redact",
        "export {} --format openmetrics",
        "cache {} --size 1M --json",
        "ingest {} -o out --json",
    )
    shape("trace", *(item.format("x.trc") for item in reads),
          ("profile", "x.trc", "--sql", "from waits", "--json"), "profile --lenient x.trc",
          "report x.trc -o page.html --json", write=trace("x.trc"))  # fmt: skip
    for name, pack in (("x.trc.gz", gzip.compress), ("x.trc.zst", zstd)):
        shape(f"trace-{name[6:]}", *(item.format(name) for item in reads), write=trace(name, pack))

    def ash(place):
        together = {"qc_session_id": 35, "qc_instance_id": 1}
        several = [ash_files.execution(12, session_id=n, **together) for n in (35, 36)]
        ash_files.write_ash(place / "ash.csv", *several)

    def ash_parquet(place):
        ash(place)
        header, *lines = (place / "ash.csv").read_text().splitlines()
        rows = [dict(zip(header.split(","), line.split(","), strict=True)) for line in lines]
        table = pa.Table.from_pylist(rows)
        for name in ("SESSION_ID", "TIME_WAITED", "SQL_EXEC_ID"):
            at = table.schema.get_field_index(name)
            table = table.set_column(at, name, table[name].cast(pa.int64()))
        pq.write_table(table, place / "ash.parquet")
        (place / "ash.csv").unlink()

    for name, write in (("ash.csv", ash), ("ash.parquet", ash_parquet)):
        shape(
            name.replace(".", "-"),
            f"profile {name} --json",
            f"profile {name} --sql-id {ash_files.SQL_ID} --since 20:26",
            f"forecast {name} @trace/x.trc --to latency:150us --json",
            f"report {name} -o page.html",
            f"ingest {name} --database erp -o out --json",
            (
                "profile",
                name,
                "--sql",
                "select event, count(*) from samples group by all",
                "--json",
            ),
            write=write,
        )

    def statistics(place):
        lines = ["NAME,VALUE,PER_SECOND,ACCUMULATED"]
        lines += [f"{name},{n * 7000},{n * 100},{n * 9000}" for n, name in enumerate(STATISTICS, 1)]
        (place / "statistics.csv").write_text("\n".join([*lines, *lines[1:], ""]))
        rows = ('"NAME","VALUE"', '"db_block_size","16384"')
        (place / "spillcast_parameters.csv").write_text("\n".join(("", *rows, "")))

    shape(
        "statistics",
        "profile @trace/x.trc spillcast_parameters.csv --by size --json",
        "profile statistics.csv",
        "forecast @ash-csv/ash.csv statistics.csv --to latency:150us --json",
        ("profile", "statistics.csv", "--sql", "from statistics", "--json"),
        write=statistics,
    )


def _postgres(shape):
    def plan(name, text):
        return lambda place: (place / name).write_text(text)

    document = json.loads((ROOT / "examples" / "work-memory" / "plan.json").read_text())
    logged = "LOG:  duration: 2501.000 ms  plan:\n\tQuery Text: select 1\n"
    plans = {
        "plan.json": json.dumps(document, indent=1),
        "plan.txt": TEXT_PLAN,
        "server.log": logged + "".join(f"\t{line}\n" for line in TEXT_PLAN.splitlines()[1:-3]),
    }
    for name, text in plans.items():
        shape(
            name.replace(".", "-"),
            f"forecast {name} --to latency:150us --to factor:7 --within 1s --json",
            f"forecast {name} --to latency:1ms --from latency:2ms",
            f"report {name} --to latency:1ms -o page.html",
            f"ingest {name} --database erp -o out --json",
            write=plan(name, text),
        )

    def statements(version):
        def write(place):
            rows = [statement_files.row(), statement_files.row(9, None, workers=2, blocks=30)]
            statement_files.export(place / "statements.csv", version, *rows)

        return write

    def statements_json(place):
        rows = [statement_files.row(), statement_files.row(9, None, workers=2, blocks=30)]
        (place / "statements.json").write_text(json.dumps(rows))

    makes = {f"statements-{v}": ("statements.csv", statements(v)) for v in (13, 15, 18)}
    makes["statements-json"] = ("statements.json", statements_json)
    for name, (file, write) in makes.items():
        shape(
            name,
            f"forecast {file} --queryid 815 --to latency:150us --from latency:2ms --json",
            f"forecast {file} --queryid 9 --to factor:2 --from latency:2ms",
            f"report {file} --queryid 815 --to latency:1ms -o page.html",
            write=write,
        )


def _recordings(shape):
    loads = [("write", 262_144, 12, 900_000), ("read", 65_536, 40, 300_000)]

    def single(place):
        _with_machine(recording(place / "run.spill", loads, elapsed_s=1.2, cpu_s=0.9))

    def threads(place):
        made = recording(place / "run.spill", loads, elapsed_s=1.2, cpu_s=0.9, sessions=2)
        _with_machine(made)
        path = made.path / "waits.parquet"
        table = made.waits
        count = table.num_rows
        for name, values in (
            ("blocked", [True] * count),
            ("cpu_before_ns", [GAP_NS] * count),
            ("woken_by", [None, 1] * (count // 2)),
        ):
            table = table.with_column(name, values)
        write_parquet(path, table)

    def sampled(place):
        _with_machine(recording(place / "run.spill", loads, elapsed_s=3.0, cpu_s=0.9))
        table = Table.from_rows(SAMPLES, schema.SAMPLES)
        write_parquet(place / "run.spill" / "samples.parquet", table)
        shutil.copy(ROOT / "examples" / "work-memory" / "plan.json", place / "run.spill")

    commands = (
        "profile run.spill --by event,size,file,second --histogram --json",
        "forecast run.spill --to latency:150us --to factor:7 --json",
        "forecast run.spill --to @storage/storage.json --within 1s --json",
        "forecast @recording/run.spill --to run.spill --json",
        "report run.spill --to latency:1ms -o page.html",
        "export run.spill --format perfetto",
        "export run.spill --format openmetrics",
        "cache run.spill --size 1M --json",
        "storage show run.spill --json",
        "ingest run.spill --database erp -o out --json",
        "probe --like run.spill --iolog run.log",
        "sweep io-size @storage/storage.json --like run.spill --json",
        "forecast run.spill --temp /t --to latency:150us --json",
        (
            "profile",
            "run.spill",
            "--sql",
            "select op, sum(bytes), max(elapsed_ns) from waits group by all",
        ),
    )
    for name, write in (("recording", single), ("threads", threads), ("sampled", sampled)):
        shape(name, *commands, write=write)


def _with_machine(made):
    """Adds to a recording's meta.json all that a real one has."""
    path = made.path / "meta.json"
    document = json.loads(path.read_text())
    cold = [[100_000, 6_693], [2_000_000, 15_537]]
    document["machine"] = {
        "host": "db1", "kernel": "6.18", "cpus": 2, "memory_bytes": 8 << 30,
        "memory_available_bytes": 4 << 30, "swap_bytes": 0, "calibration": None,
        "caches": [
            {"bytes": size, "warm_ns": 58_667, "cold_ns": cold} for size in (2 << 20, 8 << 20)
        ],
    }  # fmt: skip
    document["memory"] |= {"peak_rss_bytes": 1 << 24, "limit_bytes": 1 << 30}
    table = made.seconds
    moved, spent = (sum(table[name].to_pylist()) for name in ("bytes", "total_ns"))
    document["temp"] |= {"bytes": moved, "total_s": spent / 1e9}
    document["engine"] = {
        "name": "postgresql", "version": "18.1", "pid": 7, "query": "select 1", "work_mem": "4MB",
        "server": {"host": "db1", "port": 5432, "dbname": "erp", "user": "u"},
        "plan": {"file": "plan.json", "execution_s": 1.9},
    }  # fmt: skip
    document["started_at"] = "2026-11-21T02:38:45.333+00:00"
    path.write_text(json.dumps(document))


def _storages(shape):
    def write(place):
        sizes = [1 << power for power in range(13, 21)]
        latencies = {(op, size): 20_000 + size for op in ("read", "write") for size in sizes}
        made = storage(latencies)
        document = made.to_json()
        document["limits"] = [{"name": "iops", "read_random_ns": 9000.0, "burst_ns": 1e9}]
        document["servers"] = 4
        document["facts"] = {"directory": "/mnt", "filesystem": "ext4", "elapsed_s": 3.0}
        (place / "storage.json").write_text(json.dumps(document))

    shape(
        "storage",
        "storage show storage.json --json",
        "storage show storage.json --op read --size 24K",
        "storage compare storage.json @storage/storage.json catalogue:aws-gp3",
        "forecast @recording/run.spill --to storage.json --json",
        "forecast @threads/run.spill --to storage.json --json",
        "forecast @trace/x.trc --elapsed 20s --to storage.json",
        "forecast @plan-json/plan.json --to storage.json --from storage.json",
        "forecast @recording/run.spill --to cache:storage.json+@storage/storage.json?size=1M",
        "report storage.json -o page.html",
        "sweep io-size storage.json --data 64M --memory 4M --json",
        "cache @cache-csv/io.csv --size 1M --flash storage.json --disk catalogue:aws-gp3 --json",
        "fleet @dataset/fleet --to storage.json --json",
        write=write,
    )


def _caches(shape):
    def csv(place):
        lines = [f"0.{at},T,{at << 16},65536,scan,q" for at in range(9)]
        head = "time_s,object,offset,bytes,class,query"
        (place / "io.csv").write_text("\n".join((head, *lines, "1,I,0,8192,read,q", "")))

    shape("cache-csv", "cache io.csv --size 1M --json",
          "cache io.csv --size 256K --policy keep --keep T --temp-writes", write=csv)  # fmt: skip

    def general(place):
        oracle_general(place / "x.oracleGeneral", [1, 2, 3, 1, 2, 3, 9] * 4)
        packed = zstd((place / "x.oracleGeneral").read_bytes())
        (place / "x.oracleGeneral.zst").write_bytes(packed)

    shape("oracle-general", "cache x.oracleGeneral --size 16K --json",
          "cache x.oracleGeneral.zst --size 16K --json", write=general)  # fmt: skip


def _fleets(shape):
    def dataset(place):
        fleet_files.write_fleet(place / "traces", files=4, databases=2, count=20)
        sources = [place / "traces", place.parent / "recording", place.parent / "plan-json"]
        _printed(["ingest", *sources, "-o", "fleet", "--database", "erp"], place)
        shutil.rmtree(place / "traces")

    shape(
        "dataset",
        "fleet fleet --to latency:150us --json",
        "fleet fleet --to factor:3 --csv",
        "ingest @trace/x.trc -o fleet --json",
        write=dataset,
    )

    def many(place):
        ash_files.write_ash(place / "ash.csv", ash_files.execution(9))
        fleet_files.write_trace(place / "a.trc", fleet_files.waits(3, 9))
        recording(place / "run.spill", [("read", 8192, 4, 1000)], elapsed_s=1.0)
        (place / "plan.json").write_text(json.dumps([{"Plan": fleet_plan(), "Execution Time": 9}]))

    shape("sources", "ingest . -o out --database erp --json", write=many)


def fleet_plan():
    """A plan of a sort that spills."""
    times = {"Temp I/O Read Time": 3.0, "Temp I/O Write Time": 2.0}
    blocks = {"Temp Read Blocks": 600, "Temp Written Blocks": 605}
    return {"Node Type": "Sort", "Actual Rows": 9, "Actual Loops": 1, **blocks, **times}


def _documents(shape):
    def saved(document):
        return lambda place: (place / "x.json").write_text(json.dumps(document))

    def printed(command):
        def write(place):
            (place / "x.json").write_text(_printed(_words(command, place.parent), place))

        return write

    made = {
        "sweep-io-size": saved(report_documents.io_size_sweep()),
        "sweep-memory": saved(report_documents.memory_sweep()),
        "cache": saved(report_documents.cache()),
        "forecast": saved(report_documents.forecast()),
        "fleet": saved(report_documents.fleet()),
        "verify": lambda place: _cases(place),
        "profile": printed("profile @trace/x.trc --by event,size --histogram --json"),
        "forecasts": printed("forecast @threads/run.spill --to latency:1ms --to factor:2 --json"),
        "forecast-plan": printed("forecast @plan-json/plan.json --to latency:1ms --json"),
        "forecast-ash": printed("forecast @ash-csv/ash.csv @trace/x.trc --to latency:150us --json"),
        "storages": printed("storage show @storage/storage.json --json"),
        "fleets": printed("fleet @dataset/fleet --to factor:3 --json"),
        "caches": printed("cache @cache-csv/io.csv --size 1M --json"),
    }
    for name, write in made.items():
        shape(f"document-{name}", "report x.json -o page.html",
              "report x.json --redact -o page.html --json", write=write)  # fmt: skip

    def truth(place):
        _cases(place)
        (place / "x.json").unlink()

    shape("truth", "verify --from cases.parquet --json",
          "verify --from cases.parquet --markdown", write=truth)  # fmt: skip


def _cases(place):
    cases = [case(), case(9.0, threads=2), case(refused="lost waits"), case(seed_s=14.0)]
    about = {"seed": 0, "minutes": 1.0}
    write_truth(place / "cases.parquet", Truth(cases, about))
    printed = _printed(["verify", "--from", "cases.parquet", "--json"], place)
    (place / "x.json").write_text(printed)


def _printed(command, place):
    """The output of a verb for undamaged files."""
    outcome = attempt(command, place)
    assert outcome.kind == "answered", outcome
    printed = (place / "stdout").read_text()
    for name in ("stdout", "stderr"):
        (place / name).unlink()
    return printed
