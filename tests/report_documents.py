"""Made-up documents of verbs, for the report: sweeps, caches and verifications."""

import json
import math

KIB, MIB = 1 << 10, 1 << 20


def io_size_sweep(storage="/mnt/nvme", like="run.spill"):
    """Reads that get cheaper with size up to 256 KiB, where the storage is saturated."""
    rows = []
    for power in range(3, 11):
        size = KIB << power
        count = (4 << 30) // size
        read_us, write_us = 80 + size / 500, 60 + size / 300 * max(1, size / (256 * KIB)) ** 0.4
        reads, writes = (
            {"count": count, "bytes": 4 << 30, "mean_us": us, "total_s": count * us / 1e6}
            for us in (read_us, write_us)
        )
        total_s = reads["total_s"] + writes["total_s"]
        rows.append(
            {
                "min_bytes": size, "max_bytes": size, "reads": reads, "writes": writes, "levels": 1,
                "total_s": total_s, "interval_s": [0.9 * total_s, 1.1 * total_s], "io": power,
            }
        )  # fmt: skip
    best = min(rows, key=lambda row: row["total_s"])
    return {
        "schema": "spillcast.sweep/1", "kind": "io-size", "storage": storage, "like": like,
        "measured": True, "confidence": 0.9, "rows": rows, "recorded": None, "as_good": [],
        "best": {key: best[key] for key in ("min_bytes", "max_bytes", "total_s", "interval_s")},
        "advice": [
            {"engine": "PostgreSQL", "text": "io_combine_limit = '256kB'", "statements": []}
        ],
        "warnings": [{"code": "extrapolated", "message": "1 MiB was not measured"}],
    }  # fmt: skip


def memory_sweep(storages=("tmpfs", "1 ms", "5 ms")):
    """Elapsed time that falls with memory, until nothing spills; later on slower storage."""
    points = []
    for number, storage in enumerate(storages):
        for power in range(4, 12):
            size = MIB << power
            spilled = max((1 << 30) - size, 0)
            elapsed_s = 5 + spilled / MIB * (0.002 + 0.02 * number)
            measured = power % 3 == 1
            points.append(
                {
                    "storage": storage, "memory_bytes": size, "measured": measured,
                    "elapsed_s": elapsed_s, "reads": spilled // 8192, "writes": spilled // 8192,
                    "interval_s": None if measured else [0.9 * elapsed_s, 1.1 * elapsed_s],
                    "state": "one-pass" if spilled else "none",
                    "passes": math.ceil(spilled / size), "batches": None,
                    "spilled_bytes": spilled, "histograms": None,
                }
            )  # fmt: skip
    return {
        "schema": "spillcast.sweep/1", "kind": "memory", "engine": "DuckDB", "workload": "sort",
        "confidence": 0.9, "points": points, "errors": [], "warnings": [],
        "turns": [{"storage": None, "memory_bytes": 1 << 30, "from": "one-pass", "to": "none"}],
        "median_error": None, "advice": None,
    }  # fmt: skip


def cache(requested=64 * MIB):
    """A miss-ratio curve that falls to a tenth, and a cache of a requested size."""
    sizes = [MIB << power for power in range(11)]
    traffic = {
        "flash_read_bytes": 5 << 30, "flash_write_bytes": 1 << 30, "disk_read_bytes": 3 << 30,
        "disk_write_bytes": 1 << 30, "elapsed_s": 12.5, "read_bytes_per_s": 7e8,
    }  # fmt: skip
    account = {
        "object": "orders", "class": "scan", "requests": 4000, "bytes": 8 << 30, "hits": 3000,
        "hit_bytes": 6 << 30, "lost_hits": 0, "flash_write_bytes": 0, "disk_write_bytes": 0,
    }  # fmt: skip
    return {
        "schema": "spillcast.cache/1", "line_bytes": 65536,
        "cache": {
            "size_bytes": requested, "policy": "keep", "keep": ["orders"], "temp_writes": True,
            "without": traffic, "runs": [{"hit_ratio": 0.75, **traffic, "accounts": [account]}],
            "cached": [{"object": "orders", "bytes": 1 << 20, "bytes_per_cell": 1 << 20}],
        },
        "curve": {
            "policy": "lru", "sampled": 1.0, "error_max": 0.0, "requests": 4000,
            "data_bytes": 1 << 30,
            "enough_bytes": 512 * MIB, "size_bytes": sizes,
            "miss_ratio": [1 - 0.09 * n for n in range(11)],
        },
        "warnings": ["offsets of one object are not known"],
    }  # fmt: skip


