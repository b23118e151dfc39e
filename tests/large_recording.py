"""A recording of a given number of waits, made by DuckDB: its sessions write, then read back."""

import json
from pathlib import Path

import duckdb

from spillcast.recording.meta import CaptureAccount, KeptWaits, Machine, Meta, Temp
from spillcast.recording.schema import SAMPLES
from spillcast.tables import Table, write_parquet

SPACE_NS = 240_000
#: With a page cache: FILE_WAITS waits of all threads write files, and as many read the last files
#: or, by turns, those of FILES_AGO files before, which have been evicted by then.
FILE_WAITS, FILES_AGO = 20_000, 40
AVAILABLE_BYTES = 2 << 30
#: Each session waits every 240 us: the latency is lognormal about 60 us, and waits never overlap.
WAITS = """
    select (i // {threads}) * {space} as start_ns, latency as elapsed_ns,
        4711 + i % {threads} as session,
        if(blocked, 'blocked', if(late, 'pread64', 'pwrite64')) as event,
        if(blocked, null, if(late, 'read', 'write')) as op, not blocked as temp,
        if(blocked, null, '/t/spill-' || i % {threads}) as file,
        if(blocked, null, (i // {threads}) * 8192) as "offset", if(blocked, null, 8192) as bytes,
        true as blocked, least(70000, {space} - latency) as cpu_before_ns,
        null::bigint as woken_by, null::varchar as sql_id, null::bigint as object,
        null::bigint as line
    from (
        select i, i % 20 = 7 as blocked, i > 0.4 * {count} as late,
            least(greatest(60000 * exp(0.7 * sqrt(-2 * ln(u)) * cos(2 * pi() * v)), 2000),
                  {space} - 1)::bigint as latency
        from (select range as i, (hash(range) % 1000000 + 1) / 1000001 as u,
                  (hash(range + 1000000007) % 1000000) / 1000000 as v from range({count}))
    )
"""
SECONDS = """
    select second, op, temp, size as size_class_bytes, sum(n)::bigint as count,
        sum(size * n)::bigint as bytes, sum(ns)::bigint as total_ns,
        list(bucket order by bucket) as latency_ns, list(n order by bucket) as latency_count
    from (
        select start_ns // 1000000000 as second, op, temp, bytes as size, count(*) as n,
            sum(elapsed_ns) as ns,
            (elapsed_ns // 1000 * 1000 + 500)::bigint as bucket
        from waits where temp group by all
    )
    group by all order by second, op
"""


#: The same, but most temp operations are as fast as memory.
CACHED_WAITS = """
    select * replace(
        if(late, 'pread64', 'pwrite64') as event, if(late, 'read', 'write') as op, true as temp,
        '/t/spill-' || session || '-' || number as file, block * 8192 as "offset", 8192 as bytes,
        if(late and number < of_file, elapsed_ns, 1500 + elapsed_ns // 60) as elapsed_ns,
        late and number < of_file as blocked)
    from (
        select *, nth % {half} as block, nth // {half} // 2 as of_file,
            nth // {half} % 2 = 1 as late,
            of_file - if(late and of_file % 2 = 1 and of_file >= {ago}, {ago}, 0) as number
        from (select *, start_ns // {space} as nth from ({rows}))
    )
"""


def write_large_recording(path, waits, threads=2, page_cached=False):
    """Writes the folder; its elapsed time is 240 us for each wait of a thread."""
    path = Path(path)
    path.mkdir()
    with duckdb.connect() as connection:
        connection.execute("set memory_limit = '600MB'")
        rows = WAITS.format(space=SPACE_NS, count=waits, threads=threads)
        if page_cached:
            rows = CACHED_WAITS.format(
                rows=rows, space=SPACE_NS, half=FILE_WAITS // threads, ago=FILES_AGO
            )
        connection.execute(f"copy ({rows}) to '{path}/waits.parquet' (compression zstd)")
    available = AVAILABLE_BYTES if page_cached else None
    return write_rest(path, waits, waits / threads * SPACE_NS / 1e9, available_bytes=available)


def write_rest(path, waits, elapsed_s, cpus=2, available_bytes=None):
    """Writes the other files of a recording whose waits are in the folder."""
    with duckdb.connect() as connection:
        connection.execute("set memory_limit = '600MB'")
        connection.execute(f"create view waits as from read_parquet('{path}/waits.parquet')")
        connection.execute(f"copy ({SECONDS}) to '{path}/seconds.parquet'")
        counts = connection.execute(
            "select count(*) filter (op = 'read'), count(*) filter (op = 'write'), "
            "coalesce(sum(bytes), 0), sum(elapsed_ns) filter (temp) / 1e9, "
            "sum(cpu_before_ns) / 1e9 from waits"
        ).fetchone()
    write_parquet(path / "samples.parquet", Table.empty(SAMPLES))
    reads, writes, size, total_s, cpu_s = counts
    meta = Meta(
        elapsed_s=elapsed_s,
        cpu_s=cpu_s,
        machine=Machine("big-box", cpus=cpus, memory_available_bytes=available_bytes),
        temp=Temp(reads, writes, int(size), total_s),
        capture=CaptureAccount("perf"),
        raw=KeptWaits(waits, waits, None),
    )
    (path / "meta.json").write_text(json.dumps(meta.to_json()))
    return path