def forecast(target="local NVMe", **changes):
    """The published case: 773 s, of which temp reads take 418 s."""
    terms = [
        {"name": "CPU and other waits", "op": None, "bytes": None, "count": None,
         "baseline_s": 340.0, "forecast_s": 340.0},
        {"name": "temp read", "op": "read", "bytes": 1 << 30, "count": 46449, "baseline_s": 418.0,
         "forecast_s": 8.0},
        {"name": "temp write", "op": "write", "bytes": 1 << 30, "count": 43478, "baseline_s": 15.0,
         "forecast_s": 2.0},
    ]  # fmt: skip
    return {
        "schema": "spillcast.forecast/1", "target": target, "baseline_s": 773.0,
        "forecast_s": 350.0, "interval_s": [330.0, 372.0], "confidence": 0.9, "ceiling_s": 340.0,
        "ceiling_interval_s": [325.0, 352.0],
        "speedup": 773 / 350, "ceiling_share": 0.98, "terms": terms, "method": "counts",
        "warnings": [], "refused": None, "advice": [], "work_memory": None, "part": None, **changes,
    }  # fmt: skip


def fleet(dataset="/srv/fleet"):
    """Two databases, three statements and two days; the first statement has three quarters."""

    def statement(sql, database, saved_s, so_far):
        return {
            "database": database, "sql": sql, "evidence": "traces", "sources": 2,
            "elapsed_s": 2 * saved_s, "temp_s": saved_s, "forecast_s": saved_s, "refused": None,
            "interval_s": [0.9 * saved_s, 1.1 * saved_s], "saved_s": saved_s,
            "saved_interval_s": [0.9 * saved_s, 1.1 * saved_s], "share": saved_s / 4000,
            "cumulative_share": so_far, "p50_us": None, "p95_us": None,
        }  # fmt: skip

    statements = [
        statement("4ggzt5rasdfjv", "erp01", 3000.0, 0.75),
        statement("2rcf0t9ctrrqh", "erp02", 600.0, 0.9),
        statement("nddz0hdjvxfmm", "erp01", 400.0, 1.0),
    ]
    databases = [
        {"database": name, "statements": n, "elapsed_s": 2 * s, "temp_s": s, "saved_s": s,
         "saved_interval_s": [0.9 * s, 1.1 * s], "share": s / 4000}
        for name, n, s in (("erp01", 2, 3400.0), ("erp02", 1, 600.0))
    ]  # fmt: skip
    return {
        "schema": "spillcast.fleet/1", "dataset": dataset, "target": "catalogue:aws-gp3",
        "boost": "direct path*temp", "confidence": 0.9, "elapsed_s": 8000.0, "temp_s": 4000.0,
        "saved_s": 4000.0, "saved_interval_s": [3600.0, 4400.0], "most": 0.8,
        "statements_for_most": 2, "cost": None, "cost_per_saved_hour": None, "sources": 6,
        "set_aside": 0, "statements": statements, "databases": databases,
        "days": [{"day": f"2026-03-0{n}", "temp_s": 2000.0, "saved_s": 2000.0} for n in (1, 2)],
        "warnings": ["one export covers a part of a day"],
    }  # fmt: skip


def save(path, document):
    """Writes a document; returns its path."""
    path.write_text(json.dumps(document))
    return path
